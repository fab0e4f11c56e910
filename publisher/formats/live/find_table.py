"""Finds a live table and its columns in the catalogue of its database."""

from __future__ import annotations

from dataclasses import dataclass

from publisher.database.catalogue import Relation, catalogue_of
from publisher.database.connection import Database
from publisher.errors import FatalError


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table and the part of it to read.  Names are matched as the database matches names."""

    name: str
    """Table or view; ``schema.name`` if ``schema`` is not given and no table has that name."""
    schema: str | None = None
    order: str | None = None
    """An integer column by which the table is divided; without such a column, one task reads the table."""
    where: tuple[str, str] | None = None
    """A column and a value: only rows with this value are read; the database compares the values."""
    sorted_by: str | None = None
    """A column that gives the order of the rows."""
    max_rows: int | None = None
    """Maximum number of rows, in any order, for a sample; ``None`` for all rows."""


def describe(database: Database, table: LiveTable) -> tuple[str, ...]:
    """Lists the names of the table's columns, in the order of the table.

    Raises ``FatalError`` if there is no such table, and ``UnreachableError``.
    """
    return tuple(relation_of(database, table).types)


def sorting(database: Database, table: LiveTable) -> str:
    """Returns the name of ``sorted_by`` in the database.  Raises ``FatalError``."""
    assert table.sorted_by is not None
    return column_of(relation_of(database, table), table.sorted_by, database)


def relation_of(database: Database, table: LiveTable) -> Relation:
    """Finds the table.  Raises ``FatalError`` if there is none."""
    catalogue = catalogue_of(database)
    relation = catalogue.relation(table.schema, table.name)
    if relation is None and table.schema is None and "." in table.name:
        schema, _, name = table.name.partition(".")
        relation = catalogue.relation(schema, name)
    if relation is None:
        where = f" in schema {table.schema}" if table.schema is not None else ""
        raise FatalError(
            f"{database.name} has no table or view {table.name}{where}: correct the table's name, "
            "or give the user the right to see it"
        )
    return relation


def column_of(relation: Relation, name: str, database: Database) -> str:
    """Returns a column's name in the database.  Raises ``FatalError`` if there is none."""
    column = relation.column(name)
    if column is None:
        raise FatalError(
            f"table {relation.table.name} of {database.name} has no column {name}: map the name in "
            f"the source's columns to one of {', '.join(relation.types)}"
        )
    return column
