"""Reads the values of child tables for many objects at once: one statement for each child table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection, Dialect

from publisher.database.catalogue import DatabaseCatalogue
from publisher.database.numbered_rows import NumberedRows
from publisher.database.statements import Query, query
from publisher.errors import ClassRefusedError
from publisher.model.catalogue import Table
from publisher.model.classes import attribute_of
from publisher.model.distinct_values import DistinctValues
from publisher.planning.query_back import CurrentRows


class ChildReader(NamedTuple):
    """Reads the values of one child table."""

    query: Query
    key: tuple[str, ...]
    """Columns of the parent's key, in the order of the query's columns."""
    values: Mapping[str, str]
    """Columns of values by the names of their attributes."""


class ClassReader:
    """Reads the attributes of the child tables of one class."""

    def __init__(self, readers: Sequence[ChildReader]) -> None:
        self._readers = readers
        self._attributes = tuple(sorted(name for reader in readers for name in reader.values))
        self._parts: dict[frozenset[str], ClassReader | None] = {}

    def part(self, columns: Collection[str]) -> ClassReader | None:
        """Returns the reader of those child tables that these columns need; ``None`` if they need none."""
        names = frozenset(name.casefold() for name in columns)
        if names not in self._parts:
            readers = [
                reader
                for reader in self._readers
                if not names.isdisjoint(name.casefold() for name in reader.values)
            ]
            self._parts[names] = ClassReader(readers) if readers else None
        return self._parts[names]

    def complete(self, connection: Connection, rows: CurrentRows) -> CurrentRows:
        """Adds the attributes to rows of the parent table: their distinct values by code points."""
        values: dict[str, pa.ListArray] = {}
        for reader in self._readers:
            values |= _read_values(connection, reader, rows)
        columns = rows.columns + self._attributes
        added = [values[name] for name in self._attributes]
        return CurrentRows(rows.places, columns, [*rows.values, *added])


def _read_values(
    connection: Connection, reader: ChildReader, rows: CurrentRows
) -> dict[str, pa.ListArray]:
    """Reads the values of each attribute for each row of the parent.

    The keys are those of the rows, not of the events: the database may find a row by a key in another case.
    """
    linked = [rows.values[rows.columns.index(column)] for column in reader.key]
    # a row with NULL in its key has no children
    parents = np.flatnonzero(np.all([column.is_valid() for column in linked], axis=0))
    if len(parents) < len(rows.places):
        linked = [column.take(pa.array(parents)) for column in linked]
    children = NumberedRows.of((), len(reader.query.columns))
    if len(parents):
        children = reader.query.all_rows(connection, reader.query.keys(linked))
    numbers = parents[children.numbers]
    columns = {
        attribute: children.values[reader.query.columns.index(column)]
        for attribute, column in reader.values.items()
    }
    return {
        attribute: DistinctValues.of(numbers, texts).lists(len(rows.places))
        for attribute, texts in columns.items()
    }


def class_reader(
    catalogue: DatabaseCatalogue,
    dialect: Dialect,
    table: Table,
) -> ClassReader | None:
    """Creates the reader of a class's children; ``None`` if it has none.

    Raises ``TableRefusedError`` if the database does not have a child table as it is described.
    """
    readers = [_child_reader(catalogue, dialect, table, name) for name in table.children]
    return ClassReader(readers) if readers else None


def _child_reader(
    catalogue: DatabaseCatalogue,
    dialect: Dialect,
    table: Table,
    name: str,
) -> ChildReader:
    child, relation = table.children[name], catalogue.relation(table.schema, name)
    advice = f"correct [tables.{table.name}.children.{name}]"
    if relation is None:
        raise ClassRefusedError(f"the database has no child table {name} of {table.name}: {advice}")
    names = {column: relation.column(column) for column in (*child.link, *child.columns)}
    absent = sorted(column for column, actual in names.items() if actual is None)
    if absent:
        raise ClassRefusedError(
            f"the child table {name} of {table.name} has no column {', '.join(absent)}: {advice}"
        )
    actual = {column: name for column, name in names.items() if name is not None}
    link = tuple(actual[column] for column in child.link)
    values = {attribute_of(name, column): actual[column] for column in child.columns}
    return ChildReader(query(dialect, relation, link), child.key, values)
