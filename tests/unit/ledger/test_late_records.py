"""Records that are published behind greater ones of earlier runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from publisher.acknowledge.status_letters import (
    LaneLetters,
    ReadProgress,
    join_progress,
)
from publisher.engine.local import LocalEngine
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.model.change import Outcome
from publisher.reports.explain import explain
from publisher.runs.job import Job
from tests.support.followed_jobs import TABLE, load_settings, write_rows
from tests.support.planned_ledgers import record, write_records


def once(base: Path, more: str = "") -> RunReport:
    with Job(load_settings(base, TABLE, more), LocalEngine()) as job:
        job.finish()
        report = job.run()
        job.expire()
    assert report is not None
    return report


def late(base: Path, run: int, number: int) -> str | None:
    ledger_run = base / ".xds-publisher" / "job" / f"job-{run:06d}"
    (story,) = explain(ledger_run, str(number))
    return story.late


def test_a_record_that_was_committed_late_is_told(tmp_path: Path) -> None:
    write_rows(tmp_path, 10, 12)
    assert once(tmp_path).notes == ()
    write_rows(tmp_path, 11, 13)
    (note,) = once(tmp_path).notes
    assert note == (
        "late: 1 published record(s) of hr have a record_id below 12, which an earlier run had read: "
        "committed late, held or retried"
    )
    assert late(tmp_path, 2, 11) == (
        "an earlier run has read record 12, but none has read this record: it was committed late"
    )
    assert late(tmp_path, 2, 13) is None
    assert late(tmp_path, 1, 10) is None


def test_a_record_that_was_retried_is_not_late(tmp_path: Path) -> None:
    write_rows(tmp_path, 1, 2)
    with sqlite3.connect(tmp_path / "hr.db") as connection:
        connection.execute("UPDATE log SET event_type = 9 WHERE record_id = 1")
    connection.close()
    once(tmp_path)
    with sqlite3.connect(tmp_path / "hr.db") as connection:
        connection.execute("UPDATE log SET event_type = 3, status = 'N' WHERE record_id = 1")
    connection.close()
    once(tmp_path)
    assert late(tmp_path, 2, 1) == (
        "an earlier run has read this record: rejected (event-type) in run job-000001"
    )


def test_how_far_was_read_outlives_the_runs(tmp_path: Path) -> None:
    short = "[ledger]\nretention_days = 0.0000001\n"
    for number in (5, 6):
        write_rows(tmp_path, number)
        once(tmp_path, short)
    assert Ledger(tmp_path / ".xds-publisher" / "job", "job").oldest_kept() == 2
    write_rows(tmp_path, 4)
    (note,) = once(tmp_path, short).notes
    assert note == (
        "event ids of hr have epoch 2 from now on: record 4 may have been published before, by a run whose "
        "ledger is deleted"
    )


def test_sources_are_counted_each_by_itself(tmp_path: Path) -> None:
    lanes = [
        [
            record(3, Outcome.PUBLISHED),
            record(8, Outcome.PUBLISHED, source=1),
            record(9, Outcome.REJECTED, "event-type"),
        ],
        [
            record(4, Outcome.PUBLISHED),
            record(2, Outcome.IGNORED, "loopback"),
            record(70, Outcome.REJECTED, "record-id", part="table"),
        ],
    ]
    rows = write_records(tmp_path, lanes).rows or ()

    def looked_through(lanes: int, source: int, behind: int) -> ReadProgress:
        letters = [LaneLetters(lane, source, (), behind) for lane in rows[:lanes]]
        return join_progress(letters)

    assert looked_through(2, 0, 0) == (9, 0)
    assert looked_through(2, 0, 4) == (9, 1)
    assert looked_through(2, 0, 100) == (9, 2)
    assert looked_through(2, 1, 9) == (8, 1)
    assert looked_through(2, 2, 9) == (0, 0)
