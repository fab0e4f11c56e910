"""A table of the user's database that says why rows got W, E or F.

::

    source     name of the source in the job
    record_id  of the event log; NULL where the row has none
    status     W, E or F
    reason     as in the journal: no-database, row-gone, ...
    detail     in words: what was wrong and what to do
    run        the run that found it
    time       when it was written, UTC
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Index,
    MetaData,
    String,
    Table,
    Text,
    delete,
    insert,
    quoted_name,
)
from sqlalchemy.exc import DBAPIError

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database, fatal
from publisher.errors import FatalError

T = TypeVar("T")

Entry = tuple[int | None, str, str, str]
"""Record id, status, reason, detail."""

COLUMNS = ("source", "record_id", "status", "reason", "detail", "run", "time")
_ROWS = 10_000
"""Rows of one transaction."""
_DETAIL = 4_000
"""Characters of a detail: what the smallest text type of the databases holds in any encoding."""


class ReasonTable:
    """Writes the reasons of runs.

    Raises ``UnreachableError``, and ``FatalError`` where the database refuses, or the table is
    another.
    """

    def __init__(self, database: Database, name: str, check_lease: Callable[[], None]) -> None:
        """``name`` may begin with a schema.  ``check_lease`` is called before each transaction and
        raises where another instance has taken over."""
        self._database = database
        self._name = name
        self._check_lease = check_lease
        self._made: Table | None = None

    def write(self, run: str, source: str, entries: Iterable[Entry]) -> int:
        """Writes what a run found in a source, in place of what an earlier try wrote; counts it."""
        table = self._table()
        old = delete(table).where(table.c.run == run, table.c.source == source)
        self._transaction(lambda connection: connection.execute(old))
        now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        written = 0
        for portion in _batched(entries):
            rows: list[dict[str, object]] = [
                dict(zip(COLUMNS, (source, *entry[:3], entry[3][:_DETAIL], run, now), strict=True))
                for entry in portion
            ]
            self._transaction(partial(_insert, table, rows))
            written += len(rows)
        return written

    def _table(self) -> Table:
        """The table, made where it is missing."""
        if self._made is None:
            found = self._found()  # a table has no truth value
            self._made = found if found is not None else self._make()
        return self._made

    def _found(self) -> Table | None:
        catalogue = catalogue_of(self._database)
        found = catalogue.relation(None, self._name)
        schema, _, name = self._name.rpartition(".")
        if found is None and schema:
            found = catalogue.relation(schema, name)
        if found is None:
            return None
        missing = [column for column in COLUMNS if column not in found.types]
        if missing:
            raise FatalError(
                f"table {self._name} of {self._database.name} has no column {', '.join(missing)}: "
                "name another reason_table, or drop this one so that it is made"
            )
        return _described(found.table.name, found.schema)

    def _make(self) -> Table:
        schema, _, name = self._name.rpartition(".")
        table = _described(name, schema or self._database.options.schema)
        self._transaction(partial(table.create, checkfirst=True))
        return table

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        def begun(connection: Connection) -> T:
            self._check_lease()
            with connection.begin():
                return work(connection)

        try:
            return self._database.run(begun)
        except DBAPIError as error:
            raise fatal(self._database, error, f"Writing reasons into {self._name}") from error


def _described(name: str, schema: str | None) -> Table:
    quoted = quoted_name(name, quote=True)
    return Table(
        quoted,
        MetaData(),
        Column("source", String(255), nullable=False),
        Column("record_id", BigInteger),
        Column("status", String(1), nullable=False),
        Column("reason", String(64), nullable=False),
        Column("detail", Text, nullable=False),
        Column("run", String(255), nullable=False),
        Column("time", DateTime, nullable=False),
        Index(None, "record_id"),
        Index(None, "run"),
        schema=None if schema is None else quoted_name(schema, quote=True),
    )


def _insert(table: Table, rows: list[dict[str, object]], connection: Connection) -> None:
    connection.execute(insert(table), rows)


def _batched(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    entries = iter(entries)
    while portion := list(islice(entries, _ROWS)):
        yield portion
