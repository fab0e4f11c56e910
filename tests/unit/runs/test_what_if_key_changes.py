"""Runs in which query-backs follow changes of keys, planned again from the rows in their journals."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from publisher.config.job_file import load
from publisher.engine.tables.journals import read_part
from publisher.errors import UsageError
from publisher.journal import segment_files
from publisher.journal.scan_runs import scan_runs
from publisher.reports.diff.build import diff_journals
from publisher.reports.explain import explain
from publisher.runs.what_if import plan_again
from tests.support.event_log_files import NAMES, Row, csv_text, event
from tests.support.retried_rejects import invoke

pytestmark = pytest.mark.usefixtures("local_engine")

KEY = "k" * 32
KEY_CHANGES = ("modify-association", "attribute", "reject")
JOB = """
[database]
url = "sqlite:///{folder}/hr.db"
[[sources]]
name = "log"
format = "event-log"
key_change = "{key_change}"
{more}
[run]
lanes = 2
"""
TABLES = """
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT, boss INTEGER REFERENCES usr (idu));
CREATE TABLE phone (idu INTEGER REFERENCES usr (idu), phoneno TEXT);
CREATE TABLE part (a INTEGER, b INTEGER, name TEXT, PRIMARY KEY (a, b));
CREATE VIEW v_usr AS SELECT idu AS pk_idu, hex(randomblob(8)) AS fname FROM usr;
"""
"""Whenever a row of the view is read, it has changed."""
LOG = """
CREATE TABLE log (record_id INTEGER, table_key TEXT, status TEXT, event_type INTEGER, event_time TIMESTAMP,
  perpetrator TEXT, table_name TEXT, column_name TEXT, old_value TEXT, new_value TEXT)
