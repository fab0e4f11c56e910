"""Reads compared tables from a database; all tasks see a table as it was at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sqlalchemy import func, quoted_name, select
from sqlalchemy import table as sql_table

from publisher.database.connection import Database, fatal_errors
from publisher.database.identity import TableOrigin, place_of
from publisher.database.options import DatabaseOptions
from publisher.formats.columns.object_names import split_name
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.live import table_reader
from publisher.formats.live.find_table import LiveTable, describe, relation_of
from publisher.formats.live.table_split import TableSplit
from publisher.formats.migration import Migration
from publisher.formats.triggerless.comparison import ReadTable, RowCondition, TableInput
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.plan_comparison import check_table_origin, row_condition
from publisher.formats.triggerless.table_shape import TableShape, child_tables, shape_of
from publisher.model.catalogue import Catalogue
from publisher.xds.values import text_of

_SAMPLE_BYTES = 1 << 16
"""Bytes of the first rows of a table, from which the mean length of rows is estimated."""


def live_inputs(
    database_options: DatabaseOptions,
    options: TriggerlessOptions,
    reading: SnapshotOptions,
    catalogue: Catalogue,
    wanted: int,
    stack: ExitStack,
    migration: Migration | None = None,
    max_rows: int | None = None,
) -> list[TableInput]:
    """Prepares the tables of a database; ``stack`` keeps open the snapshots that tasks read.

    Raises ``FatalError`` if a table cannot be compared, and ``UnreachableError``.
    """
    database = stack.enter_context(Database(database_options))
    inputs = []
    for name, shape in live_shapes(database, options, catalogue).items():
        parent = _live_table(name, options, row_condition(shape, migration))
        live = [
            replace(
                parent if part is shape else _child_table(parent, part.source_name),
                order=part.key[0].read if len(part.key) == 1 else None,
                max_rows=max_rows,
            )
            for part in (shape, *shape.children)
        ]
        splits = _splits(database, live, wanted, stack)
        size = sum(_bytes(database, table, splits[0][0]) for table in live)
        origin = _origin(database, live[0])
        tables = tuple(
            ReadTable(part, reading, parts, (), table)
            for part, parts, table in zip((shape, *shape.children), splits, live, strict=True)
        )
        children = {child.source_name: () for child in shape.children}
        inputs.append(TableInput(tables, size, child_files=children, origin=origin))
    return inputs


def _splits(
    database: Database, live: Sequence[LiveTable], wanted: int, stack: ExitStack
) -> list[tuple[TableSplit[None], ...]]:
    """Divides a table and its child tables into splits that show one moment."""
    if len(live) == 1:
        return [stack.enter_context(table_reader.moment(database, live[0], wanted))]
    if database.can_copy:
        return stack.enter_context(table_reader.shared_moment(database, live, wanted))
    database.check_reachable()
    return [(TableSplit(0),), *[()] * (len(live) - 1)]


def live_shapes(
    database: Database, options: TriggerlessOptions, catalogue: Catalogue
) -> dict[str, TableShape]:
    """Reads the shapes of tables.

    Raises ``FatalError`` if a table cannot be compared, and ``UnreachableError``.
    """
    shapes = {}
    for name in options.tables:
        live = _live_table(name, options)
        columns = describe(database, live)
        where = database.name
        children = {
            child: describe(database, _child_table(live, child))
            for child in child_tables(name, catalogue, options, where)
        }
        shapes[name] = shape_of(name, columns, catalogue, options, where, children)
    return shapes


def refuse_other_databases(
    database: Database,
    options: TriggerlessOptions,
    known: Mapping[str, Mapping[str, Any]],
    source: str,
) -> None:
    """Raises ``FatalError`` if a table is not in the database that its state describes."""
    for name in options.tables:
        if name in known:
            now = _origin(database, _live_table(name, options))
            check_table_origin(f"source {source}: table {name}", known[name], now)


def _origin(database: Database, live: LiveTable) -> TableOrigin:
    return TableOrigin(place_of(database, relation_of(database, live)), database.name)


def _live_table(
    name: str, options: TriggerlessOptions, condition: RowCondition | None = None
) -> LiveTable:
    schema, table = split_name(name) or (None, name)
    # the database evaluates the first part of the condition, tasks evaluate the others
    where = condition.equal[0] if condition is not None and condition.equal else None
    return LiveTable(table, schema=schema or options.schema, where=where)


def _child_table(parent: LiveTable, name: str) -> LiveTable:
    return LiveTable(name, schema=parent.schema)


def _bytes(database: Database, live: LiveTable, split: TableSplit[None]) -> int:
    """Estimates the bytes of a table as text."""
    rows = _count(database, live) if live.max_rows is None else live.max_rows
    whole = replace(split, low=None, high=None)
    return int(rows * _mean_bytes(database, live, whole))


def _count(database: Database, live: LiveTable) -> int:
    """Counts the rows of a table, which determine the number of buckets."""
    relation = relation_of(database, live)
    schema = None if relation.schema is None else quoted_name(relation.schema, quote=True)
    target = sql_table(quoted_name(relation.table.name, quote=True), schema=schema)
    statement = select(func.count()).select_from(target)
    with fatal_errors(database, f"Counting the rows of {relation.table.name}"):
        return int(database.run(lambda connection: connection.execute(statement).scalar_one()))


def _mean_bytes(database: Database, live: LiveTable, split: TableSplit[None]) -> float:
    """Estimates the bytes of a row as text from the first rows; 0 for an empty table."""
    frames = table_reader.read(database, live, split, text_of, _SAMPLE_BYTES)
    try:
        batch = next((frame.batch for frame in frames), None)
    finally:
        frames.close()  # type: ignore[attr-defined]  # it is a generator
    return batch.nbytes / batch.num_rows if batch is not None and batch.num_rows else 0.0
