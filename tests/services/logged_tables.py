"""Random transactions on a real table, and a model that follows its event log."""

# ruff: noqa: DTZ001 - columns without a zone

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, cast

import sqlalchemy as sa

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.lookup import DatabaseLookup
from publisher.formats.contract import Context
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.source import event_log
from publisher.formats.live.table_split import DatabaseTable
from publisher.model.catalogue import ColumnKind
from publisher.model.change import TALLY, Change, Object
from publisher.model.change_batches import changes_of
from publisher.model.keys import format_key
from publisher.planning.query_back import CurrentRow
from publisher.triggers import Refs, Style, TableRef, install, plan
from publisher.xds.values import ValueOptions, Values, text_of
from tests.services.databases import Place
from tests.support.planning import answers_of
from tests.support.prepare import prepare_here

LOG = "event_log"
HOSTILE = (
    """, ; ' + " = \\ < >""", "", " lead", "trail ", "tab\t", "two\nlines\n", "a+b=c", '"', "\\",
    'x\\"', "O'Hara", "Zoë 😀", "plain", "in the middle", "%s %(x)s :b ? $xds$ {}",
)  # fmt: skip
TYPES = {
    "name": ("VARCHAR(80)", "VARCHAR(80)", "VARCHAR(80)"),
    "note": ("TEXT", "TEXT", "TEXT"),
    "size": ("BIGINT", "BIGINT", "BIGINT"),
    "pay": ("NUMERIC(8,2)", "NUMERIC(8,2)", "NUMERIC(8,2)"),
    "rate": ("DOUBLE PRECISION", "DOUBLE", "DOUBLE"),
    "active": ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
    "born": ("DATE", "DATE", "DATE"),
    "wakes": ("TIME", "TIME", "TIME"),
    "seen": ("TIMESTAMP", "DATETIME(6)", "TIMESTAMP"),
    "changed": ("TIMESTAMPTZ", "TIMESTAMP(6) NULL", "TIMESTAMP"),
    "photo": ("BYTEA", "BLOB", "BLOB"),
    "code": ("CHAR(5)", "CHAR(5)", "CHAR(5)"),
}
"""Type of each column in PostgreSQL, MariaDB and SQLite."""

KINDS = ("postgresql", "mariadb", "sqlite")
VALUES: dict[str, Sequence[Any]] = {
    "name": HOSTILE,
    "note": (*HOSTILE, "long " * 100),
    "size": (0, 1, -7, 2**62),
    "pay": (Decimal("0.00"), Decimal("-1.50"), Decimal("999999.99"), Decimal("10.00")),
    "rate": (0.1, 1e20, 0.1 + 0.2, -2.5),
    "active": (True, False),
    "born": (dt.date(1999, 12, 31), dt.date(2024, 2, 29), dt.date(1066, 10, 14)),
    "wakes": (dt.time(0, 0), dt.time(23, 59, 58), dt.time(6, 30)),
    "seen": (dt.datetime(2001, 2, 3, 4, 5, 6), dt.datetime(2026, 10, 25, 2, 30, 0, 123456)),
    "changed": (dt.datetime(2001, 2, 3, 4, 5, 6), dt.datetime(2026, 10, 25, 2, 30, 0, 120000)),
    "photo": (b"", b"\x00", b"\xbb\xbb", b"\x00\xffA", bytes(range(256))),
    "code": ("ab", "abcde", "", "a c"),
}
SETTINGS = {
    "postgresql": (
        "SET LOCAL datestyle TO 'German, DMY'",
        "SET LOCAL timezone TO 'Europe/Berlin'",
        "SET LOCAL bytea_output TO 'escape'",
        "SET LOCAL intervalstyle TO 'iso_8601'",
        "SET LOCAL extra_float_digits TO -5",
        "SET LOCAL standard_conforming_strings TO off",
        "SET LOCAL search_path TO pg_temp",
    ),
    "mariadb": (
        "SET SESSION time_zone = '+05:30'",
        "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
        "SET SESSION default_regex_flags = 'MULTILINE,EXTENDED'",
        "SET SESSION div_precision_increment = 0",
        "SET SESSION collation_connection = 'utf8mb4_general_ci'",
        "SET SESSION lc_time_names = 'de_DE'",
    ),
    "sqlite": ("PRAGMA case_sensitive_like = ON", "PRAGMA recursive_triggers = ON"),
}
"""What a session may have set when it writes."""