"""


class MovedRows:
    """A database whose rows have got other keys, and its log."""

    def __init__(self, folder: Path) -> None:
        self.rows: list[Row] = []
        self._database = folder / "hr.db"
        self.execute(TABLES)

    def execute(self, statements: str) -> None:
        with closing(sqlite3.connect(self._database)) as connection, connection:
            connection.executescript(statements)

    def log(self, kind: int, key: object, column: str | None = None, **more: object) -> None:
        """Adds an event of a table, by default of ``usr``."""
        usual = {"old_value": None, "new_value": None, "column_name": column}
        key = f"idu={key}" if isinstance(key, int) else key
        row = event(len(self.rows) + 1, event_type=kind, table_key=key)
        self.rows.append(row | usual | more)

    def move(self, old: int, new: int) -> None:
        """Adds a change of a key."""
        self.log(2, old, "idu", old_value=old, new_value=new)

    def move_in_view(self, old: int, new: int) -> None:
        """Adds a change of a key of the view."""
        more = {"table_name": "v_usr", "old_value": old, "new_value": new}
        self.log(2, f"pk_idu={old}", "pk_idu", **more)

    def add(self, key: int) -> None:
        """Inserts a row with children."""
        self.execute(
            f"INSERT INTO usr VALUES ({key}, 'n{key}', NULL);"
            f"INSERT INTO phone VALUES ({key}, 'p{key}'), ({key}, 'q{key}')"
        )

    def fill(self, count: int) -> None:
        """Adds query-backs of the row 9, each in a poll of its own."""
        for _ in range(count):
            self.log(6, "pk_idu=9", table_name="v_usr")
            self.log(3, "pk_idu=9", "fname", table_name="v_usr", new_value="x")

    def story(self) -> None:
        """Adds single changes of keys, chains, keys that change their owner, and children."""
        for key in (2, 5, 9, 12, 20, 21, 31):
            self.add(key)
        self.log(6, 1)
        self.move(1, 2)
        self.log(8, 2, "fname")
        self.log(5, 3)
        self.log(8, 3, "phoneno", table_name="phone")
        self.move(3, 4)
        self.log(6, 4)
        self.fill(5)
        self.move(4, 5)
        self.log(6, 5)
        self.log(6, 11)  # 11 and 12 change places, so 12 reads another row before and after
        self.log(6, 12)
        self.move(11, 13)
        self.move(12, 11)
        self.move(13, 12)
        self.log(6, 12)
        self.log(6, 11)
        self.log(6, 21)
        self.move(21, 22)
        self.log(5, 21)  # another row
        self.log(8, 31, "boss")
        self.move(31, 30)  # and there is no row any more
        self.log(7, 30, "fname")

    def clear(self) -> None:
        """Deletes all rows: who asks for them again, finds none."""
        self.execute("DELETE FROM phone; DELETE FROM usr; DELETE FROM part")

    def write_table(self) -> None:
        """Writes the log as a table of the database."""
        names = ", ".join(f":{name}" for name in NAMES)
        with closing(sqlite3.connect(self._database)) as connection, connection:
            connection.execute(LOG)
            connection.executemany(f"INSERT INTO log VALUES ({names})", self.rows)

    def write(self, path: Path) -> Path:
        path.write_text(csv_text(self.rows), "utf-8")
        return path


def write_job(folder: Path, key_change: str, *more: str) -> Path:
    job = folder / "job.toml"
    text = JOB.format(folder=folder, key_change=key_change, more="\n".join(more))
    job.write_text(text)
    return job


def looked_up(journal: Path) -> list[dict[str, Any]]:
    """The answers of a journal."""
    return [
        row
        for part in scan_runs(journal)
        for batch in read_part(part, segment_files.LOOKUPS)
        for row in batch.to_pylist()
    ]


def replay(folder: Path, log: Path, job: Path) -> Path:
    out = folder / "out"
    result = invoke(folder, "replay", log, "-c", job, "--to", out)
    assert result.exit_code in (0, 4), result.output
    return out


def assert_planned_again(journal: Path, job: Path, *settings: str) -> None:
    """A plan with settings that change nothing has the same answers."""
    for setting in settings or ("documents.insert_query_back=modify",):
        result = invoke(job.parent, "diff", journal, "--set", setting)
        assert result.exit_code == 0, result.output
        with plan_again(journal, [setting], job=load(job)) as planned:
            assert looked_up(planned) == looked_up(journal) != []
            assert explained(planned) == explained(journal) != []


def explained(journal: Path) -> list[object]:
    """The looked-up rows that ``explain`` shows."""
    objects = sorted({row["key"] for row in looked_up(journal) if row["table"] != "v_usr"})
    stories = [story for key in objects for story in explain(journal, key, with_raw=False)]
    return [(story.position, story.outcome, story.lookups) for story in stories]


@pytest.mark.parametrize("key_change", KEY_CHANGES)
@pytest.mark.parametrize("polls", [(10_000, 100), (3, 0), (1, 0)])
def test_query_backs_of_keys_that_change(
    tmp_path: Path, key_change: str, polls: tuple[int, int]
) -> None:
    rows = MovedRows(tmp_path)
    rows.story()
    options = (f"poll_size = {polls[0]}", f"poll_slack = {polls[1]}")
    job = write_job(tmp_path, key_change, *options)
    out = replay(tmp_path, rows.write(tmp_path / "log.csv"), job)
    assert {row["answer"] for row in looked_up(out)} == {"row", "gone"}
    rows.clear()
    assert_planned_again(out, job)


def test_rows_that_change_during_the_run(tmp_path: Path) -> None:
    """Some polls of an object share an answer, others have one of their own."""
    rows = MovedRows(tmp_path)
    rows.story()
    rows.fill(1_100)
    rows.log(6, "pk_idu=8", table_name="v_usr")
    rows.move_in_view(8, 9)
    for _ in range(1_000):
        rows.log(6, "pk_idu=5", table_name="v_usr")
    job = write_job(tmp_path, "modify-association", "poll_size = 2", "poll_slack = 0")
    out = replay(tmp_path, rows.write(tmp_path / "log.csv"), job)
    texts = [row["text"] for row in looked_up(out) if row["key"] == "pk_idu=9"]
    assert 1 < len({*texts}) < len(texts)
    rows.clear()
    assert_planned_again(out, job)


LIVE = """
[[sources]]
name = "log"
table = "log"
key_change = "{key_change}"
future_events = true
poll_size = 3
[database]
url = "{url}"
[dispatch]
path = "out"
[job]
reject_budget = 100
"""


@pytest.mark.parametrize("key_change", ["modify-association", "attribute"])
def test_runs_of_a_job_that_held_records(tmp_path: Path, key_change: str) -> None:
    rows = MovedRows(tmp_path)
    rows.story()
    for number in (3, 8, 13, 21, 27):
        rows.rows[number] |= {"event_time": "2035-01-01"}
    job = tmp_path / "job.toml"
    job.write_text(LIVE.format(key_change=key_change, url=f"sqlite:///{tmp_path}/hr.db"))
    rows.write_table()
    journals = []
    for now in ("2030-01-01", "2040-01-01"):
        result = invoke(tmp_path, "publish", "--now", now, "--engine", "local")
        assert result.exit_code in (0, 4), result.output
        journals = sorted((tmp_path / ".xds-publisher" / "job").glob("job-*"))
        assert (" + 0 held" in result.output) is (now > "2035")
        rows.execute("UPDATE usr SET fname = fname || 'x'")
    assert len(journals) == 2
    rows.clear()
    for journal in journals:
        assert_planned_again(journal, job)


def test_compound_keys_that_change(tmp_path: Path) -> None:
    rows = MovedRows(tmp_path)
    rows.execute("INSERT INTO part VALUES (3, 4, 'x'), (5, 2, 'y')")
    rows.log(6, "a=1+b=2", table_name="part")
    rows.log(2, "a=1+b=2", "a", table_name="part", old_value=1, new_value=3)
    rows.log(2, "a=1+b=2", "b", table_name="part", old_value=2, new_value=4)
    rows.log(8, "a=4+b=2", "name", table_name="part")
    rows.log(2, "b=2+a=4", "a", table_name="part", old_value=4, new_value=5)
    job = write_job(tmp_path, "modify-association", "poll_size = 2")
    out = replay(tmp_path, rows.write(tmp_path / "log.csv"), job)
    assert [row["answer"] for row in looked_up(out)] == ["row", "row"]
    rows.clear()
    assert_planned_again(out, job)


@pytest.mark.parametrize("before", KEY_CHANGES)
@pytest.mark.parametrize("after", KEY_CHANGES)
def test_another_effect_of_changes_of_keys(tmp_path: Path, before: str, after: str) -> None:
    """The plan is that of a replay, unless a row is needed that the run did not read."""
    (tmp_path / "other").mkdir()
    rows = MovedRows(tmp_path)
    for key in (2, 3, 4):
        rows.add(key)
    rows.log(6, 1)
    rows.log(6, 2)
    rows.move(1, 2)
    rows.log(8, 2, "fname")
    rows.log(8, 3, "fname")
    log = rows.write(tmp_path / "log.csv")
    job = write_job(tmp_path, before)
    out = replay(tmp_path, log, job)
    (tmp_path / "hr.db").rename(tmp_path / "other" / "hr.db")
    job = write_job(tmp_path / "other", after)
    replayed = replay(tmp_path / "other", log, job)
    change = [f"sources.log.key_change={after}"]
    if before == "modify-association" != after:
        with pytest.raises(UsageError, match="does not have the row of idu="):
            plan_again(out, change, job=load(job)).__enter__()
        return
    with plan_again(out, change, job=load(job)) as planned:
        assert not diff_journals(planned, replayed).differs
