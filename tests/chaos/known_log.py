"""An event log that says by its values what must come out: each object counts 1, 2, 3 and so on."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from publisher.triggers import DatabaseKind, TableRef, render
from tests.services.topics import Record

OBJECTS = 400
_KEY = re.compile(rb"idu=(\d+),table=usr,schema=indirect")
_VALUES = re.compile(rb"<add-value>\s*<value[^>]*>(\d+)</value>")
SOURCE = """
[[sources]]
format = "event-log"
schema = "indirect"
table = "{table}"
url = "{url}"
poll_size = 300
poll_slack = 0

[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string" }}
"""


@dataclass
class KnownLog:
    """A table of PostgreSQL at ``url``, dropped and made at the start."""

    url: str
    table: str
    counts: Counter[int] = field(default_factory=Counter)
    """The last value of each object."""

    def __post_init__(self) -> None:
        with self._connect() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {self.table}".encode())
            for statement in render(DatabaseKind.POSTGRESQL, TableRef("public", self.table)):
                if not statement.is_of_writer:
                    connection.execute(statement.text.encode())

    @property
    def source(self) -> str:
        """The part of a job file that reads it."""
        return SOURCE.format(table=self.table, url=self.url)

    def add(self, rng: random.Random, events: int) -> None:
        """Further events, of random objects, in one transaction."""
        columns = "table_key, event_type, table_name, column_name, old_value, new_value"
        text = f"COPY {self.table} ({columns}) FROM STDIN"
        with (
            self._connect() as connection,
            connection.cursor() as cursor,
            cursor.copy(text.encode()) as copying,
        ):
            for number, old, new in random_events(rng, self.counts, events):
                copying.write_row((f"idu={number}", 2, "usr", "fname", old, new))

    def statuses(self) -> dict[str, int]:
        """Rows by status."""
        rows = self.ask(f"SELECT status, count(*) FROM {self.table} GROUP BY 1")
        return {str(status): int(count) for status, count in rows}

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        """The rows that answer it."""
        with self._connect() as connection:
            return connection.execute(question.encode()).fetchall()

    def execute(self, statement: str) -> None:
        """Does something else to the database."""
        with self._connect() as connection:
            connection.execute(statement.encode())

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url.replace("+psycopg", ""))


def random_events(
    rng: random.Random, counts: Counter[int], events: int
) -> Iterator[tuple[int, int | None, int]]:
    """Object, old and new value of further events; ``counts`` goes on."""
    for _ in range(events):
        number = rng.randrange(OBJECTS)
        old = counts[number] or None
        counts[number] += 1
        yield number, old, counts[number]


@dataclass
class Found:
    """The documents in the sink, compared with those that should be there."""

    values: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    strange: int = 0
    """Values that were never logged, and objects in two partitions."""

    @property
    def is_right(self) -> bool:
        """True if every document is there once and in order."""
        return not (self.lost or self.duplicated or self.out_of_order or self.strange)


def judge_documents(records: Iterable[tuple[int, bytes]], counts: Counter[int]) -> Found:
    """Looks documents (partition, text) through, those of a partition in order."""
    values: dict[int, list[int]] = {number: [] for number in counts}
    places: dict[int, set[int]] = {number: set() for number in counts}
    found = Found()
    for partition, text in records:
        number, added = values_of(text)
        if number not in values:
            found.strange += 1
            continue
        values[number] += added
        places[number].add(partition)
    for number, seen in values.items():
        wanted = set(range(1, counts[number] + 1))
        found.values += len(seen)
        found.lost += len(wanted.difference(seen))
        found.strange += len(set(seen) - wanted) + max(0, len(places[number]) - 1)
        found.duplicated += len(seen) - len(set(seen))
        found.out_of_order += sum(1 for _ in _inversions(seen))
    return found


def values_of(text: bytes) -> tuple[int, list[int]]:
    """Object and values of a document; -1 for an object that no known log has."""
    key = _KEY.search(text)
    return int(key[1]) if key else -1, [int(value) for value in _VALUES.findall(text)]


def _inversions(values: list[int]) -> Iterator[int]:
    """Values that come after a greater one."""
    greatest = 0
    for value in values:
        if value < greatest:
            yield value
        greatest = max(greatest, value)


def texts(records: Iterable[Record]) -> Iterator[tuple[int, bytes]]:
    """Returns records as ``judge_documents`` takes them."""
    return ((record.partition, record.value or b"") for record in records)
