"""Statuses of one poll are written while the next poll reads and plans."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import load
from publisher.database.connection_cache import keep_connections
from publisher.database.statuses import StatusWriter
from publisher.engine.local.engine import LocalEngine
from publisher.errors import UnreachableError
from publisher.journal.manifest import MANIFEST
from publisher.runs.publisher_instance import PublisherInstance
from tests.chaos.known_log import judge_documents, texts
from tests.chaos.marks import WRITTEN, Marks
from tests.chaos.process import LAUNCHER, Started
from tests.chaos.scenarios import KafkaJob
from tests.services.databases import Place
from tests.services.topics import Topics

JOB = """
[job]
name = "job"
[[sources]]
name = "hr"
format = "event-log"
table = "log"
{source}
[database]
url = "{url}"
[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string" }}
[dispatch]
path = "out"
{rest}
"""


class CountingEngine(LocalEngine):
    """Lets statuses be written once so many runs are planned."""

    def __init__(self, runs: int) -> None:
        super().__init__()
        self._remaining = runs
        self.is_planned = threading.Event()

    def plan(self, *args: Any, **named: Any) -> Any:
        results = super().plan(*args, **named)
        self._remaining -= 1
        if not self._remaining:
            self.is_planned.set()
        return results


def make_log(place: Place, type_: str = "INTEGER") -> None:
    place.execute(
        f"CREATE TABLE log (record_id {type_}, table_key TEXT, status CHAR(1),"
        " event_type INTEGER, event_time TIMESTAMP, perpetrator TEXT, table_name TEXT,"
        " column_name TEXT, old_value TEXT, new_value TEXT)"
    )


def write(place: Place, *ids: int, year: int = 2026) -> None:
    rows = ", ".join(
        f"({n}, 'idu={n}', 'N', 3, '{year}-05-04 08:00', 'hr', 'usr', 'fname', NULL, 'Jack {n}')"
        for n in ids
    )
    place.execute(f"INSERT INTO log VALUES {rows}")


@contextmanager
def publishing(
    place: Place, base: Path, engine: LocalEngine, *, source: str = "", rest: str = ""
) -> Iterator[PublisherInstance]:
    path = base / "job.toml"
    path.write_text(JOB.format(url=place.url, source=source, rest=rest))
    with keep_connections() as cache, PublisherInstance(load(path), engine) as job:
        cache.run += 1
        yield job


def published(base: Path) -> list[int]:
    lines = [
        line
        for p in (base / "out/runs").glob("*/part-*.xds")
        for line in p.read_text().splitlines()
    ]
    return sorted(int(line.partition("Jack ")[2].partition("<")[0]) for line in lines)


def statuses(place: Place) -> dict[int, str]:
    return {int(n): str(s) for n, s in place.query("SELECT record_id, status FROM log")}


def publish(job: PublisherInstance) -> None:
    job.run_once(backlog=job.backlog(), overlaps=True)


def test_the_next_run_reads_only_other_rows(
    postgres: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is committed late, between rows of the first run, belongs to the second."""
    make_log(postgres)
    write(postgres, 1, 2, 4, 5, 9)
    engine = CountingEngine(2)
    real = StatusWriter.write

    def write_late(self: StatusWriter, *args: Any) -> Any:
        assert engine.is_planned.wait(60)
        return real(self, *args)

    monkeypatch.setattr(StatusWriter, "write", write_late)
    with publishing(postgres, tmp_path, engine) as job:
        publish(job)
        assert not job.is_settled
        assert job.backlog().rows == 0
        write(postgres, 3, 10)
        assert set(statuses(postgres).values()) == {"N"}
        assert job.backlog().rows == 2
        publish(job)
        (first,) = job.take_settled()
        job.settle()
        (second,) = job.take_settled()
        assert (first.run, first.statuses, second.statuses) == ("job-000001", {"S": 5}, {"S": 2})
        assert any("below 9" in note for note in second.notes)
        assert job.backlog().rows == 0
    assert published(tmp_path) == [1, 2, 3, 4, 5, 9, 10]
    assert set(statuses(postgres).values()) == {"S"}


def test_a_run_is_not_committed_before_the_statuses_of_the_last_one(
    postgres: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(postgres)
    write(postgres, 1, 2)
    engine = CountingEngine(2)
    real, failures = StatusWriter.write, [UnreachableError("away")]

    def fail_once(self: StatusWriter, *args: Any) -> Any:
        assert engine.is_planned.wait(60)
        if failures:
            raise failures.pop()
        return real(self, *args)

    monkeypatch.setattr(StatusWriter, "write", fail_once)
    with publishing(postgres, tmp_path, engine) as job:
        publish(job)
        write(postgres, 3)
        with pytest.raises(UnreachableError):
            publish(job)
        assert [path.parent.name for path in tmp_path.rglob(MANIFEST)] == ["job-000001"]
        (report,) = job.finish()
        assert (report.run, report.statuses) == ("job-000001", {"S": 2})
        publish(job)
        job.settle()
    assert published(tmp_path) == [1, 2, 3]
    assert set(statuses(postgres).values()) == {"S"}


def test_rows_that_were_replaced_meanwhile_are_read_by_a_later_run(
    postgres: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(postgres)
    write(postgres, 1, 2)
    real = StatusWriter.write

    def replace_before(self: StatusWriter, *args: Any) -> Any:
        monkeypatch.setattr(StatusWriter, "write", real)
        postgres.execute(
            "UPDATE log SET new_value = 'Jack 7', table_key = 'idu=7' WHERE record_id = 2"
        )
        return real(self, *args)

    monkeypatch.setattr(StatusWriter, "write", replace_before)
    with publishing(postgres, tmp_path, LocalEngine()) as job:
        publish(job)
        job.settle()
        assert job.take_settled()[0].statuses == {"S": 1}
        publish(job)
        job.settle()
    assert published(tmp_path) == [1, 2, 7]


@pytest.mark.parametrize(
    ("type_", "year", "source", "rest"),
    [
        ("TEXT", 2026, "", ""),
        ("INTEGER", 3026, "future_events = true", ""),
        ("INTEGER", 2026, "", '[acknowledge]\npost_polling_statements = ["SELECT 1"]'),
    ],
    ids=["ids-of-text", "row-that-stays", "post-polling"],
)
def test_other_runs_wait_for_their_statuses(
    postgres: Place, tmp_path: Path, type_: str, year: int, source: str, rest: str
) -> None:
    make_log(postgres, type_)
    write(postgres, 1)
    write(postgres, 2, year=year)
    with publishing(postgres, tmp_path, LocalEngine(), source=source, rest=rest) as job:
        publish(job)
        assert job.is_settled
    assert published(tmp_path) == [1, 2][: 2 if year == 2026 else 1]


KILLS = ("read", "plan", WRITTEN, "acknowledge")
"""Phases in which the program is killed while statuses of the last poll are being written."""


def test_killed_while_two_polls_overlap(postgres: Place, kafka: Topics, tmp_path: Path) -> None:
    rng = random.Random(1)
    rest = "\n[follow]\npolling_interval = 0\n\n[run]\nlanes = 2\n"
    job = KafkaJob.make(postgres.url, "known_log", kafka, tmp_path, rest)
    words = ["publish", "--follow", "--engine", "local", "-c", str(job.path)]
    with Marks(tmp_path / "marks") as marks:
        for phase in KILLS:
            marks.clear()
            with Started(words, module=LAUNCHER, marks=marks.path) as started:

                def overlaps(phase: str = phase) -> bool:
                    job.log.add(rng, 30)
                    marks.take(0.02)
                    others = marks.is_open("read") or marks.is_open("plan")
                    return marks.is_open("acknowledge") and marks.is_open(phase) and others

                started.wait_until(overlaps)
                started.kill()
        with Started(words, module=LAUNCHER, marks=marks.path) as started:
            started.wait_until(lambda: not marks.take(0.1) and set(job.log.statuses()) == {"S"})
            started.process.terminate()
            code, message = started.wait_for_end()
    assert code == 0, message
    found = judge_documents(texts(kafka.read(job.topic)), job.log.counts)
    assert found.is_right, found