class Logged:
    """A table with triggers, and the keys that it should hold."""

    def __init__(self, place: Place, table: str, style: Style, columns: Sequence[str]) -> None:
        self.place = place
        self.style = style
        self.columns = tuple(columns)
        self.table = table
        self.keys: list[tuple[str, int]] = []
        mark = "`" if place.kind == "mariadb" else '"'
        self.quoted = mark + table.replace(mark, mark * 2) + mark
        types = [f"{name} {TYPES[name][KINDS.index(place.kind)]}" for name in columns]
        key = "VARCHAR(80) NOT NULL"
        place.execute(
            f"CREATE TABLE {self.quoted} (part {key}, number INTEGER NOT NULL,"
            f" {', '.join([*types, 'PRIMARY KEY (part, number)'])})"
        )
        self.install(style)
        self.engine = place.kept_engine  # its settings are of a transaction, or of a new session
        names: list[Any] = [sa.column(name) for name in ("part", "number", *columns)]
        schema = "public" if place.kind == "postgresql" else None
        self.sql: Any = sa.table(sa.quoted_name(table, quote=True), *names, schema=schema)

    def install(self, style: Style) -> None:
        database = self.place.database()
        refs = Refs((TableRef(None, self.table),), TableRef(None, LOG))
        install(database, plan(database, refs, style))

    def row(self, rng: random.Random, columns: Sequence[str]) -> dict[str, Any]:
        return {
            name: None if rng.random() < 0.25 else self.value(rng.choice(VALUES[name]))
            for name in columns
        }

    def value(self, value: Any) -> Any:
        if self.place.kind != "sqlite":
            return value
        if isinstance(value, dt.datetime):
            return value.isoformat(" ")
        if isinstance(value, dt.date | dt.time):
            return value.isoformat()
        return float(value) if isinstance(value, Decimal) else value

    @contextmanager
    def transaction(self, rng: random.Random) -> Iterator[sa.Connection]:
        with self.engine.begin() as connection:
            for setting in SETTINGS[self.place.kind]:
                if rng.random() < 0.5:
                    connection.exec_driver_sql(setting)
            yield connection

    def work(self, rng: random.Random, steps: int) -> None:
        """One transaction of random changes; one of five is taken back."""
        keys = list(self.keys)
        actions: list[Callable[[sa.Connection, random.Random], None]] = [
            self.insert, self.insert, self.insert, self.update, self.update,
            self.update_some, self.rekey, self.delete, self.replace, self.same,
        ]  # fmt: skip
        try:
            with self.transaction(rng) as connection:
                for _ in range(steps):
                    rng.choice(actions)(connection, rng)
                if rng.random() < 0.2:
                    raise TakenBackError
        except TakenBackError:
            self.keys = keys

    def new_key(self, rng: random.Random) -> tuple[str, int]:
        while (key := (rng.choice(HOSTILE), rng.randrange(-3, 1000))) in self.keys:
            pass
        return key

    def where(self, key: tuple[str, int]) -> Any:
        return sa.and_(self.sql.c.part == key[0], self.sql.c.number == key[1])

    def insert(self, connection: sa.Connection, rng: random.Random) -> None:
        key = self.new_key(rng)
        self.keys.append(key)
        row = self.row(rng, self.columns) if rng.random() < 0.8 else {}
        connection.execute(self.sql.insert().values(part=key[0], number=key[1], **row))

    def update(self, connection: sa.Connection, rng: random.Random) -> None:
        if self.keys:
            chosen = rng.sample(self.columns, min(len(self.columns), rng.randrange(1, 4)))
            statement = self.sql.update().where(self.where(rng.choice(self.keys)))
            if chosen:
                connection.execute(statement.values(self.row(rng, chosen)))

    def update_some(self, connection: sa.Connection, rng: random.Random) -> None:
        row = self.row(rng, [rng.choice(self.columns)])
        number = rng.randrange(1000)
        connection.execute(self.sql.update().where(self.sql.c.number > number).values(row))

    def rekey(self, connection: sa.Connection, rng: random.Random) -> None:
        if self.keys:
            old = self.keys.pop(rng.randrange(len(self.keys)))
            new = self.new_key(rng)
            self.keys.append(new)
            row = {"part": new[0], "number": new[1]}
            if rng.random() < 0.5:
                row |= self.row(rng, [rng.choice(self.columns)])
            connection.execute(self.sql.update().where(self.where(old)).values(row))

    def delete(self, connection: sa.Connection, rng: random.Random) -> None:
        if self.keys:
            key = self.keys.pop(rng.randrange(len(self.keys)))
            connection.execute(self.sql.delete().where(self.where(key)))

    def replace(self, connection: sa.Connection, rng: random.Random) -> None:
        """Deletes a row and inserts another with its key."""
        if self.keys:
            key = rng.choice(self.keys)
            connection.execute(self.sql.delete().where(self.where(key)))
            row = self.row(rng, self.columns)
            connection.execute(self.sql.insert().values(part=key[0], number=key[1], **row))

    def same(self, connection: sa.Connection, rng: random.Random) -> None:
        """An update that changes nothing."""
        name = rng.choice(self.columns)
        connection.execute(self.sql.update().values({name: self.sql.c[name]}))


