"""Reads a live table as it is at one moment, in several tasks, and never through the driver process.

The driver process holds a *moment* open while the job runs; tasks read *splits* of the table as it was at
that moment.  In PostgreSQL the tasks share a snapshot, and each reads a range of the ordering column, as CSV
that the server writes (COPY).  In other databases one task reads the table by one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection, Select, select, types

from publisher.database import ordered_ranges
from publisher.database.catalogue import Relation, sql_table_of
from publisher.database.connection import Database, begin_snapshot, fatal_errors
from publisher.database.ordered_ranges import Bounds, TableExtent
from publisher.database.statements import text_columns
from publisher.formats.files.frame import Frame
from publisher.formats.live.find_table import LiveTable, column_of, relation_of, sorting
from publisher.formats.live.table_split import TableSplit
from publisher.model.packed_batches import gather

BATCH_BYTES = 8 << 20
_ROWS_AT_ONCE = 64
"""Rows of other databases that are fetched together: few, so that values of 1 MB fit into memory."""

TextOf = Callable[[Any], str | None]


@contextmanager
def moment(
    database: Database, table: LiveTable, tasks: int, *, is_read_once: bool = False
) -> Iterator[tuple[TableSplit[None], ...]]:
    """Yields at most ``tasks`` splits that all see the table as it is now, while the context is open.

    A single split that is read once (``is_read_once``) sees the moment of its own statement instead.

    Raises ``FatalError`` if the table or a column does not exist, and ``UnreachableError``.
    """
    if not database.can_copy:
        database.check_reachable()
        yield (TableSplit(0),)
        return
    relation = relation_of(database, table)
    if table.order is not None:
        column_of(relation, table.order, database)
    if is_read_once and tasks == 1:
        yield (TableSplit(0),)
        return
    with shared_moment(database, (table,), tasks) as (splits,):
        yield splits


@contextmanager
def shared_moment(
    database: Database, tables: Sequence[LiveTable], tasks: int
) -> Iterator[list[tuple[TableSplit[None], ...]]]:
    """Yields the splits of each table, which all see PostgreSQL as it is now, see ``moment``."""
    from publisher.database import copy  # noqa: PLC0415 - needs psycopg

    with copy.shared_snapshot(database) as (connection, snapshot):
        yield [
            tuple(
                TableSplit(number, snapshot, low, high)
                for number, (low, high) in enumerate(
                    ranges(_ends(database, connection, table) if tasks > 1 else None, tasks)
                )
            )
            for table in tables
        ]


def _ends(database: Database, connection: Connection, table: LiveTable) -> tuple[int, int] | None:
    """Returns the least and greatest value of the column by which a table is divided."""
    from publisher.database import copy  # noqa: PLC0415 - needs psycopg

    relation = relation_of(database, table)
    order = column_of(relation, table.order, database) if table.order is not None else None
    if order is None or not isinstance(relation.types[order], types.Integer):
        return None
    with fatal_errors(database, f"Reading table {relation.table.name}"):
        return copy.value_range(connection, relation, order, _where(relation, table, database))


def ranges(ends: tuple[int, int] | None, tasks: int) -> list[tuple[int | None, int | None]]:
    """Divides the integers from first to last into even ranges [low, high), open at both outer ends."""
    if ends is None:
        return [(None, None)]
    first, last = ends
    count = max(1, min(tasks, last - first + 1))
    bounds = [first + (last - first + 1) * number // count for number in range(1, count)]
    return list(zip([None, *bounds], [*bounds, None], strict=True))


def read(
    database: Database,
    table: LiveTable,
    split: TableSplit[object],
    text_of: TextOf,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[Frame]:
    """Yields the rows of a split, in frames of about ``batch_bytes`` (rows numbered from 1 in the split).

    The frames have the columns of the table, in its order, as text; ``text_of`` converts a value of the
    database driver to text.  If the connection is lost before the first row, reading starts again with a new
    one; if it is lost later, reading fails, because yielded rows cannot be taken back.

    Raises ``FatalError`` and ``UnreachableError``.
    """
    for _, frame in read_together(database, (table,), split, text_of, batch_bytes):
        yield frame


def read_together(
    database: Database,
    tables: Sequence[LiveTable],
    split: TableSplit[object],
    text_of: TextOf,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[tuple[int, Frame]]:
    """Reads tables one after the other as they are at one moment; otherwise as ``read``.

    Yields frames with the numbers of their tables.
    """
    relations = [relation_of(database, table) for table in tables]
    bounds = [_bounds(database, table, split) for table in tables]

    def batches(connection: Connection) -> Iterator[tuple[int, pa.RecordBatch]]:
        if len(tables) > 1:
            begin_snapshot(connection)
        for number, (relation, limits) in enumerate(zip(relations, bounds, strict=True)):
            if database.can_copy:
                from publisher.database import copy  # noqa: PLC0415 - needs psycopg

                parts = copy.copy_table(connection, relation, limits, split.snapshot, batch_bytes)
            else:
                names = tuple(relation.types)
                portions = _portions(connection, relation, limits)
                rows = (_batch(portion, names, text_of) for portion in portions)
                parts = gather(rows, batch_bytes)
            yield from ((number, batch) for batch in parts)

    firsts = [1] * len(tables)
    # not on the connection for look-ups, which may be needed while rows are read
    action = f"Reading table {', '.join(relation.table.name for relation in relations)}"
    is_query = database.can_copy and len(tables) == 1 and split.snapshot is None
    with database.separate() as reader, fatal_errors(database, action):
        for number, batch in reader.stream(batches, is_query=is_query):
            first, firsts[number] = firsts[number], firsts[number] + batch.num_rows
            yield number, Frame(batch, np.arange(first, firsts[number], dtype=np.int64))


def _bounds(database: Database, table: LiveTable, split: TableSplit[object]) -> Bounds:
    relation = relation_of(database, table)
    where = _where(relation, table, database)
    order = None if table.order is None else column_of(relation, table.order, database)
    sort = None if table.sorted_by is None else column_of(relation, table.sorted_by, database)
    low, high, span = split.low, split.high, split.span
    return Bounds(order, low, high, where, sort, span, table.max_rows)


def measure_extent(
    database: Database, table: LiveTable, split: TableSplit[object], form: str, mark: str | None
) -> TableExtent:
    """Determines the extent of the table at the moment of a split: rows are counted by ``sorted_by``, whose
    values have the given form.

    Reads the whole table or an index.  Raises ``FatalError`` and ``UnreachableError``.
    """
    relation = relation_of(database, table)
    statement = select(
        *ordered_ranges.extent_columns(relation, sorting(database, table), form, mark)
    )
    ((greatest, rows, before, others),) = ask(
        database, table, split, statement.select_from(sql_table_of(relation))
    )
    return TableExtent(None if greatest is None else str(greatest).rstrip(), rows, before, others)


def ask(
    database: Database,
    table: LiveTable,
    split: TableSplit[object],
    statement: Select[*tuple[Any, ...]],
) -> Sequence[Sequence[Any]]:
    """Runs a small query about a table at the moment of a split.

    Raises ``FatalError`` and ``UnreachableError``.
    """

    def answer(connection: Connection) -> Sequence[Sequence[Any]]:
        if split.snapshot is not None:
            from publisher.database import copy  # noqa: PLC0415 - needs psycopg

            copy.join_snapshot(connection, split.snapshot)
        return connection.execute(statement).all()

    action = f"Reading table {table.name}"
    # not on the connection of the moment, whose transaction must stay open
    with database.separate() as reader, fatal_errors(database, action):
        return reader.run(answer)


def _where(relation: Relation, table: LiveTable, database: Database) -> tuple[str, str] | None:
    if table.where is None:
        return None
    return column_of(relation, table.where[0], database), table.where[1]


def _portions(
    connection: Connection, relation: Relation, bounds: Bounds
) -> Iterator[Sequence[Sequence[Any]]]:
    """Yields the rows of one statement, a few at a time."""
    statement = ordered_ranges.select_rows(
        relation, bounds, text_columns(relation, connection.dialect)
    )
    if connection.dialect.name in ("mysql", "mariadb"):
        # the server waits for the client while rows are processed; its default limit is a minute
        connection.exec_driver_sql("SET SESSION net_write_timeout = 3600")
    # limits the rows that the driver fetches ahead and that SQLAlchemy buffers
    streaming = connection.execution_options(stream_results=True, max_row_buffer=_ROWS_AT_ONCE)
    yield from streaming.execute(statement).partitions(_ROWS_AT_ONCE)


def _batch(
    rows: Sequence[Sequence[Any]], names: tuple[str, ...], text_of: TextOf
) -> pa.RecordBatch:
    columns = [pa.array(map(text_of, values), pa.string()) for values in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(names))
