"""Event logs of PostgreSQL that wake the program."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from publisher.database.options import DatabaseOptions
from publisher.errors import UsageError
from publisher.formats.live.notifications import Listener, Notifications
from publisher.stop_request import StopRequest
from publisher.triggers import Refs, Style, TableRef, install, plan
from tests.services.databases import Place

LONG = 30.0
"""Seconds that no wait of a test may take."""
SHORT = 0.6
INSERT = "INSERT INTO usr VALUES (1, 'Jack')"


def make(place: Place, *, notifies: bool = True, log: str = "event_log") -> None:
    """Makes a log that the table usr fills."""
    place.execute("CREATE TABLE IF NOT EXISTS usr (idu INTEGER PRIMARY KEY, fname TEXT)")
    with place.database() as database:
        refs = Refs((TableRef(None, "usr"),), TableRef(None, log))
        install(database, plan(database, refs, Style.PER_ROW, notifies=notifies))


@pytest.fixture
def listening(postgres: Place) -> Iterator[Notifications]:
    """Listens to a log that notifies."""
    make(postgres)
    with listen(postgres) as notifications:
        assert wait(notifications) < LONG  # begins to listen, and ends the wait
        yield notifications


def listen(place: Place, table: str = "event_log") -> Notifications:
    return Notifications([Listener(DatabaseOptions(url=place.url), table)])


def wait(notifications: Notifications, seconds: float = LONG) -> float:
    """Waits, and returns the seconds that it took."""
    start = time.monotonic()
    notifications.wait(seconds, StopRequest())
    return time.monotonic() - start


def later(place: Place, *statements: str) -> threading.Timer:
    """Runs statements in half a second."""
    timer = threading.Timer(0.5, place.execute, statements)
    timer.start()
    return timer


@pytest.mark.parametrize(
    "statement",
    [
        INSERT,
        "INSERT INTO event_log (table_key, event_type, table_name) VALUES ('idu=1', 5, 'usr')",
    ],
)
def test_a_new_row_ends_the_wait(postgres: Place, listening: Notifications, statement: str) -> None:
    timer = later(postgres, statement)
    assert wait(listening) < LONG
    timer.join()
    assert wait(listening, SHORT) >= SHORT


@pytest.mark.parametrize("statement", ["UPDATE usr SET fname = 'Jill'", "TRUNCATE usr"])
def test_other_changes_end_the_wait_too(
    postgres: Place, listening: Notifications, statement: str
) -> None:
    postgres.execute(INSERT)
    assert wait(listening) < LONG
    postgres.execute(statement)
    assert wait(listening) < LONG


def test_a_row_that_came_before_the_wait_ends_it_at_once(
    postgres: Place, listening: Notifications
) -> None:
    postgres.execute(INSERT)
    assert wait(listening) < LONG


def test_a_status_does_not_end_the_wait(postgres: Place, listening: Notifications) -> None:
    postgres.execute(INSERT)
    wait(listening)
    postgres.execute("UPDATE event_log SET status = 'S'")
    assert wait(listening, SHORT) >= SHORT


def test_a_row_that_is_rolled_back_does_not_end_the_wait(
    postgres: Place, listening: Notifications
) -> None:
    postgres.execute(
        f"DO $$ BEGIN {INSERT}; RAISE EXCEPTION 'no'; EXCEPTION WHEN OTHERS THEN END $$"
    )
    assert wait(listening, SHORT) >= SHORT


def test_a_stop_ends_the_wait(listening: Notifications) -> None:
    stop = StopRequest()
    threading.Timer(0.5, stop.set).start()
    start = time.monotonic()
    listening.wait(LONG, stop)
    assert time.monotonic() - start < LONG


def test_a_lost_connection_ends_the_wait_and_is_replaced(
    postgres: Place, listening: Notifications
) -> None:
    sessions = "FROM pg_stat_activity WHERE starts_with(query, 'LISTEN')"
    timer = later(postgres, f"SELECT pg_terminate_backend(pid) {sessions}")
    assert wait(listening) < LONG
    timer.join()
    assert wait(listening) < LONG  # rows that came meanwhile are looked for
    (count,) = postgres.query(f"SELECT count(*) {sessions}")
    assert count == (1,)
    timer = later(postgres, INSERT)
    assert wait(listening) < LONG
    timer.join()


def test_a_closed_listener_leaves_no_listening_connection(
    postgres: Place, listening: Notifications
) -> None:
    listening.__exit__()
    open_ = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(query, 'LISTEN')"
    deadline = time.monotonic() + LONG
    while postgres.query(open_) != [(0,)]:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("disabled", [True, False])
def test_a_log_without_the_trigger_is_waited_for_in_vain(postgres: Place, disabled: bool) -> None:
    make(postgres, notifies=disabled)
    if disabled:
        postgres.execute("ALTER TABLE event_log DISABLE TRIGGER xds_notify")
    with listen(postgres) as notifications:
        timer = later(postgres, INSERT)
        assert wait(notifications, SHORT) >= SHORT
        timer.join()


def test_logs_of_one_database_wake_their_own_readers(postgres: Place) -> None:
    name = 'other "log" %s ü'
    make(postgres)
    make(postgres, log=name)  # replaces the triggers of usr
    with listen(postgres) as first, listen(postgres, name) as second:
        assert max(wait(first), wait(second)) < LONG
        postgres.execute(INSERT)
        assert wait(second) < LONG
        assert wait(first, SHORT) >= SHORT


def test_a_renamed_log_keeps_its_channel(postgres: Place) -> None:
    make(postgres)
    postgres.execute("ALTER TABLE event_log RENAME TO changes")
    with listen(postgres, "changes") as notifications:
        wait(notifications)
        postgres.execute(
            "INSERT INTO changes (table_key, event_type, table_name) VALUES ('idu=1', 5, 'usr')"
        )
        assert wait(notifications) < LONG


def test_an_unreachable_database_only_waits() -> None:
    place = Place("postgresql", "postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    with listen(place) as notifications:
        assert wait(notifications, SHORT) >= SHORT


def test_the_statements_may_be_run_again_and_nobody_else_may_execute_the_function(
    postgres: Place,
) -> None:
    make(postgres)
    make(postgres)
    rows = postgres.query(
        "SELECT prosecdef, proconfig, proacl IS NULL OR starts_with(proacl::text, '{=')"
        " FROM pg_proc WHERE proname = 'xds_event_log_notify'"
    )
    assert rows == [(False, ["search_path=pg_catalog, pg_temp"], False)]
    assert postgres.query("SELECT count(*) FROM pg_trigger WHERE tgname = 'xds_notify'") == [(1,)]


def test_other_databases_refuse_the_option(place: Place) -> None:
    if place.kind == "postgresql":
        make(place)
        return
    place.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
    refs = Refs((TableRef(None, "usr"),), TableRef(None, "event_log"))
    with place.database() as database, pytest.raises(UsageError, match="only PostgreSQL can"):
        plan(database, refs, Style.PER_ROW, notifies=True)
