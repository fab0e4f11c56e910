"""Reads compared tables from a database; all tasks see a table as it was at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sqlalchemy import func, quoted_name, select
from sqlalchemy import table as sql_table

from publisher.database import Database, DatabaseOptions
from publisher.database.connection import fatal_errors
from publisher.model.catalogue import Catalogue
from publisher.sources.columns.object_names import split_name
from publisher.sources.contract import Migration
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.live import table_reader
from publisher.sources.live.table_reader import LiveTable, TableSplit
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.origin import OriginCheck, TableOrigin
from publisher.sources.triggerless.plan_comparison import ComparisonContext, TableInput
from publisher.sources.triggerless.table_shape import TableShape, shape_of

_SAMPLE_BYTES = 1 << 16
"""Bytes of the first rows of a table, from which the mean length of rows is estimated."""


def live_inputs(
    database_options: DatabaseOptions,
    options: TriggerlessOptions,
    reading: SnapshotOptions,
    context: ComparisonContext,
    stack: ExitStack,
    text_of: table_reader.TextOf,
) -> list[TableInput]:
    """Prepares the tables of a database; ``stack`` keeps open the snapshots that tasks read.

    Raises ``FatalError`` if a table cannot be compared, and ``UnreachableError``.
    """
    database = stack.enter_context(Database(database_options))
    inputs = []
    for name, shape in live_shapes(database, options, context.catalogue).items():
        live = _live_table(name, options, context.migration)
        if len(shape.key) == 1:
            live = replace(live, order=shape.key[0].read)
        live = replace(live, max_rows=context.max_rows)
        rows = _count(database, live) if context.max_rows is None else context.max_rows
        splits = stack.enter_context(table_reader.moment(database, live, context.wanted))
        size = int(rows * _mean_bytes(database, live, splits[0], text_of))
        origin = TableOrigin.read(database, table_reader.relation_of(database, live))
        inputs.append(TableInput(name, shape, reading, splits, (), size, live, origin=origin))
    return inputs


def live_shapes(
    database: Database, options: TriggerlessOptions, catalogue: Catalogue
) -> dict[str, TableShape]:
    """Reads the shapes of tables.

    Raises ``FatalError`` if a table cannot be compared, and ``UnreachableError``.
    """
    shapes = {}
    for name in options.tables:
        columns = table_reader.describe(database, _live_table(name, options, None))
        shapes[name] = shape_of(name, columns, catalogue, options, database.name)
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
            now = TableOrigin.read(
                database, table_reader.relation_of(database, _live_table(name, options, None))
            )
            before = TableOrigin.of_state(known[name])
            OriginCheck(source, name, before, now).needs_rows(by_rows=False)


def _live_table(name: str, options: TriggerlessOptions, migration: Migration | None) -> LiveTable:
    schema, table = split_name(name) or (None, name)
    # the database evaluates the first condition, tasks evaluate the others
    where = migration.equal[0] if migration is not None and migration.equal else None
    return LiveTable(table, schema=schema or options.schema, where=where)


def _count(database: Database, live: LiveTable) -> int:
    """Counts the rows of a table, which determine the number of buckets."""
    relation = table_reader.relation_of(database, live)
    schema = None if relation.schema is None else quoted_name(relation.schema, quote=True)
    target = sql_table(quoted_name(relation.table.name, quote=True), schema=schema)
    statement = select(func.count()).select_from(target)
    with fatal_errors(database, f"Counting the rows of {relation.table.name}"):
        return int(database.run(lambda connection: connection.execute(statement).scalar_one()))


def _mean_bytes(
    database: Database, live: LiveTable, split: TableSplit[None], text_of: table_reader.TextOf
) -> float:
    """Estimates the bytes of a row as text from the first rows; 0 for an empty table."""
    frames = table_reader.read(database, live, split, text_of, _SAMPLE_BYTES)
    try:
        batch = next((frame.batch for frame in frames), None)
    finally:
        frames.close()  # type: ignore[attr-defined]  # it is a generator
    return batch.nbytes / batch.num_rows if batch is not None and batch.num_rows else 0.0
