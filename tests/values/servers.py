"""The databases of the table of values: how each creates tables, and how its own client prints values."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from tests.values.ways import TypeTable

HOSTILE: dict[str, dict[str, Any]] = {
    "postgresql": {
        "intervalstyle": "iso_8601",
        "datestyle": "SQL,DMY",
        "timezone": "Asia/Kolkata",
        "extra_float_digits": "-3",
        "bytea_output": "escape",
        "xmlbinary": "hex",
        "xmloption": "document",
        "standard_conforming_strings": "off",
        "backslash_quote": "on",
        "array_nulls": "off",
        "transform_null_equals": "on",
        "quote_all_identifiers": "on",
        "client_encoding": "latin1",
    },
    "mariadb": {
        "sql_mode": "ANSI,PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE,NO_BACKSLASH_ESCAPES",
        "time_zone": "+05:30",
        "div_precision_increment": 0,
        "lc_time_names": "de_DE",
        "old_mode": "ZERO_DATE_TIME_CAST",
        "sql_select_limit": 3,
        "character_set_results": "latin1",
        "group_concat_max_len": 4,
    },
}
"""Settings of the session of the program's user, which must not change a text."""

SETUP = {
    "postgresql": (
        "CREATE TYPE mood AS ENUM ('sad', '', 'so, so')",
        "CREATE TYPE pair AS (a numeric, b text)",
    ),
}


@dataclass(frozen=True, slots=True)
class Server:
    """An empty database of one kind."""

    kind: str
    url: str

    def hostile_url(self) -> str:
        """Returns the URL of a session whose settings change how values are shown."""
        url, settings = sa.make_url(self.url), HOSTILE.get(self.kind, {})
        if self.kind == "postgresql":
            words = (f"-c {name}={value}" for name, value in settings.items())
            url = url.update_query_dict({"options": " ".join(words)})
        elif self.kind == "mariadb":
            values = (f"{name}={value!r}" for name, value in settings.items())
            url = url.update_query_dict({"init_command": f"SET {', '.join(values)}"})
        return url.render_as_string(hide_password=False)

    def execute(self, statements: Iterable[str]) -> None:
        """Runs statements, committed together."""
        with self._connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement.replace("%", "%%"))

    def create(self, table: str, types: Sequence[str], rows: str) -> list[str]:
        """Returns statements that create a table with a column of each type, and ``rows`` of the base."""
        columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(types))
        insert = f"INSERT INTO {table} {rows}"
        return [f"CREATE TABLE {table} (id integer PRIMARY KEY, {columns})", insert]

    def fill(self, table: str, count: int) -> str:
        """Returns the statement that gives each row of a table the values of the base table."""
        names = [f"c{place}" for place in range(count)]
        if self.kind == "mariadb":
            values = ", ".join(f"t.{name} = b.{name}" for name in names)
            return f"UPDATE {table} AS t JOIN base AS b ON b.id = t.id SET {values}"
        values = ", ".join(f"{name} = b.{name}" for name in names)
        return f"UPDATE {table} SET {values} FROM base AS b WHERE b.id = {table}.id"

    def texts(self, columns: Mapping[int, int], table: TypeTable) -> dict[int, str | None]:
        """Returns the text that the database prints of each row's value; binary values as Base64."""
        result: dict[int, str | None] = {}
        with self._connect() as connection:
            for place, (type_, kind) in enumerate(zip(table.types, table.kinds, strict=True)):
                item = self._item(f"c{place}", type_, kind)
                query = f"SELECT id, {item} FROM base WHERE id > 0"
                rows = connection.exec_driver_sql(query)
                for row, text in rows:
                    if columns[row] == place:
                        is_binary = isinstance(text, bytes)
                        result[row] = base64.b64encode(text).decode() if is_binary else text
        return result

    def _item(self, name: str, type_: str, kind: str) -> str:
        if kind == "octet":
            return f"CAST({name} AS BLOB)" if self.kind == "sqlite" else name
        if self.kind == "postgresql":
            text = f"CAST({name} AS text)" if kind == "state" else f"concat({name})"
            return f"rtrim({text})" if type_ == "character(5)" else text
        if self.kind == "mariadb":
            return (
                f"CAST({name} + 0 AS CHAR)" if type_.startswith("bit") else f"CAST({name} AS CHAR)"
            )
        if type_ == "CHAR(5)":
            return f"rtrim({name})"
        text = f"CAST({name} AS TEXT)"
        exact = f"typeof({name}) <> 'real' OR CAST({text} AS REAL) = {name}"
        number = f"CASE WHEN {exact} THEN {text} ELSE printf('%!.17g', {name}) END"
        return number if type_ else f"CASE typeof({name}) WHEN 'blob' THEN {name} ELSE {number} END"

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            if self.kind == "sqlite":
                driver: Any = connection.connection.driver_connection
                driver.text_factory = lambda data: data.decode(errors="replace").replace(
                    "\ufffd", "\uffff"
                )
            if self.kind == "mariadb":
                connection.exec_driver_sql("SET sql_mode = '', time_zone = '+00:00'")
            if self.kind == "postgresql":
                connection.exec_driver_sql("SET timezone TO 'UTC'")
            yield connection
            connection.commit()


def sqlite_server(path: Path) -> Server:
    """Creates an SQLite file."""
    sqlite3.connect(path).close()
    return Server("sqlite", f"sqlite:///{path}")


@contextmanager
def own_database(kind: str, url: str, name: str) -> Iterator[Server]:
    """Creates a database on a server."""
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    own: Any = sa.make_url(url).set(database=name)
    yield Server(kind, own.render_as_string(hide_password=False))
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name}")
