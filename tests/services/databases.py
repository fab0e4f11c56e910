"""Test databases of each kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

if TYPE_CHECKING:
    from publisher.database.connection import Database

BINARY = {"sqlite": "BLOB", "postgresql": "BYTEA", "mariadb": "VARBINARY(20)"}


@dataclass(frozen=True)
class Place:
    """A database to write test tables into."""

    kind: str
    url: str

    @property
    def engine(self) -> sa.Engine:
        """Connects each time it is used."""
        return _engine(self.url)

    @property
    def kept_engine(self) -> sa.Engine:
        """Keeps the connection to a server that is slow to connect; changes of a session outlast its use."""
        return _statement_engine(self.url)

    def execute(self, *statements: str) -> None:
        """Runs statements, committed together."""
        if self.kind == "sqlite":
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            connection.executescript(";".join(statements))
            connection.close()
            return
        with _statement_engine(self.url).begin() as served:
            for statement in statements:
                served.exec_driver_sql(statement.replace("%", "%%"))

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with _statement_engine(self.url).connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def disconnect(self) -> None:
        """Closes the connection of ``execute`` and ``query``, which would keep the database in use."""
        _statement_engine(self.url).dispose()

    def database(self, **options: object) -> Database:
        """The database as the program sees it."""
        from publisher.database.connection import Database  # tests by commands do not need it
        from publisher.database.options import DatabaseOptions

        return Database(DatabaseOptions(url=self.url, **{"backoff": 0.05, **options}))  # type: ignore[arg-type]


def drop(place: Place, relations: Iterable[tuple[str, str]]) -> None:
    """Takes test tables and views (kind, name) away, views first."""
    quote = "`" if place.kind == "mariadb" else '"'
    quoted = [
        (kind, quote + name.replace(quote, quote * 2) + quote)
        for kind, name in sorted(relations, reverse=True)
    ]
    drops = [f"DROP {kind} IF EXISTS {name} CASCADE" for kind, name in quoted]
    if place.kind == "mariadb":  # tables may refer to each other
        drops = ["SET foreign_key_checks = 0", *drops, "SET foreign_key_checks = 1"]
    place.execute(*drops)


@contextmanager
def statements(
    database: Database, then: Callable[[int], None] | None = None
) -> Iterator[list[str]]:
    """Collects statements; calls ``then`` with their number after each."""
    from publisher.database import join_query
    from publisher.database.copy import copy_statement

    executed: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)
        if then is not None:
            then(len(executed))

    def copy(connection: sa.Connection, statement: str, *others: Any) -> Iterator[Any]:
        yield from copy_statement(connection, statement, *others)
        note(connection, None, statement)

    sa.event.listen(database.engine, "after_cursor_execute", note)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_query, "copy_statement", copy)  # SQLAlchemy sees no COPY
        yield executed
    sa.event.remove(database.engine, "after_cursor_execute", note)


@lru_cache
def _engine(url: str) -> sa.Engine:
    """One engine for each database: a new one asks the server about itself."""
    # without TLS, for which PyMySQL reads all certificates of the system each time
    arguments = {"ssl_disabled": True} if "pymysql" in url else {}
    return sa.create_engine(url, poolclass=sa.NullPool, connect_args=arguments)


@lru_cache
def _statement_engine(url: str) -> sa.Engine:
    """Keeps a connection to PostgreSQL, which starts a process for each; replaced once it has ended."""
    if not url.startswith("postgresql"):
        return _engine(url)
    return sa.create_engine(url, pool_size=1, pool_pre_ping=True)


def sqlite_place(path: Path) -> Place:
    """A new SQLite file."""
    sqlite3.connect(path).close()
    return Place("sqlite", f"sqlite:///{path}")


@contextmanager
def another_database(place: Place, name: str) -> Iterator[Place]:
    """A second database of the same server, without tables."""
    engine = sa.create_engine(place.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    url = sa.make_url(place.url).set(database=name).render_as_string(hide_password=False)
    other = Place(place.kind, url)
    yield other
    other.disconnect()
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name}")
