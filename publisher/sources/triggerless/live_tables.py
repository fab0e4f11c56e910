"""Tables of a database that are compared: all tasks see a table as it was in one moment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sqlalchemy import func, quoted_name, select
from sqlalchemy import table as sql_table
from sqlalchemy.exc import DBAPIError

from publisher.database import Database, DatabaseOptions
from publisher.database.connection import fatal
from publisher.model.catalogue import Catalogue
from publisher.sources.columns.object_names import split_name
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.live import table_reader
from publisher.sources.live.table_reader import LiveTable, TableSplit
from publisher.sources.triggerless.options import Options
from publisher.sources.triggerless.origin import OriginCheck, TableOrigin
from publisher.sources.triggerless.plan_comparison import Given, Input, Migration
from publisher.sources.triggerless.table_shape import Shape, shape_of

_SAMPLE_BYTES = 1 << 16
"""Of the first rows of a table, which tell how long its rows are."""


def live_inputs(
    options: DatabaseOptions,
    wanted: Options,
    reading: SnapshotOptions,
    given: Given,
    stack: ExitStack,
    text_of: table_reader.TextOf,
) -> list[Input]:
    """The tables of a database; ``stack`` keeps open what tasks read from.

    Raises ``FatalError`` where a table does not fit, ``UnreachableError``.
    """
    database = stack.enter_context(Database(options))
    found = []
    for name, shape in live_shapes(database, wanted, given.catalogue).items():
        live = _live(name, wanted, given.migration)
        if len(shape.key) == 1:
            live = replace(live, order=shape.key[0].read)
        live = replace(live, most=given.most)
        rows = _count(database, live) if given.most is None else given.most
        splits = stack.enter_context(table_reader.moment(database, live, given.wanted))
        size = int(rows * _mean_bytes(database, live, splits[0], text_of))
        origin = TableOrigin.read(database, table_reader.relation_of(database, live))
        found.append(Input(name, shape, reading, splits, (), size, live, origin=origin))
    return found


def live_shapes(database: Database, wanted: Options, catalogue: Catalogue) -> dict[str, Shape]:
    """What the tables are like.  Raises ``FatalError`` where one does not fit, ``UnreachableError``."""
    found = {}
    for name in wanted.tables:
        columns = table_reader.describe(database, _live(name, wanted, None))
        found[name] = shape_of(name, columns, catalogue, wanted, database.name)
    return found


def refuse_other_databases(
    database: Database, wanted: Options, known: Mapping[str, Mapping[str, Any]], source: str
) -> None:
    """Raises ``FatalError`` where a table is in another database than what is known of it."""
    for name in wanted.tables:
        if name in known:
            now = TableOrigin.read(
                database, table_reader.relation_of(database, _live(name, wanted, None))
            )
            before = TableOrigin.of_state(known[name])
            OriginCheck(source, name, before, now).needs_rows(by_rows=False)


def _live(name: str, options: Options, migration: Migration | None) -> LiveTable:
    schema, table = split_name(name) or (None, name)
    # the database finds rows by the first condition, tasks look at the others
    where = migration.equal[0] if migration is not None and migration.equal else None
    return LiveTable(table, schema=schema or options.schema, where=where)


def _count(database: Database, live: LiveTable) -> int:
    """Rows of a table, for the size of buckets."""
    relation = table_reader.relation_of(database, live)
    schema = None if relation.schema is None else quoted_name(relation.schema, quote=True)
    of = sql_table(quoted_name(relation.table.name, quote=True), schema=schema)
    statement = select(func.count()).select_from(of)
    try:
        return int(database.run(lambda connection: connection.execute(statement).scalar_one()))
    except DBAPIError as error:
        raise fatal(database, error, f"Counting the rows of {relation.table.name}") from error


def _mean_bytes(
    database: Database, live: LiveTable, split: TableSplit, text_of: table_reader.TextOf
) -> float:
    """Bytes of a row as text, told by the first ones; 0 where there are none."""
    frames = table_reader.read(database, live, split, text_of, _SAMPLE_BYTES)
    try:
        batch = next((frame.batch for frame in frames), None)
    finally:
        frames.close()  # type: ignore[attr-defined]  # it is a generator
    return batch.nbytes / batch.num_rows if batch is not None and batch.num_rows else 0.0
