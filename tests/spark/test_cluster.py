"""A whole replay on executors that are processes of their own."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from publisher.runs.replay import replay
from tests.support import whole_log as log

ROOT = Path(__file__).parents[2]
CLUSTER = """
[spark]
master = "local-cluster[2,1,1024]"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1"
"""


@pytest.mark.usefixtures("spark")
def test_cluster_publishes_the_same_bytes(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rows.db") as database:
        database.executescript(
            "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, lname TEXT, photo BLOB);"
            "CREATE TABLE usr_history (idu INTEGER PRIMARY KEY, fname TEXT);"
            "INSERT INTO usr VALUES (2, 'Zoë', NULL, x'00'), (3, 'Jo', 'Doe', NULL);"
            "CREATE VIEW view_twice AS SELECT 7 AS a, idu FROM usr;"
        )
    url = f"sqlite:///{tmp_path / 'rows.db'}"
    snapshot = log.write_parquet(tmp_path / "log.parquet")
    here, there = tmp_path / "here", tmp_path / "there"
    replay(log.settings(tmp_path / "job.toml", database=url), [snapshot], str(here))
    assert log.count_fates(here) == log.fates(database=True, broken=1)

    job = log.job(tmp_path / "job.toml", rest=CLUSTER)
    words = ["replay", snapshot, "--to", there, "-c", job, "--database", url, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "publisher.cli", *map(str, words)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "published"
    assert log.published_files(there) == log.published_files(here)
