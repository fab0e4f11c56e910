"""Logs whose rows change their keys: any lanes and splits give the rows that the log leads to.

The table is played beside the log; the documents are applied with ``publisher.consumer``.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.consumer import Objects
from publisher.database.options import DatabaseOptions
from publisher.engine.local import LocalEngine
from publisher.errors import FatalError
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.source import event_log
from publisher.formats.live.table_split import DatabaseTable
from publisher.formats.work import Work, read_split
from publisher.model.catalogue import JobCatalogue
from publisher.model.change import IDS, TALLY, Outcome
from publisher.model.lanes import lane_of
from publisher.planning.polls import PollOptions
from publisher.runs.key_groups import group_keys
from publisher.xds.document import DocumentOptions
from publisher.xds.values import text_of
from tests.support.event_log_files import NAMES, OPEN, Row, event, write
from tests.support.prepare import prepare_here
from tests.support.task_runs import apply_texts, lines, plan_all, read_all, results_of, work_of

SOURCE = event_log(EventLogOptions(key_change="modify-association"))
NOTHING = JobCatalogue(())


class LoggedTable(NamedTuple):
    """A log, and the rows that it leads to: the field of each key."""

    log: list[Row]
    rows: dict[str, str]


@st.composite
def logged_tables(draw: st.DrawFn) -> LoggedTable:
    """Inserts, updates, deletes and changes of keys of a small table, each logged in one record."""
    log: list[Row] = []
    rows: dict[str, str] = {}
    keys = st.sampled_from("12345678")
    for number in range(1, draw(st.integers(1, 40)) + 1):
        key, other, text = draw(keys), draw(keys), f"text {number}"
        record = event(number, table_key=f"idu={key}", table_name="usr")
        if key not in rows:
            log.append(record | {"event_type": 1, "old_value": None, "new_value": text})
            rows[key] = text
        elif other not in rows:
            change = {"column_name": "idu", "old_value": key, "new_value": other}
            log.append(record | change)
            rows[other] = rows.pop(key)
        elif draw(st.booleans()):
            log.append(record | {"old_value": rows[key], "new_value": text})
            rows[key] = text
        else:
            log.append(record | {"event_type": 4, "column_name": None})
            del rows[key]
    return LoggedTable(log, rows)


def work_over(path: Path, lanes: int, splits: int, polls: PollOptions, batch: int = 1) -> Work:
    documents = DocumentOptions(batch_size=batch)
    work = work_of([path], lanes=lanes, polls=polls, documents=documents)
    splits_of_log = tuple(SOURCE.splits([path], splits))
    source = replace(work.sources[0], source=SOURCE, splits=splits_of_log)
    return group_keys(replace(work, sources=(source,)), LocalEngine())


@settings(max_examples=60, deadline=None)
@given(
    logged_tables(),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from([PollOptions(), PollOptions(3, 0), PollOptions(1, 0)]),
    st.sampled_from([1, 2, 128]),
)
def test_the_documents_lead_to_the_rows(
    table: LoggedTable, lanes: int, splits: int, polls: PollOptions, batch: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = write(folder / "log.csv", table.log)
        work = work_over(log, lanes, splits, polls, batch)
        results = plan_all(work, read_all(work), folder)
        counts = [
            (count.outcome, count.records)
            for result in results_of(results)
            for count in result.counts
        ]
        assert {outcome for outcome, _ in counts} == {Outcome.PUBLISHED}
        assert sum(records for _, records in counts) == len(table.log)
        objects = Objects(strict=True)
        # any order of lanes: objects of two lanes have no key in common
        apply_texts(objects, lines(results[:: -1 if len(table.log) % 2 else 1]))
        assert {name: objects[name].text("fname") for name in objects} == {
            f"idu={key},table=usr": text for key, text in table.rows.items()
        }


@settings(max_examples=20, deadline=None)
@given(logged_tables(), st.integers(2, 5))
def test_the_documents_do_not_depend_on_lanes_and_splits(table: LoggedTable, count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        log = write(Path(name) / "log.csv", table.log)
        texts = []
        for number in (1, count):
            folder = Path(name) / str(number)
            work = work_over(log, number, number, PollOptions())
            texts.append(sorted(lines(plan_all(work, read_all(work), folder))))
        assert texts[0] == texts[1]


def test_a_change_of_a_key_that_the_survey_has_not_seen_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [event(1)])
    work = work_over(path, 2, 1, PollOptions())
    write(path, [event(1, column_name="idu", old_value="1", new_value="5")])
    source = replace(work.sources[0], splits=tuple(SOURCE.splits([path], 1)))
    with pytest.raises(FatalError, match=r"record 1 changes a key of usr, .* start again"):
        list(read_split(replace(work, sources=(source,)), 0))


def test_logs_without_the_setting_are_not_surveyed(tmp_path: Path) -> None:
    work = work_of([write(tmp_path / "log.csv", [event(1)])])
    assert group_keys(work, LocalEngine()) == work


def test_a_live_log_is_read_up_to_the_rows_of_the_survey(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hr.db"
    rows = [event(1), event(2, column_name="idu", old_value="1", new_value="5")]
    with closing(sqlite3.connect(tmp_path / "hr.db")) as connection:
        connection.execute(f"CREATE TABLE log (record_id INTEGER, {', '.join(NAMES[1:])})")
        insert = f"INSERT INTO log ({', '.join(NAMES)}) VALUES ({', '.join('?' * len(NAMES))})"
        connection.executemany(insert, [[row[name] for name in NAMES] for row in rows])
        connection.commit()
        live = event_log(
            SOURCE.options, table=DatabaseTable(DatabaseOptions(url=url), "log", text_of)
        )
        work = work_of([write(tmp_path / "log.csv", [])], lanes=64)
        with prepare_here(live, [], 4, OPEN) as prepared:
            source = replace(work.sources[0], source=prepared.source, splits=prepared.splits)
            work = group_keys(replace(work, sources=(source,)), LocalEngine())
            later = event(3, column_name="idu", table_key="idu=5", old_value="5", new_value="6")
            connection.execute(insert, [later[name] for name in NAMES])
            connection.commit()
            records = [
                record
                for number in range(len(work.splits()))
                for batch in read_split(work, number)
                for record in batch.to_pylist()
            ]
    changes = [record for record in records if record["outcome"] not in (TALLY, IDS)]
    assert [record["high"] for record in changes] == [1, 2]
    assert {record["lane"] for record in changes} == {lane_of(None, "usr", "idu=1", 64)}
