"""``rejects`` shows the records that are rejected now, and no position is published twice.

A live log in each database: rows are corrected in the log and requeued by ``retry``, or corrected in a file
and published by ``rejects --retry``, in any order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.consumer import Inbox, Objects, part_files, read_files
from tests.services.databases import Place
from tests.support.local_engine import EngineSwitch

JOB = """
[[sources]]
name = "hr"
table = "event_log"

[database]
url = "{url}"

[dispatch]
path = "out"
"""
COLUMNS = (
    "(record_id, table_key, status, event_type, event_time, perpetrator, table_name, column_name, old_value,"
    " new_value)"
)


class LoggedJob:
    """A job that publishes a live log; its rows are written by SQL."""

    def __init__(self, place: Place, base: Path) -> None:
        self.place, self.base, self.path = place, base, base / "hr.toml"
        moment = "DATETIME" if place.kind == "mariadb" else "TIMESTAMP"
        place.execute(
            "CREATE TABLE event_log (record_id INTEGER, table_key VARCHAR(80), status CHAR(1),"
            f" event_type INTEGER, event_time {moment} NULL, perpetrator VARCHAR(40),"
            " table_name VARCHAR(40), column_name VARCHAR(40), old_value TEXT, new_value TEXT)",
            "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(40))",
        )
        self.path.write_text(JOB.format(url=place.url))

    def log(self, number: int, column: str = "fname", value: str = "Ann", kind: int = 1) -> None:
        self.place.execute(
            f"INSERT INTO event_log {COLUMNS} VALUES ({number}, 'idu={number}', 'N', {kind},"
            f" '2026-01-01 00:00:00', 'ann', 'usr', '{column}', NULL, '{value}')"
        )

    def change(self, number: int, change: str) -> None:
        self.place.execute(f"UPDATE event_log SET {change} WHERE record_id = {number}")

    def statuses(self) -> dict[int, str]:
        rows = self.place.query("SELECT record_id, status FROM event_log")
        return {int(number): str(status) for number, status in rows}

    def run(self, command: str, *words: object) -> Result:
        return CliRunner().invoke(cli, [command, "-c", str(self.path), *map(str, words)])

    def publish(self) -> Result:
        done = self.run("publish", "--engine", "local")
        assert done.exit_code in (0, 4), done.output
        return done

    def rejected(self) -> list[tuple[str, int, int]]:
        """Reason, records and runs of each group."""
        done = self.run("rejects", "--json")
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        return [(g["reason"], g["records"], g["runs"]) for g in json.loads(done.stdout)]

    def export(self, name: str = "c.jsonl") -> tuple[Result, list[dict[str, Any]]]:
        done = self.run("rejects", "--export", self.base / name)
        assert done.exit_code == 0, done.output
        lines = (self.base / name).read_text("utf-8").splitlines()
        return done, [json.loads(line) for line in lines]

    def correct(self, name: str = "c.jsonl", **values: str) -> None:
        """Corrects all records of an exported file."""
        path = self.base / name
        entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for entry in entries:
            entry["raw"] |= values
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries), "utf-8")

    def retry_file(self, name: str = "c.jsonl", *words: str) -> Result:
        return self.run("rejects", "--engine", "local", "--retry", self.base / name, *words)

    def published(self) -> Counter[str]:
        """The number of documents of each object, which has the number of its row."""
        text = "".join(path.read_text("utf-8") for path in part_files(self.base / "out"))
        return Counter(re.findall(r"<association>idu=(\d+)", text))


@pytest.fixture
def job(place: Place, tmp_path: Path, local_engine: EngineSwitch) -> LoggedJob:
    del local_engine
    return LoggedJob(place, tmp_path)


def test_row_that_was_corrected_in_the_log_is_gone(job: LoggedJob) -> None:
    job.log(30, column="")
    job.log(31, column="")
    job.publish()
    assert job.rejected() == [("column-name", 2, 1)]
    _, entries = job.export()
    assert {entry["position"] for entry in entries} == {"30", "31"}
    job.change(30, "column_name = 'fname', new_value = 'Fixed'")
    assert job.run("retry").exit_code == 0
    assert job.rejected() == []  # both wait for the next run
    job.publish()
    assert job.rejected() == [("column-name", 1, 1)]  # 31 was tried twice: one record
    _, entries = job.export("later.jsonl")
    assert [entry["position"] for entry in entries] == ["31"]


def test_file_that_was_exported_before_is_refused_by_name(job: LoggedJob) -> None:
    job.log(30, column="")
    job.log(31, column="")
    job.publish()
    job.export()
    job.change(30, "column_name = 'fname', new_value = 'Fixed'")
    job.run("retry", "--position", "30")
    job.correct(column_name="fname", new_value="Bad")
    early = job.retry_file("c.jsonl", "--dry-run")
    assert "30 is left out: its row in event_log has the status N" in early.stderr.replace(
        "\n", " "
    )
    assert f"xds-publisher publish -c {job.path}" in early.stderr
    job.publish()
    done = job.retry_file()
    assert done.exit_code == 0, done.output
    assert "30 (hr-000001:0:1) is left out: read again in run hr-000002: published" in done.stderr
    assert f"xds-publisher explain -c {job.path} 30" in done.stderr
    assert job.published() == {"30": 1, "31": 1}
    again = job.retry_file()
    assert again.exit_code == 2
    assert "nothing to retry" in again.stderr


def test_row_that_was_rejected_again_is_exported_again(job: LoggedJob) -> None:
    job.log(30, column="")
    job.publish()
    job.export()
    job.run("retry")
    job.publish()
    job.correct(column_name="fname")
    done = job.retry_file()
    assert done.exit_code == 2
    assert (
        "30 (hr-000001:0:1) is left out: read again in run hr-000002: rejected (column-name)"
        in done.stderr
    )
    assert f"xds-publisher rejects -c {job.path} --export" in done.stderr
    job.export("new.jsonl")
    job.correct("new.jsonl", column_name="fname")
    assert job.retry_file("new.jsonl").exit_code == 0
    assert job.rejected() == []


def test_corrected_record_is_not_requeued(job: LoggedJob) -> None:
    job.log(30, column="")
    job.log(31, column="")
    job.publish()
    job.export()
    lines = sorted((job.base / "c.jsonl").read_text().splitlines(), key=lambda line: '"31"' in line)
    (job.base / "c.jsonl").write_text(lines[0] + "\n")
    job.correct(column_name="fname")
    assert job.retry_file().exit_code == 0
    assert job.rejected() == [("column-name", 1, 1)]
    for words in ([], ["--position", "30", "--position", "31"], ["--reason", "column-name"]):
        done = job.run("retry", *words)
        assert done.exit_code == 0, done.output
        assert "30" in done.stderr
        assert "rejects --retry" in done.stderr
        assert job.statuses() == {30: "E", 31: "N"}
        job.change(31, "status = 'E'")
    job.change(31, "column_name = 'fname', status = 'N'")
    job.publish()
    assert job.published() == {"30": 1, "31": 1}
    assert job.rejected() == []


def test_correction_that_was_rejected_again_is_requeued_or_corrected(job: LoggedJob) -> None:
    job.log(30, column="")
    job.publish()
    job.export()
    job.correct(event_type="9")
    assert job.retry_file().exit_code == 4
    assert job.rejected() == [("event-type", 1, 1)]
    job.export("again.jsonl")
    job.correct("again.jsonl", event_type="1", column_name="fname")
    job.run("retry")
    assert job.rejected() == []
    early = job.retry_file("again.jsonl")
    assert early.exit_code == 2
    assert "has the status N" in early.stderr
    job.change(30, "status = 'E'")
    assert job.retry_file("again.jsonl").exit_code == 0
    assert "rows 30 keep their status" in job.run("retry").stderr
    assert job.statuses() == {30: "E"}
    assert job.published() == {"30": 1}


def test_changed_position_of_a_correction_is_refused(job: LoggedJob) -> None:
    job.log(29)
    job.log(30, column="")
    job.publish()
    job.export()
    job.correct(column_name="fname", record_id="29")
    done = job.retry_file()
    assert done.exit_code == 2
    assert "record_id 30 is changed to 29" in done.stderr
    assert job.published() == {"29": 1}


def test_records_that_are_not_exported_are_named_with_their_remedy(job: LoggedJob) -> None:
    job.log(31, column="")
    job.log(32, value="x\x01y")
    job.publish()
    done, entries = job.export()
    assert [entry["position"] for entry in entries] == ["31"]
    assert "c.jsonl: 1 record(s); 1 left out" in done.stdout
    assert (
        "32: row of a live table; correct it there, then: xds-publisher retry "
        f"-c {job.path} --position 32" in done.stderr
    )


def test_list_says_what_it_cannot_know(job: LoggedJob) -> None:
    job.log(31, column="")
    job.publish()
    job.run("retry")
    text = job.path.read_text()
    job.path.write_text(text.replace(job.place.url, "postgresql://127.0.0.1:1/none"))
    done = job.run("rejects")
    assert done.exit_code == 0, done.output
    assert "column-name: 1 record(s) in 1 run(s)" in done.stdout
    assert "event_log could not be read" in done.stderr


def test_consumers_have_the_last_word_of_the_log(job: LoggedJob) -> None:
    job.log(30, column="")
    job.log(31)
    job.publish()
    job.export()
    job.change(30, "column_name = 'fname', new_value = 'Fixed'")
    job.run("retry")
    job.publish()
    job.correct(column_name="fname", new_value="Bad")
    assert job.retry_file().exit_code == 2
    objects = Objects()
    objects.apply_all(Inbox().in_order(read_files(part_files(job.base / "out"))))
    (name,) = (name for name in objects if name.startswith("idu=30,"))
    assert objects[name].text("fname") == "Fixed"


def test_report_says_how_many_are_rejected_now(job: LoggedJob) -> None:
    job.log(30, column="")
    job.log(31, column="")
    job.publish()
    job.change(30, "column_name = 'fname', new_value = 'Fixed'")
    job.run("retry")
    job.publish()
    page = job.base / "report.html"
    ledger = str(job.base / ".xds-publisher" / "hr")
    done = CliRunner().invoke(cli, ["report", ledger, "--to", str(page)])
    assert "3 rejected (1 now)" in done.stdout
    assert "1 of them are rejected now" in page.read_text("utf-8")
