"""Runs over an event log in a database, planned again from the rows that they read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.errors import UsageError
from publisher.journal.fold_runs import Folding, SegmentSize
from publisher.journal.job_journals import Journals
from publisher.reports.diff.build import diff_journals
from publisher.reports.diff.differences import JournalDiff
from publisher.runs import publisher_instance
from publisher.runs.what_if import plan_again
from tests.support.followed_jobs import TABLE, load_settings, write_rows

pytestmark = pytest.mark.usefixtures("local_engine")


def publish(base: Path, *ids: int) -> Path:
    """A run over new rows; returns its journal."""
    write_rows(base, *ids)
    execute(base, "UPDATE log SET event_type = 6 WHERE record_id % 3 = 0 AND status = 'N'")
    execute(base, "INSERT OR IGNORE INTO usr VALUES (3, 'Ann'), (6, 'Bob')")
    report = publisher_instance.publish(load_settings(base, TABLE))
    return Path(report.journal)


def execute(base: Path, statement: str) -> None:
    with closing(sqlite3.connect(base / "hr.db")) as connection, connection:
        connection.execute(statement)


def compare(base: Path, journal: Path, *assignments: str) -> JournalDiff:
    settings = load_settings(base, TABLE)
    with plan_again(journal, assignments, job=settings) as planned:
        return diff_journals(journal, planned)


def statuses(base: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(base / "hr.db")) as connection:
        return connection.execute("SELECT record_id, status FROM log ORDER BY 1").fetchall()


def test_only_the_rows_of_the_run_are_read_again(tmp_path: Path) -> None:
    first, second = publish(tmp_path, *range(1, 8)), publish(tmp_path, 11, 12, 13)
    write_rows(tmp_path, 20, 21)
    before = statuses(tmp_path)
    for journal, count in ((first, 7), (second, 3)):
        found = compare(tmp_path, journal)
        assert not found.differs
        assert found.records.same == count
    changed = compare(tmp_path, first, "documents.insert_query_back=add", "sources.hr.poll_size=1")
    assert changed.first.records == changed.second.records == 7
    assert compare(tmp_path, first, 'sources.hr.exclude=["usr"]').operations.only_first
    assert statuses(tmp_path) == before


def test_a_run_in_a_segment_is_planned_again(tmp_path: Path) -> None:
    journal = publish(tmp_path, *range(1, 8))
    publish(tmp_path, 11, 12, 13)
    publish(tmp_path, 21)
    size = SegmentSize(runs=64, records=10_000, bytes=1 << 24, seconds=3_600)
    steps = Folding(Journals(journal.parent, "job"), lambda: None, size, 1)
    while steps.step():
        pass
    assert not journal.exists()
    found = compare(tmp_path, journal)
    assert not found.differs
    assert found.records.same == 7


def test_rows_looked_up_come_from_the_journal(tmp_path: Path) -> None:
    journal = publish(tmp_path, *range(1, 8))
    execute(tmp_path, "UPDATE usr SET fname = 'Zoe'")
    assert not compare(tmp_path, journal).differs


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM log WHERE record_id = 4",
        "UPDATE log SET table_key = 'idu=9' WHERE record_id = 4",
        "INSERT INTO log SELECT * FROM log WHERE record_id = 4",
    ],
)
def test_other_rows_are_refused(statement: str, tmp_path: Path) -> None:
    journal = publish(tmp_path, *range(1, 8))
    execute(tmp_path, statement)
    with pytest.raises(UsageError, match="rows of table log that it read are deleted or have"):
        compare(tmp_path, journal)


def test_another_table_of_the_name_is_refused(tmp_path: Path) -> None:
    journal = publish(tmp_path, 1, 2)
    other = tmp_path / "other"
    other.mkdir()
    write_rows(other, 1, 2)
    with pytest.raises(UsageError, match=r"table log of .* is not the one that was read"):
        compare(other, journal)


def test_rows_without_a_record_id_are_refused(tmp_path: Path) -> None:
    write_rows(tmp_path, 1, 2)
    execute(tmp_path, "UPDATE log SET record_id = NULL WHERE record_id = 2")
    report = publisher_instance.publish(load_settings(tmp_path, TABLE))
    with pytest.raises(UsageError, match="rows of table log without a record id"):
        compare(tmp_path, Path(report.journal))


def test_the_command_needs_the_job_file(tmp_path: Path) -> None:
    journal = publish(tmp_path, 1, 2)
    result = CliRunner().invoke(cli, ["diff", str(journal)])
    assert result.exit_code == 2
    assert "the database of table log is not known; name the job file with -c" in result.output
    job = str(tmp_path / "job.toml")
    assert CliRunner().invoke(cli, ["diff", str(journal), "-c", job]).exit_code == 0
