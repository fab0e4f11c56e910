"""Test databases of each kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from publisher.database import Database, DatabaseOptions

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

    def execute(self, *statements: str) -> None:
        """Runs statements, committed together."""
        if self.kind == "sqlite":
            connection = sqlite3.connect(self.url.removeprefix("sqlite:///"))
            connection.executescript(";".join(statements))
            connection.close()
            return
        with self.engine.begin() as served:
            for statement in statements:
                served.exec_driver_sql(statement.replace("%", "%%"))

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]

    def database(self, **options: object) -> Database:
        """The database as the program sees it."""
        return Database(DatabaseOptions(url=self.url, **{"backoff": 0.05, **options}))  # type: ignore[arg-type]


def drop(place: Place, relations: Iterable[tuple[str, str]]) -> None:
    """Takes test tables and views (kind, name) away, views first."""
    quote = "`" if place.kind == "mariadb" else '"'
    quoted = [
        (kind, quote + name.replace(quote, quote * 2) + quote)
        for kind, name in sorted(relations, reverse=True)
    ]
    place.execute(*(f"DROP {kind} IF EXISTS {name} CASCADE" for kind, name in quoted))


@lru_cache
def _engine(url: str) -> sa.Engine:
    """One engine for each database: a new one asks the server about itself."""
    return sa.create_engine(url, poolclass=sa.NullPool)


def sqlite_place(path: Path) -> Place:
    """A new SQLite file."""
    sqlite3.connect(path).close()
    return Place("sqlite", f"sqlite:///{path}")
