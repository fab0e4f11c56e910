"""``explain -c`` shows the row of a live table that a record was, as it is in the database now."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from tests.services.databases import Place
from tests.support.local_engine import EngineSwitch

LOG = """
[[sources]]
name = "hr"
table = "event_log"

[database]
url = "{url}"

[dispatch]
path = "out"
"""
CHANGES = """
[[sources]]
name = "hr"
format = "change-table"
table = "usr__ct"
mask_order = "msb"
key = ["idu"]
pair_wait = 0

[database]
url = "{url}"

[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string" }}

[dispatch]
path = "out"
"""
SEQ = "2026050411180600" + "0" * 18


class ShownJob:
    def __init__(self, place: Place, base: Path, job: str) -> None:
        self.place, self.path = place, base / "hr.toml"
        self.path.write_text(job.format(url=place.url))

    def run(self, command: str, *words: str) -> Result:
        return CliRunner().invoke(cli, [command, "-c", str(self.path), *words])

    def publish(self) -> None:
        done = self.run("publish", "--engine", "local")
        assert done.exit_code in (0, 4), done.output

    def story(self, position: str) -> dict[str, Any]:
        done = self.run("explain", position, "--json")
        assert done.exit_code == 0, done.output
        (story,) = json.loads(done.stdout)
        return dict(story)

    def record(self, position: str) -> str:
        """The line about the record."""
        done = self.run("explain", position)
        assert done.exit_code == 0, done.output
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("record ")]
        return line.removeprefix("record").strip()


def log_row(number: int, value: str = "Ann", time: str = "2026-01-01 00:00:00") -> str:
    return (
        "INSERT INTO event_log (record_id, table_key, status, event_type, event_time, perpetrator,"
        f" table_name, column_name, old_value, new_value) VALUES ({number}, 'idu={number}', 'N', 1,"
        f" '{time}', 'ann', 'usr', 'fname', NULL, '{value}')"
    )


@pytest.fixture
def logged(place: Place, tmp_path: Path, local_engine: EngineSwitch) -> ShownJob:
    del local_engine
    moment = "DATETIME" if place.kind == "mariadb" else "TIMESTAMP"
    place.execute(
        "CREATE TABLE event_log (record_id INTEGER, table_key VARCHAR(80), status CHAR(1),"
        f" event_type INTEGER, event_time {moment} NULL, perpetrator VARCHAR(40),"
        " table_name VARCHAR(40), column_name VARCHAR(40), old_value TEXT, new_value TEXT)",
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(40))",
        *(log_row(number) for number in range(1, 4)),
        log_row(4, "x\x01y"),
    )
    job = ShownJob(place, tmp_path, LOG)
    job.publish()
    return job


def test_row_of_a_log_is_shown_whatever_its_status(logged: ShownJob) -> None:
    raw = json.loads(logged.record("2"))
    assert (raw["record_id"], raw["status"], raw["new_value"]) == ("2", "S", "Ann")
    assert raw["event_time"].startswith("2026-01-01 00:00:00")
    assert json.loads(logged.record("4"))["status"] == "E"
    story = logged.story("2")
    assert json.loads(story["raw"]) == raw
    assert logged.story("idu=3")["raw"] is not None


def test_row_that_is_gone_or_another_one_is_not_shown(logged: ShownJob) -> None:
    logged.place.execute(
        "DELETE FROM event_log WHERE record_id IN (1, 2)", log_row(2, time="2026-02-02 00:00:00")
    )
    assert logged.record("1") == "not shown: table event_log has no row of this position any more"
    expected = "not shown: table event_log has another row there now, not the one that was read"
    assert logged.record("2") == expected
    assert "Ann" in logged.record("3")


def test_without_the_job_file_explain_says_what_to_name(logged: ShownJob) -> None:
    ledger_run = str(logged.path.parent / ".xds-publisher" / "hr")
    done = CliRunner().invoke(cli, ["explain", ledger_run, "2"])
    assert "not shown: table event_log is in a database: name the job file with -c" in done.stdout


def test_database_that_does_not_answer_is_not_waited_for(logged: ShownJob) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"postgresql://ann:secret@127.0.0.1:{port}/hr"
        text = logged.path.read_text()
        logged.path.write_text(text.replace(logged.place.url, url))
        begun = time.monotonic()
        shown = logged.record("2")
        assert time.monotonic() - begun < 9
    assert shown.startswith("not shown: ")
    assert "has not answered" in shown
    assert "secret" not in shown
    refused = logged.record("2")
    assert refused.startswith("not shown: ")
    assert str(port) in refused or "has not answered" in refused


@pytest.fixture
def changed(place: Place, tmp_path: Path, local_engine: EngineSwitch) -> ShownJob:
    del local_engine
    place.execute(
        "CREATE TABLE usr__ct (header__change_seq VARCHAR(35), header__change_oper CHAR(1),"
        " header__change_mask VARCHAR(40), header__stream_position VARCHAR(40),"
        " header__operation VARCHAR(12), header__transaction_id VARCHAR(32),"
        " header__timestamp VARCHAR(26), idu INTEGER, fname VARCHAR(40))",
        _change(1, "I", 1, "Ann"),
        _change(2, "B", 1, "Ann"),
        _change(2, "U", 1, "Eve"),
    )
    job = ShownJob(place, tmp_path, CHANGES)
    job.publish()
    return job


def _change(number: int, kind: str, idu: int, fname: str) -> str:
    word = {"I": "INSERT", "B": "BEFOREIMAGE", "U": "UPDATE"}[kind]
    return (
        f"INSERT INTO usr__ct VALUES ('{SEQ}{number}', '{kind}', '0180', 'p', '{word}', 't{number}',"
        f" '2026-05-04 11:18:06', {idu}, '{fname}')"
    )


def test_row_of_a_change_table_is_shown(changed: ShownJob) -> None:
    assert json.loads(changed.record(f"{SEQ}1"))["fname"] == "Ann"
    images = json.loads(changed.record(f"{SEQ}2"))
    assert sorted(image["fname"] for image in images) == ["Ann", "Eve"]
    changed.place.execute(f"UPDATE usr__ct SET idu = 9 WHERE header__change_seq = '{SEQ}1'")
    assert "has another row there now" in changed.record(f"{SEQ}1")
    changed.place.execute("DELETE FROM usr__ct")
    assert "has no row of this position any more" in changed.record(f"{SEQ}2")
