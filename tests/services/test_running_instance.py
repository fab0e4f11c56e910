"""Commands beside an instance that follows the job: only another one that follows takes over."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.process import Started
from tests.support.programs import start_program

JOB = """\
[[sources]]
name = "hr"
schema = "indirect"
table = "log"
[[sources]]
name = "compared"
format = "triggerless"
snapshots = ["{folder}/usr.csv"]
[tables.usr]
key = ["idu"]
[database]
url = "sqlite:///{folder}/hr.db"
[dispatch]
path = "{folder}/out"
[run]
engine = "local"
[ledger]
path = "{folder}/ledger"
[follow]
"""
AT_MIDNIGHT = 'publication_times = ["00:00"]'
LOG = (
    "CREATE TABLE log (record_id INTEGER, table_key TEXT, status TEXT, event_type INTEGER, event_time TEXT,"
    " perpetrator TEXT, table_name TEXT, column_name TEXT, old_value TEXT, new_value TEXT)"
)


class Job:
    """A job of an event log in SQLite and of a file, and the commands that are given it."""

    def __init__(self, folder: Path, follow: str = AT_MIDNIGHT) -> None:
        self.folder = folder
        self.path = folder / "hr.toml"
        self.path.write_text(JOB.format(folder=folder) + f"{follow}\n")
        (folder / "usr.csv").write_text("idu,fname\n1,Ann\n2,Bob\n")
        self.sql(LOG)

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.folder / "hr.db", timeout=30) as database:
            rows = database.execute(statement).fetchall()
        database.close()
        return rows

    def add(self, record_id: int, event_type: int = 1) -> None:
        self.sql(
            f"INSERT INTO log VALUES ({record_id}, 'idu={record_id}', 'N', {event_type},"
            f" '2026-01-01 00:00:00', 'anna', 'usr', 'fname', NULL, 'Jack')"
        )

    def statuses(self) -> str:
        return "".join(str(row[0]) for row in self.sql("SELECT status FROM log ORDER BY record_id"))

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code and output of a command."""
        command = [words[0], "-c", str(self.path), *words[1:]]
        process = start_program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, messages = process.communicate(timeout=120)
        return process.returncode, output + messages

    @contextmanager
    def service(self) -> Iterator[Started]:
        """An instance that has taken the job over, and has polled."""
        with Started(["publish", "--follow", "-c", str(self.path), "--json"]) as started:
            started.wait_until(lambda: '"event": "begun"' in started.messages())
            yield started


def polls(service: Started) -> int:
    """The number of runs that a service has published."""
    events = [json.loads(line) for line in service.messages().splitlines() if line[:1] == "{"]
    return sum(event["event"] == "poll" for event in events)


def end(service: Started) -> None:
    """Ends a service, which was alive until now."""
    assert service.process.poll() is None, service.messages()
    service.process.terminate()
    assert service.wait_for_end()[0] == 0


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.mark.parametrize("follow", ["polling_interval = 3600", AT_MIDNIGHT])
def test_publish_makes_the_running_instance_poll(tmp_path: Path, follow: str) -> None:
    job = Job(tmp_path, follow)
    assert job.run("publish")[0] == 0  # the rows of the file
    with job.service() as service:
        time.sleep(1)  # its first poll
        job.add(1)
        job.add(2)
        code, output = job.run("publish")
        assert (code, job.statuses()) == (0, "SS"), output
        assert "2 read" in output, output
        who = f"publish --follow on {socket.gethostname()}, process {service.process.pid}, since 20"
        assert f"note: the running instance of job hr ({who}" in output
        code, output = job.run("publish", "--json")
        assert (code, json.loads(output.partition("note:")[0])["read"]) == (0, 0)
        job.add(3, event_type=9)
        code, output = job.run("publish")
        assert (code, job.statuses()) == (4, "SSE"), output
        assert polls(service) == 2
        end(service)
    assert not list((tmp_path / "ledger").glob("**/*.json.new"))
    assert not list((tmp_path / "ledger").glob("**/*.order.json"))
    assert not list((tmp_path / "ledger").glob("**/*.answer.json"))


