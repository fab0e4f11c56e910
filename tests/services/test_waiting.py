"""Counting the rows of an event log that wait: each database, each way to keep a time."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError
from publisher.formats.event_log.backlog import EventLogBacklog
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.waiting_rows import WaitingRows
from tests.services.databases import Place, sqlite_place
from tests.services.waiting_logs import MOMENTS, ZONED, ago, make_log


def waiting_rows(options: EventLogOptions, database: DatabaseOptions) -> WaitingRows:
    with closing(EventLogBacklog(options, database, "log")) as backlog:
        return backlog.count()


def count_waiting(place: Place, **options: str) -> WaitingRows:
    return waiting_rows(EventLogOptions(**options), place.database().options)  # type: ignore[arg-type]


def test_only_new_rows_wait_and_the_oldest_is_told(place: Place) -> None:
    make_log(place, MOMENTS[place.kind], ("S", ago(9000)), ("N", ago(60)), ("N", ago(600)))
    now = count_waiting(place)
    assert now.rows == 2
    assert now.oldest == pytest.approx(600, abs=30)
    every = count_waiting(place, status="any")
    assert every.rows == 3
    assert every.oldest == pytest.approx(9000, abs=30)


def test_an_empty_log(place: Place) -> None:
    make_log(place, MOMENTS[place.kind])
    assert count_waiting(place) == WaitingRows(0, None)


def test_rows_without_time_wait_too(place: Place) -> None:
    make_log(place, MOMENTS[place.kind], ("N", "NULL"), ("N", "NULL"))
    assert count_waiting(place) == WaitingRows(2, None)


def test_the_future_has_no_age(place: Place) -> None:
    make_log(place, MOMENTS[place.kind], ("N", ago(-3600)))
    assert count_waiting(place) == WaitingRows(1, 0.0)


def test_a_zone_is_minded(place: Place) -> None:
    make_log(place, ZONED[place.kind])
    session = ["SET SESSION time_zone = '+00:00'"] if place.kind == "mariadb" else []
    zone = "" if place.kind == "mariadb" else "+00:00"
    place.execute(*session, f"INSERT INTO log VALUES (1, 'N', {ago(600, zone=zone)})")
    assert count_waiting(place).oldest == pytest.approx(600, abs=30)


def test_times_without_zone_are_in_that_of_the_source(place: Place) -> None:
    make_log(place, MOMENTS[place.kind], ("N", ago(600 - 5.5 * 3600)))
    assert count_waiting(place, time_zone="Asia/Kolkata").oldest == pytest.approx(600, abs=30)


def test_times_as_text_and_what_is_no_time(place: Place) -> None:
    times = [ago(seconds, zone="Z").replace(" ", "T") for seconds in (60, 600)]
    make_log(place, "VARCHAR(40)", *[("N", time) for time in ("''", "'?'", *times)])
    now = count_waiting(place)
    assert now.rows == 4
    assert now.oldest == pytest.approx(600, abs=30)


def test_infinity_is_no_age(postgres: Place) -> None:
    make_log(postgres, "TIMESTAMP", ("N", "'-infinity'"), ("N", ago(60)))
    assert count_waiting(postgres) == WaitingRows(2, None)


def test_columns_of_other_names(place: Place) -> None:
    place.execute(
        'CREATE TABLE log (id INTEGER, "State" CHAR(1), at_ VARCHAR(40))'.replace(
            '"', "`" if place.kind == "mariadb" else '"'
        ),
        f"INSERT INTO log VALUES (1, 'N', {ago(60)})",
    )
    options = EventLogOptions(columns={"State": "status", "at_": "event_time", "id": "record_id"})
    now = waiting_rows(options, place.database().options)
    assert now.rows == 1
    assert now.oldest == pytest.approx(60, abs=30)


def test_counted_again_by_the_same_connection(place: Place) -> None:
    make_log(place, MOMENTS[place.kind], ("N", ago(60)))
    backlog = EventLogBacklog(EventLogOptions(), place.database().options, "log")
    with closing(backlog):
        assert backlog.count().rows == 1
        place.execute(f"INSERT INTO log VALUES (9, 'N', {ago(1)})")
        assert backlog.count().rows == 2


def test_what_does_not_fit_is_said(place: Place) -> None:
    with pytest.raises(FatalError, match="no table or view log"):
        count_waiting(place)
    place.execute("CREATE TABLE log (record_id INTEGER, status CHAR(1))")
    with pytest.raises(FatalError, match="no column event_time"):
        count_waiting(place)


def test_a_database_that_is_gone(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "gone.db")
    (tmp_path / "gone.db").unlink()
    with pytest.raises(FatalError, match="does not exist"):
        waiting_rows(EventLogOptions(), place.database(retries=0).options)
