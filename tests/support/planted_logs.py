"""An event log, its database and a job, in which every value is planted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.support.event_log_files import NAMES, Row, csv_text, event
from tests.support.planted_values import PlantedValues

JOB = """
[source]
future_events = true
key_change = "modify-association"
driver_user = "idm"
poll_size = 40
[tables.usr]
key = ["idu"]
columns = { idu = "int", fname = "string", photo = "octet", born = "date", manager = "int" }
references = { manager = { table = "usr", key = "idu" } }
complete = true
[documents]
forbidden = "reject"
[run]
lanes = 3
"""
MASKING = """
[masking]
hash = ["*.idu", "member.*", "idg", "usr.*"]
redact = ["usr.photo", "phone.*", "*.born"]
shorten = ["lname", "*.title"]
key_env = "MASK_KEY"
"""
TABLES = """
CREATE TABLE grp (idg VARCHAR(60) PRIMARY KEY, title VARCHAR(900));
CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(90), lname VARCHAR(90), photo BLOB, born DATE,
  manager INTEGER REFERENCES usr (idu));
CREATE TABLE phone (idu INTEGER REFERENCES usr (idu), phoneno VARCHAR(90));
CREATE TABLE member (idu INTEGER REFERENCES usr (idu), idg VARCHAR(60) REFERENCES grp (idg));
"""
HOSTILE = (
    "{}",
    " {} ",
    "<b>&{};</b>",
    '"{}"',
    "]]>{}\r\n\t\x1b[31m",
    "\u202e{}\u00e9\U0001f600",
    "{}\\u0041%41+=,;'",
)
"""Surroundings of planted texts."""


@dataclass
class PlantedLog:
    """Writes a log of ``size`` objects, a database with a part of them, and files beside each other."""

    planted: PlantedValues
    folder: Path
    size: int

    def __post_init__(self) -> None:
        self._numbers = count(1)

    @property
    def database(self) -> str:
        """The URL of the database."""
        return f"sqlite:///{self.folder / 'hr.db'}"

    def write(self) -> Path:
        """Writes log and database; returns the log, which the database has as a table, too."""
        with closing(sqlite3.connect(self.folder / "hr.db")) as connection:
            connection.executescript(TABLES)
            rows = list(self._rows(connection))
            connection.execute(f"CREATE TABLE log ({', '.join(NAMES)})")
            places = ", ".join("?" * len(NAMES))
            texts = [[row[name] for name in NAMES] for row in rows]
            connection.executemany(f"INSERT INTO log VALUES ({places})", texts)
            connection.commit()
        log = self.folder / "log.csv"
        log.write_text(csv_text(rows), "utf-8", newline="")
        return log

    def _rows(self, database: sqlite3.Connection) -> Iterator[Row]:
        kinds = (self._logged, self._read, self._group, self._rejected, self._moved)
        for number in range(self.size):
            yield from kinds[number % len(kinds)](number, database)

    def _event(self, kind: int, **more: object) -> Row:
        usual = {"event_type": kind, "old_value": None, "new_value": None}
        row = event(next(self._numbers), **usual | {"perpetrator": self.planted.text()} | more)
        return row if kind in (1, 2, 3, 7, 8) else row | {"column_name": None}

    def _text(self, number: int) -> str:
        return HOSTILE[number % len(HOSTILE)].format(self.planted.text())

    def _logged(self, number: int, _: sqlite3.Connection) -> Iterator[Row]:
        """Values of the log, equal ones in several columns, empty and huge ones."""
        key, text = f"idu={self.planted.number()}", self._text(number)
        yield self._event(1, table_key=key, new_value=text)
        yield self._event(2, table_key=key, old_value=text, new_value="")
        yield self._event(3, table_key=key, column_name="lname", new_value=text)
        yield self._event(3, table_key=key, new_value=None)
        manager = self.planted.number()
        yield self._event(2, table_key=key, column_name="manager", new_value=manager)
        if number % 500 == 0:
            yield self._event(3, table_key=key, new_value=self.planted.text() * 90_000)
        if number % 2:
            yield self._event(4, table_key=key)

    def _read(self, number: int, database: sqlite3.Connection) -> Iterator[Row]:
        """Rows of the database, with child tables and references."""
        key, manager, group = (self.planted.number() for _ in range(3))
        names = self._text(number), self.planted.text()
        photo, born = self.planted.text().encode(), "1999-01-02"
        database.execute("INSERT INTO usr VALUES (?, NULL, NULL, NULL, NULL, NULL)", (manager,))
        values = (key, *names, photo, born, manager)
        database.execute("INSERT INTO usr VALUES (?, ?, ?, ?, ?, ?)", values)
        database.execute("INSERT INTO grp VALUES (?, ?)", (group, ""))  # is not read
        database.execute("INSERT INTO member VALUES (?, ?)", (key, group))
        for _ in range(2):
            database.execute("INSERT INTO phone VALUES (?, ?)", (key, self._text(number)))
        yield self._event(5 + number % 2, table_key=f"idu={key}")
        yield self._event(8, table_key=f"idu={manager}", column_name="fname")
        yield self._event(6, table_key=f"idu={self.planted.number()}")

    def _group(self, number: int, database: sqlite3.Connection) -> Iterator[Row]:
        """Keys of texts that need quotes."""
        group = f"{self.planted.text()};{number % 3}"
        database.execute("INSERT INTO grp VALUES (?, ?)", (group, self.planted.text()))
        yield self._event(5, table_name="grp", table_key=f'idg="{group}"')
        yield self._event(3, table_name="grp", table_key=f'idg="{group}"', column_name="title")

    def _rejected(self, number: int, _: sqlite3.Connection) -> Iterator[Row]:
        """Records that are rejected or held, with values wherever they may be quoted."""
        key, text = f"idu={self.planted.number()}", self.planted.text()
        bad: list[Callable[[], Row]] = [
            lambda: self._event(3, table_key=f"idu={text}", new_value=text),
            lambda: self._event(3, table_key=f'idu="{text}', new_value=text),
            lambda: self._event(3, table_key=key, new_value=f"\x00{text}"),
            lambda: self._event(3, table_key=key, column_name="manager", new_value=text),
            lambda: self._event(3, table_key=key, column_name="photo", new_value=f"{text}!"),
            lambda: self._event(3, table_key=key, column_name="born", new_value=text),
            lambda: self._event(3, table_key=key, column_name="nothing", new_value=text),
            lambda: self._event(3, table_key=key, table_name="nothing", new_value=text),
            lambda: self._event(3, table_key=key, column_name=text),
            lambda: self._event(3, table_key=key, table_name=text, new_value=text),
            lambda: self._event(3, table_key=key, event_time=text),
            lambda: self._event(3, table_key=key, new_value=text) | {"event_type": text},
            lambda: self._event(3, table_key=key, new_value=text) | {"record_id": text},
            lambda: self._event(4, table_key=key, event_time="2999-01-01"),
            lambda: self._event(5, table_key=key, event_time="2999-01-01"),
        ]
        row = bad[number // 5 % len(bad)]()
        yield row
        if number % 3 == 0 and row["event_type"] == 3:
            yield row | {"new_value": self.planted.text()}

    def _moved(self, number: int, database: sqlite3.Connection) -> Iterator[Row]:
        """Objects that get another key, and are read under it."""
        old, new = self.planted.number(), self.planted.number()
        values = (new, self._text(number))
        database.execute("INSERT INTO usr (idu, fname) VALUES (?, ?)", values)
        if number % 2:
            yield self._event(3, table_key=f"idu={old}", new_value="superseded")
            yield self._event(6, table_key=f"idu={old}")
        moved = {"column_name": "idu", "old_value": old, "new_value": new}
        yield self._event(2, table_key=f"idu={old}", **moved)
        if not number % 2:
            yield self._event(8, table_key=f"idu={new}")
