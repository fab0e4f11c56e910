"""Counts the rows of an event log that wait to be read, and the age of the oldest."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    case,
    cast,
    column,
    func,
    null,
    select,
    types,
)
from sqlalchemy import quoted_name as quoted

from publisher.database.catalogue import Relation, sql_table_of
from publisher.database.connection import Database, fatal_errors
from publisher.database.options import DatabaseOptions
from publisher.database.ordered_ranges import as_text
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.live.find_table import LiveTable, column_of, relation_of
from publisher.formats.waiting_rows import WaitingRows

_DATED = "____-__-__%"
"""Text that can be a time; any other text sorts before or after all times."""
_SECOND = 1_000_000


class EventLogBacklog:
    """Counts the rows of status ``N`` of one event log, or all rows if the source reads any status.

    The age of the oldest row is measured by the clock of the database (PostgreSQL, MySQL, MariaDB), else of
    this machine.  Times without a zone are in the zone of the source, as for its reader.
    """

    def __init__(self, options: EventLogOptions, database: DatabaseOptions, table: str) -> None:
        """Raises ``SettingsError`` if the database's URL cannot be used."""
        self._database = Database(database)
        self._table = table
        self._options = options
        self._statement: Select[Any] | None = None

    def count(self, state: Path | None = None) -> WaitingRows:
        """As ``TableBacklog.count``.  Uses one statement, which is fast with an index on the status."""
        del state  # the status of each row shows whether it waits
        if self._statement is None:  # queries the catalogue, on the same connection
            self._statement = self._build_statement(self._database.engine.dialect.name)
        statement = self._statement

        def ask(connection: Connection) -> tuple[int, str | None, Any]:
            rows, oldest, now = connection.execute(statement).one()
            return int(rows), oldest, now

        with fatal_errors(self._database, f"Counting the waiting rows of table {self._table}"):
            rows, oldest, now = self._database.run(ask, is_query=True)
        oldest_time = self._seconds(oldest)
        clock = time.time() if now is None else float(now)
        return WaitingRows(rows, None if oldest_time is None else max(0.0, clock - oldest_time))

    def count_by_status(self) -> dict[str, int]:
        """As ``TableBacklog.count_by_status``, with NULL as ``NULL``.  Reads the whole table or an index."""
        relation = relation_of(self._database, LiveTable(self._table))
        written = self._options.expected_columns().written_name("status")
        status: ColumnElement[Any] = column(
            quoted(column_of(relation, written, self._database), quote=True)
        )
        counts_by_status = select(status, func.count()).group_by(status)
        counts_by_status = counts_by_status.select_from(sql_table_of(relation))
        with fatal_errors(self._database, f"Counting the rows of table {self._table}"):
            rows = self._database.run(lambda connection: connection.execute(counts_by_status).all())
        counts: Counter[str] = Counter()
        for letter, count in rows:
            counts["NULL" if letter is None else str(letter).rstrip()] += count
        return dict(sorted(counts.items()))

    def close(self) -> None:
        """Closes the connection; a later use opens a new one."""
        self._database.close()

    def _build_statement(self, dialect: str) -> Select[Any]:
        relation = relation_of(self._database, LiveTable(self._table))
        written_name = self._options.expected_columns().written_name
        status, moment, _ = (  # a log without a record id is refused here, too
            column_of(relation, written_name(name), self._database)
            for name in ("status", "event_time", "record_id")
        )
        counts = select(func.count(), _oldest(relation, moment, dialect), _clock(dialect))
        counts = counts.select_from(sql_table_of(relation))
        if self._options.status == "any":
            return counts
        letter: ColumnElement[Any] = column(quoted(status, quote=True))
        return counts.where(letter == self._options.status)

    def _seconds(self, moment: str | None) -> float | None:
        """Converts a time to seconds since 1970-01-01 UTC, by the rules of the reader."""
        if moment is None:
            return None
        import pyarrow as pa  # noqa: PLC0415 - an empty log has no time

        from publisher.formats.columns.columns import times  # noqa: PLC0415

        values, valid = times(pa.array([moment], pa.string()), self._options.time_zone)
        return float(values[0]) / _SECOND if valid[0] else None


def _oldest(relation: Relation, moment: str, dialect: str) -> ColumnElement[Any]:
    time_column: ColumnElement[Any] = column(quoted(moment, quote=True))
    if isinstance(relation.types[moment], types.DateTime | types.Date) and dialect != "sqlite":
        # as text: Python has no infinite time
        return cast(func.min(time_column), Text)
    text = as_text(relation, moment)
    return func.min(case((text.like(_DATED), text)))


def _clock(dialect: str) -> ColumnElement[Any]:
    """The database's clock as seconds since 1970-01-01 UTC; NULL for databases not listed here."""
    if dialect == "postgresql":
        return func.extract("epoch", func.clock_timestamp())
    if dialect in ("mysql", "mariadb"):
        return func.unix_timestamp(func.now(6))
    return null()