@pytest.mark.parametrize(
    "words",
    [
        ["publish", "--now", "2026-02-01T00:00:00"],
        ["publish", "--lanes", "1"],
        ["publish", "--log", "json"],
        ["migrate", "--table", "usr"],
        ["rejects", "--retry", "{folder}/fixed.jsonl"],
    ],
)
def test_a_command_that_would_end_the_instance_names_it_and_ends(
    job: Job, words: list[str]
) -> None:
    job.add(1, event_type=9)
    assert job.run("publish")[0] == 4
    fixed = job.folder / "fixed.jsonl"
    assert job.run("rejects", "--export", str(fixed))[0] == 0
    fixed.write_text(fixed.read_text().replace('"event_type": "9"', '"event_type": "1"'))
    words = [word.format(folder=job.folder) for word in words]
    with job.service() as service:
        job.add(2)
        code, output = job.run(*words)
        assert code == 7, output
        name = f"{socket.gethostname()}, process {service.process.pid}"
        pattern = (
            rf"error: job hr is followed by another instance \(publish --follow on {name}, since "
        )
        assert re.search(pattern + r"[-0-9: ]* UTC, last sign of life \d+ s ago\)", output), output
        assert job.statuses() == "EN"
        end(service)
    code, output = job.run(*words)
    assert code == 0, output


def test_dry_runs_and_questions_neither_wake_nor_end_the_instance(job: Job) -> None:
    job.add(1, event_type=9)
    assert job.run("publish")[0] == 4
    with job.service() as service:
        before = polls(service)
        assert job.run("retry")[0] == 0
        job.add(2)
        for words in (
            ["publish", "--dry-run"],
            ["migrate", "--dry-run"],
            ["verify", "--wait", "0"],
            ["retry", "--dry-run"],
            ["status"],
            ["check"],
        ):
            code, output = job.run(*words)
            assert code in (0, 3, 4), output
        assert (job.statuses(), polls(service)) == ("NN", before)
        end(service)


def test_a_killed_instance_is_in_nobodys_way(job: Job) -> None:
    with job.service() as service:
        service.kill()
        job.add(1)
        code, output = job.run("publish", "--lanes", "1")
    assert (code, job.statuses()) == (0, "S"), output


def test_an_instance_that_follows_takes_over_and_answers(job: Job) -> None:
    assert job.run("publish")[0] == 0
    with job.service() as older, job.service() as newer:
        job.add(1)
        code, output = job.run("publish")
        while (
            code == 1 and "a newer instance of the job works" in output
        ):  # the older one has taken it
            code, output = job.run("publish")
        assert (code, job.statuses()) == (0, "S"), output
        end(newer)
    del older


def test_a_replaced_instance_ends_with_6(tmp_path: Path) -> None:
    job = Job(tmp_path, "polling_interval = 0.1")
    with job.service() as older, job.service() as newer:
        job.add(1)
        assert older.wait_for_end()[0] == 6
        newer.wait_until(lambda: job.statuses() == "S")
        end(newer)


def test_what_the_instance_cannot_reach_is_code_5(job: Job) -> None:
    assert job.run("publish")[0] == 0
    with job.service() as service:
        (job.folder / "usr.csv").rename(job.folder / "away.csv")
        code, output = job.run("publish")
        assert code == 5, output
        assert "error: the running instance failed: " in output
        (job.folder / "away.csv").rename(job.folder / "usr.csv")
        job.add(1)
        code, output = job.run("publish")
        assert (code, job.statuses()) == (0, "S"), output
        end(service)


@pytest.mark.long
def test_a_halted_instance_is_named_after_a_while(job: Job) -> None:
    assert job.run("publish")[0] == 0
    with job.service() as service:
        time.sleep(0.5)
        service.pause()
        job.add(1)
        code, output = job.run("publish")
        assert code == 7, output
        assert f"process {service.process.pid}, since" in output
        assert "which has not finished a poll within" in output
        service.resume()
        code, output = job.run("publish")
        assert (code, job.statuses()) == (0, "S"), output
        end(service)
