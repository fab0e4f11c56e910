"""Rejected records over runs: listed, grouped, exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from tests.support.event_log_files import csv_text
from tests.support.local_engine import EngineSwitch

JOB = """
[[sources]]
format = "event-log"
name = "hr"
snapshots = ["in"]

[dispatch]
path = "out"
"""


def row(number: int, **values: object) -> dict[str, object]:
    usual: dict[str, object] = {
        "record_id": str(number),
        "table_key": f"idu={number}",
        "status": "N",
        "event_type": "1",
        "event_time": "2026-01-01 00:00:00",
        "perpetrator": "ann",
        "table_name": "indirect.usr",
        "column_name": "fname",
        "old_value": "",
        "new_value": f"Ann {number}",
    }
    return usual | values


class RejectJob:
    """A job in a directory of its own; each publication reads one new file."""

    def __init__(self, base: Path) -> None:
        self.base = base
        (base / "hr.toml").write_text(JOB)
        (base / "in").mkdir()

    def publish(self, name: str, rows: list[dict[str, object]], more: str = "") -> Result:
        (self.base / "in" / name).write_text(csv_text(rows) + more)
        return self.run("publish", "--engine", "local")

    def run(self, command: str, *words: object) -> Result:
        config = str(self.base / "hr.toml")
        return CliRunner().invoke(cli, [command, "-c", config, *map(str, words)])

    def groups(self, *words: object) -> list[dict]:
        result = self.run("rejects", "--json", *words)
        assert result.exit_code == 0, result.output
        found: list[dict] = json.loads(result.stdout)
        return found


@pytest.fixture
def job(tmp_path: Path, local_engine: EngineSwitch) -> RejectJob:
    del local_engine
    return RejectJob(tmp_path)


def test_rejects_of_all_runs_are_grouped_by_reason(job: RejectJob) -> None:
    job.publish("a.csv", [row(1), row(2, event_type="9"), row(3, table_key="")], "broken,line\n")
    job.publish("b.csv", [row(4, event_type="0"), row(5)])
    groups = job.groups()
    assert [(g["reason"], g["records"], g["runs"], g["retried"]) for g in groups] == [
        ("event-type", 2, 2, 0),
        ("broken-record", 1, 1, 0),
        ("table-key", 1, 1, 0),
    ]
    assert groups[0]["sample"]["position"] == "4"
    assert "fix the trigger" in groups[0]["sample"]["detail"]
    assert [g["reason"] for g in job.groups("--reason", "table-key")] == ["table-key"]
    assert job.groups("--source", "other") == []
    text = job.run("rejects").stdout
    assert "hr: event-type: 2 record(s) in 2 run(s)" in text
    assert "for instance 4 of idu=4 of usr" in text or "for instance 4 in run hr-000002" in text


def test_raw_records_are_exported_to_a_private_file(job: RejectJob) -> None:
    job.publish("a.csv", [row(1), row(2, event_type="9")], "broken,line\n")
    target = job.base / "fixed.jsonl"
    assert "fixed.jsonl: 2 record(s)" in job.run("rejects", "--export", target).stdout
    entries = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(entry["id"], entry["format"], entry["reason"]) for entry in entries] == [
        ("hr-000001:0:3", "event-log", "event-type"),
        ("hr-000001:0:4", "event-log", "broken-record"),
    ]
    assert entries[0]["raw"]["event_type"] == "9"
    assert entries[1]["raw"] == "broken,line"
    assert target.stat().st_mode & 0o077 == 0
    again = job.run("rejects", "--export", target)
    assert again.exit_code == 1
    assert "exists" in again.stderr.casefold()


def test_hostile_values_are_shown_as_escapes(job: RejectJob) -> None:
    job.publish("a.csv", [row(2, event_type="\x1b[31m9", new_value="x" * 100_000)])
    text = job.run("rejects").stdout
    assert "\x1b" not in text
    assert len(text) < 2_000


def test_a_job_without_rejects(job: RejectJob) -> None:
    job.publish("a.csv", [row(1)])
    assert job.run("rejects").stdout == "no rejected records\n"
    assert job.groups() == []


def test_no_journal_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["rejects"])
    assert result.exit_code == 2
    assert "no journal is given" in result.stderr
