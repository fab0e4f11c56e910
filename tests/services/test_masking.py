"""Masked jobs over a live log: topics, statuses, metrics, log lines and traces."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from tests.services.topics import Topics
from tests.support.planted_logs import JOB, MASKING, PlantedLog
from tests.support.planted_values import PlantedValues

pytestmark = pytest.mark.usefixtures("local_engine")

SINK = """
[documents]
minimal = true
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
dead_letter_topic = "{letters}"
[metrics]
textfile = "metrics.prom"
"""


def statuses(folder: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "hr.db")) as connection:
        return connection.execute("SELECT record_id, status FROM log ORDER BY rowid").fetchall()


def add(folder: Path, record_id: int | None, value: str) -> None:
    """Adds a row to the log; without an id it is rejected, and read by every run."""
    with closing(sqlite3.connect(folder / "hr.db")) as connection:
        connection.execute(
            "INSERT INTO log (record_id, table_key, status, event_type, event_time, table_name, "
            "column_name, new_value) VALUES (?, 'idu=1', 'N', 3, '2024-05-06', 'usr', 'fname', ?)",
            (record_id, value),
        )
        connection.commit()


def fingerprints_below(folder: Path) -> set[int]:
    paths = folder.rglob("lane-*.decisions.parquet")
    columns = [pq.read_table(path, columns=["fingerprint"])["fingerprint"] for path in paths]
    return {number for column in columns for number in column.to_pylist() if number is not None}


def records(kafka: Topics, topic: str) -> str:
    """Everything that consumers of a topic see."""
    return "\n".join(str(record) for record in kafka.read(topic))


def export_letters(folder: Path, *options: str) -> list[dict[str, Any]]:
    """Exports the dead letters of a job as they were."""
    target = folder.with_suffix(".jsonl")
    words = ["--dead-letters", "--export", str(target), *options]
    result = CliRunner().invoke(cli, ["rejects", "-c", str(folder / "job.toml"), *words])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in target.read_text("utf-8").splitlines()]


def retry_letter(folder: Path, entries: list[dict[str, Any]]) -> str:
    """Publishes a dead letter after its time is corrected."""
    entry = next(entry for entry in entries if entry["reason"] == "event-time")
    entry = entry | {"raw": entry["raw"] | {"event_time": "2024-05-06"}}
    target = folder.with_suffix(".fixed")
    target.write_text(json.dumps(entry), "utf-8")
    words = ["--engine", "local", "--retry", str(target)]
    result = CliRunner().invoke(cli, ["rejects", "-c", str(folder / "job.toml"), *words])
    assert "1 read = 1 published" in result.stdout
    return result.output


def test_a_live_log_is_masked_in_topics(
    tmp_path: Path, kafka: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASK_KEY", "pvmaskingkey" * 3)
    planted = PlantedValues()
    inputs = tmp_path / "in"
    inputs.mkdir()
    PlantedLog(planted, inputs, 100).write()
    planted.tokens.add(b"pvmaskingkey")
    planted_name = planted.text()
    found, letters_of, counts, fingerprints, retried, opened = {}, {}, {}, {}, {}, {}
    job_text = JOB.replace("future_events = true\n", "").replace("[documents]\n", "")
    for name, settings in {"masked": MASKING, "open": ""}.items():
        folder, data = tmp_path / name, tmp_path / f"{name}-data"
        folder.mkdir()
        shutil.copytree(inputs, data)
        add(data, None, planted_name)
        topic, letters = kafka.make(partitions=2), kafka.make()
        sink = SINK.format(bootstrap=kafka.bootstrap, topic=topic, letters=letters)
        source = job_text.replace("[source]\n", '[source]\ntable = "log"\nstatus = "N"\n')
        text = f'[database]\nurl = "sqlite:///{data}/hr.db"\n{source}{sink}{settings}'
        (folder / "job.toml").write_text(text.replace('forbidden = "reject"\n', ""))
        options = ["--log", "text", "--trace", "5", "-c", str(folder / "job.toml")]
        result = CliRunner().invoke(cli, ["publish", *options])
        assert result.exit_code == 4, result.output
        add(data, 9999, "added later")
        again = CliRunner().invoke(cli, ["publish", *options])
        shown = [result.output, again.output, records(kafka, topic), records(kafka, letters)]
        found[name] = planted.find_below(folder) | planted.find_in(*shown)
        fingerprints[name] = fingerprints_below(folder)
        retried[name] = (
            CliRunner().invoke(cli, ["retry", "--reason", "value", "-c", options[-1]]).output
        )
        counts[name] = again.stdout
        opened[name] = export_letters(folder, *(["--unmasked"] if settings else []))
        shown = [retry_letter(folder, opened[name]), records(kafka, topic), records(kafka, letters)]
        found[name] |= planted.find_below(folder) | planted.find_in(*shown)
        letters_of[name] = statuses(data)
    assert found["masked"] == set()
    assert opened["masked"] == opened["open"]
    assert len(found["open"]) > 500
    assert "2 read = 1 published + 0 superseded + 1 ignored" in counts["masked"]
    assert len(fingerprints["masked"]) == len(fingerprints["open"]) > 100
    assert fingerprints["masked"].isdisjoint(fingerprints["open"])
    assert retried["masked"] == retried["open"] != "log: rows of log reset to N: 0\n"
    # a topic refuses the document with a value of a megabyte, but not its hash
    sent = [
        (record_id, "S" if letter == "F" else letter) for record_id, letter in letters_of["open"]
    ]
    assert letters_of["masked"] == sent
    assert {letter for _, letter in letters_of["masked"]} >= {"S", "W", "E"}
