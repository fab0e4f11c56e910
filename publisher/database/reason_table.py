"""The table of reasons for the statuses W, E and F in the user's database.

::

    source     name of the source in the job
    record_id  of the event log; NULL if the row has none
    status     W, E or F
    reason     as in the ledger: no-database, row-gone, ...
    detail     description and advice
    run        the run that decided the status
    time       time of writing, UTC
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

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database, fatal_errors
from publisher.errors import FatalError

T = TypeVar("T")

Entry = tuple[int | None, str, str, str]
"""Record id, status, reason, detail."""

COLUMNS = ("source", "record_id", "status", "reason", "detail", "run", "time")
_ROWS = 10_000
"""Number of rows in one transaction."""
_DETAIL = 4_000
"""Maximum characters of a detail, which the smallest text type can store in any encoding."""


class ReasonTable:
    """Writes the reasons of runs.

    Raises ``UnreachableError``, and ``FatalError`` if the database refuses or the table has other
    columns.
    """

    def __init__(self, database: Database, name: str, check_lease: Callable[[], None]) -> None:
        """``name`` may begin with a schema.  ``check_lease`` is called before each transaction and
        raises if another instance has taken over."""
        self._database = database
        self._name = name
        self._check_lease = check_lease
        self._cached: Table | None = None

    def write(self, run: str, source: str, entries: Iterable[Entry]) -> int:
        """Replaces the reasons of a run and source; returns the number of rows."""
        table = self._table()
        old = delete(table).where(table.c.run == run, table.c.source == source)
        self._transaction(lambda connection: connection.execute(old))
        now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        count = 0
        for portion in _portions(entries):
            rows: list[dict[str, object]] = [
                dict(zip(COLUMNS, (source, *entry[:3], entry[3][:_DETAIL], run, now), strict=True))
                for entry in portion
            ]
            self._transaction(partial(_insert, table, rows))
            count += len(rows)
        return count

    def _table(self) -> Table:
        """Returns the table; creates it if it is missing."""
        if self._cached is None:
            table = self._find()  # "or" would fail: a table has no truth value
            self._cached = table if table is not None else self._create()
        return self._cached

    def _find(self) -> Table | None:
        catalogue = catalogue_of(self._database)
        relation = catalogue.relation(None, self._name)
        schema, _, name = self._name.rpartition(".")
        if relation is None and schema:
            relation = catalogue.relation(schema, name)
        if relation is None:
            return None
        missing = [column for column in COLUMNS if column not in relation.types]
        if missing:
            raise FatalError(
                f"table {self._name} of {self._database.name} has no column {', '.join(missing)}: "
                "name another reason_table, or drop this one, so that it is created"
            )
        return _define(relation.table.name, relation.schema)

    def _create(self) -> Table:
        schema, _, name = self._name.rpartition(".")
        table = _define(name, schema or self._database.options.schema)
        self._transaction(partial(table.create, checkfirst=True))
        return table

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        def work_in_transaction(connection: Connection) -> T:
            self._check_lease()
            with connection.begin():
                return work(connection)

        with fatal_errors(self._database, f"Writing reasons into {self._name}"):
            return self._database.run(work_in_transaction)


def _define(name: str, schema: str | None) -> Table:
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


def _portions(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    entries = iter(entries)
    while portion := list(islice(entries, _ROWS)):
        yield portion