class TakenBackError(Exception):
    """Ends a transaction."""


def read_log(database: Database, after: int = 0, table: str = LOG) -> list[Change]:
    """The log's new rows as the program reads them: none may be rejected."""
    source = event_log(EventLogOptions(), table=DatabaseTable(database.options, table, text_of))
    changes: list[Change] = []
    catalogue = catalogue_of(database)
    with prepare_here(source, (), 1, catalogue) as prepared:
        for number in range(len(prepared.splits)):
            for batch in prepared.read(number, Context(0, 1, catalogue)):
                outcomes = set(batch.column("outcome").to_pylist())
                if outcomes != {TALLY}:
                    assert outcomes <= {None}, batch.column("detail").to_pylist()
                    changes += changes_of(batch, range(batch.num_rows))
    return sorted((c for c in changes if c.position.high > after), key=lambda c: c.position.high)


class Model:
    """A consumer's knowledge of the log: rows as texts of columns, by object."""

    def __init__(self, database: Database) -> None:
        self.rows: dict[Object, dict[str, str | None]] = {}
        self.last = 0
        self.types: list[int] = []
        self._database = database
        self._lookup = DatabaseLookup(database)

    def follow(self) -> None:
        """Applies what is new; fails on what cannot be."""
        changes = read_log(self._database, self.last)
        self._look_up = answers_of(self._lookup, list({change.object for change in changes}))
        fresh: set[Object] = set()
        for change in changes:
            self.last = change.position.high
            self.types.append(change.event_type)
            self._apply(change, fresh)

    def _apply(self, change: Change, fresh: set[Object]) -> None:
        object_, kind = change.object, change.event_type
        if kind in (1, 5, 7):
            if object_ not in fresh:
                assert object_ not in self.rows, change
                self.rows[object_] = {}
                fresh.add(object_)
        else:
            assert object_ in self.rows, change
            fresh.discard(object_)
        row = self.rows[object_]
        if kind == 4:
            del self.rows[object_]
        elif kind == 1:
            self._set(row, change, None)
        elif kind == 2:
            assert change.old is not None
            self._set(row, change, change.old[0])
        else:
            answer = self._look_up[object_]
            if isinstance(answer, CurrentRow):
                now = cast(
                    "dict[str, str | None]", dict(zip(answer.columns, answer.values, strict=True))
                )
                names = change.columns or tuple(now)
                row.update({name: now[name] for name in names})

    def _set(self, row: dict[str, str | None], change: Change, old: str | None) -> None:
        (column,) = change.columns
        assert row.get(column) == old, change
        assert change.new is not None
        row[column] = change.new[0]

    def check(self, logged: Logged) -> None:
        """Every row of the table is known as it is, and no other."""
        table = catalogue_of(self._database).table(None, logged.table)
        assert table is not None
        values = Values(ValueOptions(time_syntax=2))
        shown: dict[str, Callable[[str], object]] = {
            name: Decimal
            if table.columns[name] is ColumnKind.DECIMAL
            else values.converter(table.columns[name], name in table.padded)
            for name in logged.columns
        }
        answers = answers_of(self._lookup, list(self.rows))
        assert {format_key((("number", str(n)), ("part", p))) for p, n in logged.keys} == {
            object_.key for object_ in self.rows
        }
        for object_, row in self.rows.items():
            answer = answers[object_]
            assert isinstance(answer, CurrentRow), object_
            now = cast(
                "dict[str, str | None]", dict(zip(answer.columns, answer.values, strict=True))
            )
            for name in logged.columns:
                mine, theirs = row.get(name), now[name]
                assert (mine is None) == (theirs is None), (object_, name, mine, theirs)
                if mine is not None and theirs is not None:
                    assert shown[name](mine) == shown[name](theirs), (object_, name)
