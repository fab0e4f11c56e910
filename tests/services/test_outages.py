"""Lost connections are made again; a database that is gone is said to be, soon."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

import pytest
import sqlalchemy as sa

from publisher.database.connection import Database
from publisher.database.copy import shared_snapshot
from publisher.database.lookup import DatabaseLookup
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError, UnreachableError
from publisher.formats.live.find_table import LiveTable
from publisher.formats.live.table_reader import moment
from publisher.model.change import Object
from publisher.planning.query_back import CurrentRow
from tests.services import servers
from tests.services.databases import Place
from tests.support.planning import answers_of

ONE = [Object(None, "usr", "idu=1")]
TABLE = ("CREATE TABLE usr (idu INTEGER PRIMARY KEY)", "INSERT INTO usr VALUES (1)")


def test_lost_connection_is_made_again(postgres: Place) -> None:
    postgres.execute(*TABLE)
    lookup = DatabaseLookup(postgres.database())
    assert isinstance(answers_of(lookup, ONE)[ONE[0]], CurrentRow)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'xds-publisher'"
    )
    assert isinstance(answers_of(lookup, ONE)[ONE[0]], CurrentRow)


def test_lost_connection_is_made_again_in_mariadb(mariadb: Place) -> None:
    mariadb.execute(*TABLE)
    database = mariadb.database()
    lookup = DatabaseLookup(database)
    assert isinstance(answers_of(lookup, ONE)[ONE[0]], CurrentRow)
    with database.connect() as connection:
        number = connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar()
    mariadb.execute(f"KILL {number}")
    assert isinstance(answers_of(lookup, ONE)[ONE[0]], CurrentRow)


def test_failover_within_the_retries_is_not_noticed() -> None:
    with server_or_skip() as server:
        make(server.url)
        database = Database(DatabaseOptions(url=server.url, backoff=0.2, retries=6))
        lookup = DatabaseLookup(database)
        answers_of(lookup, ONE)
        server.stop()
        server.start()
        assert isinstance(answers_of(lookup, ONE)[ONE[0]], CurrentRow)
        database.close()


def test_stopped_server_is_unreachable_soon() -> None:
    with server_or_skip() as server:
        make(server.url)
        url = sa.make_url(server.url).set(password="s3cret")
        options = DatabaseOptions(url=url.render_as_string(hide_password=False), backoff=0.05)
        database = Database(options)
        lookup = DatabaseLookup(database)
        answers_of(lookup, ONE)
        server.stop()
        began = time.monotonic()
        for attempt in (
            lambda: answers_of(lookup, ONE),
            database.check_reachable,
            lambda: moment(database, LiveTable("usr", order="idu"), 2).__enter__(),
        ):
            with pytest.raises(UnreachableError) as caught:
                attempt()
            assert f"on 127.0.0.1:{url.port} cannot be reached" in str(caught.value)
            assert "s3cret" not in str(caught.value)
        assert time.monotonic() - began < 20


def make(url: str) -> None:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in TABLE:
            connection.exec_driver_sql(statement)


def server_or_skip() -> AbstractContextManager[servers.Server]:
    try:
        servers.find("initdb", *servers.POSTGRESQL)
    except servers.MissingServerError as missing:
        servers.skip_unproved(f"behaviour when PostgreSQL stops ({missing})")
    return servers.postgresql()


def test_refusal_of_the_server_is_said_at_once(mariadb: Place) -> None:
    url = sa.make_url(mariadb.url).set(username="stranger", password="s3cret")
    began = time.monotonic()
    with pytest.raises(FatalError, match="Access denied") as caught:
        Database(
            DatabaseOptions(url=url.render_as_string(hide_password=False), backoff=30)
        ).check_reachable()
    assert "s3cret" not in str(caught.value)
    assert time.monotonic() - began < 20


def test_database_that_is_not_there_is_said_at_once(postgres: Place) -> None:
    url = sa.make_url(postgres.url).set(database="nothing")
    began = time.monotonic()
    with pytest.raises(FatalError, match='database "nothing" does not exist'):
        Database(
            DatabaseOptions(url=url.render_as_string(hide_password=False), backoff=30)
        ).check_reachable()
    assert time.monotonic() - began < 20


def test_a_connection_that_died_unnoticed_is_given_back_in_silence(postgres: Place) -> None:
    """The server has rolled the transaction back when it ended the connection."""
    database = postgres.database()
    with shared_snapshot(database) as (connection, _):
        own = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        postgres.execute(f"SELECT pg_terminate_backend({own})")
    database.check_reachable()
