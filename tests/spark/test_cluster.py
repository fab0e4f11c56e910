"""Executors that are processes of their own: they run the package that the driver sends them, see the
ledger's directory, and do the work of a whole replay."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from publisher.runs.replay import replay
from tests.support import whole_log as log

ROOT = Path(__file__).parents[2]
CLUSTER = """
[spark]
master = "local-cluster[2,1,1024]"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"""
PROGRAM = """
import os, sys
from pathlib import Path
from publisher import dataframes
from publisher.cli.main import cli
from publisher.config.job_file import load
from publisher.engine.spark.package_shipping import probe, ship
from publisher.engine.spark.session import spark_session
from publisher.errors import PublisherError

job, ledger, foreign = map(Path, sys.argv[1:4])
with spark_session(load(job).spark) as spark:
    digest = ship(spark)
    print("executors", probe(spark, digest, ledger=ledger))
    parsed = dataframes.changes(spark, sys.argv[5], job=job, scratch=ledger.parent)
    print("records", parsed.count())
    print("left", sorted(os.listdir(ledger)))
    for wrong in ("0000", digest):
        try:
            print("executors", probe(spark, wrong, ledger=foreign if wrong == digest else ledger))
        except PublisherError as error:
            print(type(error).__name__, error)
    cli(sys.argv[4:])
"""


def test_executors_run_the_shipped_package_see_the_ledger_and_publish_the_same_bytes(
    tmp_path: Path,
) -> None:
    with sqlite3.connect(tmp_path / "rows.db") as database:
        database.executescript(
            "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, lname TEXT, photo BLOB);"
            "CREATE TABLE usr_history (idu INTEGER PRIMARY KEY, fname TEXT);"
            "INSERT INTO usr VALUES (2, 'Zoë', NULL, x'00'), (3, 'Jo', 'Doe', NULL);"
            "CREATE VIEW view_twice AS SELECT 7 AS pk_a, idu FROM usr;"
        )
    url = f"sqlite:///{tmp_path / 'rows.db'}"
    snapshot = log.write_parquet(tmp_path / "log.parquet")
    here, there = tmp_path / "here", tmp_path / "there"
    replay(log.settings(tmp_path / "job.toml", database=url, engine="local"), [snapshot], str(here))
    assert log.count_fates(here) == log.fates(database=True, broken=1)

    job = log.job(tmp_path / "job.toml", rest=CLUSTER)
    words = ["replay", snapshot, "--to", there, "-c", job, "--database", url, "--json"]
    done = subprocess.run(
        [
            *(sys.executable, "-c", PROGRAM),
            *map(str, [job, tmp_path / "ledger", tmp_path / "other", *words]),
        ],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert lines[:3] == ["executors 2", f"records {len(log.LOG) + 1}", "left []"]
    assert lines[3].startswith("FatalError executor ")
    assert "not the one that was sent" in lines[3]
    assert lines[4] == "executors 2"
    assert json.loads("".join(lines[5:]))["state"] == "published"
    assert log.published_files(there) == log.published_files(here)
