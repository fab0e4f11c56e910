"""The company's story is the same each time, and has all kinds of outcomes."""

import csv
import sqlite3
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from publisher.model.change import LOG_COLUMNS, Outcome, Reason
from tests.support.company.author import EPISODE_DISTANCE
from tests.support.company.database import write_database, write_snapshot
from tests.support.company.story import EVENTS, PROCESSED, Story, write_story

REJECTS_OF_A_TABLE = {
    Reason.RECORD_ID,
    Reason.EVENT_TYPE,
    Reason.EVENT_TIME,
    Reason.TABLE_NAME,
    Reason.TABLE_KEY,
    Reason.COLUMN_NAME,
    Reason.VALUE,
    Reason.FORBIDDEN_CHARACTER,
    Reason.DOUBLE_RECORD,
}


@pytest.fixture(scope="module")
def story() -> Story:
    return write_story()


def test_is_the_same_each_time(story: Story) -> None:
    again = write_story()
    assert again.events == story.events
    assert again.company == story.company


def test_has_the_rows_and_people_that_are_promised(story: Story) -> None:
    assert len(story.events) == EVENTS
    assert len(story.company.employees) >= 10_000
    assert {e.event_type for e in story.events} >= set(range(1, 9))


def test_managers_exist_and_phones_are_distinct(story: Story) -> None:
    managers = {row["manager"] for row in story.company.employees.values()}
    assert len(managers) > 100
    assert managers - {None} <= story.company.employees.keys()
    assert story.company.phones.keys() <= story.company.employees.keys()
    assert max(map(len, story.company.phones.values())) > 1
    assert all(len(set(phones)) == len(phones) for phones in story.company.phones.values())


def test_every_reason_that_a_table_can_have_is_there(story: Story) -> None:
    reasons = {reason for _, reason in story.counts(live=True)}
    assert reasons >= REJECTS_OF_A_TABLE
    assert reasons >= {
        None,
        Reason.ROW_QUERY_BACK,
        Reason.FIELD_QUERY_BACK,
        Reason.LOOPBACK,
        Reason.EXCLUDED,
        Reason.DUPLICATE,
        Reason.ENDED_BY_DELETE,
        Reason.ROW_GONE,
        Reason.NOTHING_TO_PUBLISH,
        Reason.FUTURE,
    }


def test_counts_of_a_live_reading_leave_out_what_was_processed(story: Story) -> None:
    assert sum(story.counts(live=False).values()) == EVENTS
    assert sum(story.counts(live=True).values()) == EVENTS - PROCESSED
    assert story.counts(live=False)[Outcome.IGNORED, Reason.STATUS] == PROCESSED


def test_events_of_an_object_are_close_together_or_more_than_a_poll_apart(story: Story) -> None:
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, event in enumerate(story.events):
        if event.outcome is not Outcome.REJECTED:
            rows[event.table_name, event.table_key].append(place)
    gaps = [b - a for places in rows.values() for a, b in pairwise(places)]
    assert not [gap for gap in gaps if 100 < gap < EPISODE_DISTANCE - 200]
    assert [gap for gap in gaps if gap >= EPISODE_DISTANCE]


def test_database_and_snapshot_hold_the_same_log(story: Story, tmp_path: Path) -> None:
    write_database(tmp_path / "company.sqlite", story.company, story.events)
    write_snapshot(tmp_path / "event-log.csv", story.events)
    connection = sqlite3.connect(tmp_path / "company.sqlite")
    stored = connection.execute("SELECT * FROM event_log").fetchall()
    employees = connection.execute("SELECT count(*) FROM view_employee").fetchone()
    connection.close()
    with (tmp_path / "event-log.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert tuple(header) == LOG_COLUMNS
    assert Counter(tuple("" if v is None else str(v) for v in row) for row in stored) == Counter(
        map(tuple, rows)
    )
    assert employees == (len(story.company.employees),)
