"""The catalogue describes the tables in changes: their columns, kinds of columns and keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from publisher.model.names import equal_in_any_case, find_name
from publisher.model.view_names import ViewColumns

LONGEST_NAME = 1_000
"""Maximum length of a table or column name in characters; databases allow 128 for each part of a name."""


class ColumnKind(StrEnum):
    """Kind of a column, which determines the form of its values in documents."""

    STRING = "string"
    OCTET = "octet"
    """Binary; text form is Base64 (event log columns, old_value and new_value)."""
    INT = "int"
    DECIMAL = "decimal"
    """A number with a fraction; published as a string, but normalised as a number in keys."""
    STATE = "state"
    """Boolean."""
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Reference:
    """The key of a class, to which a column refers."""

    table: str
    """Table of the class that the values refer to."""
    schema: str | None = None
    """Schema of this table; by default that of the referring table."""
    key: str | None = None
    """Column of this table's key; by default its only key column."""


@dataclass(frozen=True, slots=True)
class ChildTable:
    """A child table, whose rows are values of attributes of its parent's objects."""

    columns: Mapping[str, ColumnKind] = field(default_factory=dict)
    """Types of the columns that hold values; by default all columns without a constraint, and
    references to other classes."""
    link: tuple[str, ...] = ()
    """Columns that hold the key of the parent, in the order of ``key``; by default those of the foreign
    key, or else columns named like the parent's key."""
    key: tuple[str, ...] = ()
    """Columns of the parent's key to which the child table is linked; by default all."""


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table or view as the job file describes it."""

    schema: str | None
    """Schema of the table; without it the entry applies to the table in any schema."""
    name: str
    """Name of the table, if it differs from the ``NAME`` of the entry."""
    key: tuple[str, ...] = ()
    """Columns of the primary key in their order, if known."""
    columns: Mapping[str, ColumnKind] = field(default_factory=dict)
    """Types of columns, in the order of the table."""
    complete: bool = False
    """Reject columns that ``columns`` does not name."""
    padded: frozenset[str] = frozenset()
    """Columns of fixed width (CHAR), whose values the database pads with blanks."""
    children: Mapping[str, ChildTable] = field(default_factory=dict)
    """Child tables by name; each column of values is an attribute, named ``child.column``."""
    references: Mapping[str, Reference] = field(default_factory=dict)
    """Columns that refer to other classes or to the same class, columns of children as
    ``child.column``."""
    view: bool = False
    """Read the prefixes of column names (``pk_``, ``fk_``, ``sv_``, ``mv_``) as descriptions of the
    columns. Views of the database always have this meaning; ``columns`` then names all columns."""


@dataclass(frozen=True, slots=True)
class Table(DeclaredTable):
    """A table or view; with classes, the attributes of its children are among its columns."""

    parent: Table | None = None
    """For a child table: its class, to whose objects its rows belong."""
    view_columns: ViewColumns | None = None
    """For a view that is a class: its own columns by the names of ``columns``."""
    twins: tuple[str, ...] = ()
    """Other tables of the schema whose names differ in case only."""

    def child_of(self, attribute: str) -> str | None:
        """Returns the child table whose column an attribute is; ``None`` for the table's own columns."""
        for name, child in self.children.items():
            prefix = f"{name}."
            if attribute.startswith(prefix) and attribute[len(prefix) :] in child.columns:
                return name
        return None

    def is_multiple(self, column: str) -> bool:
        """Returns whether an object has any number of values of an attribute."""
        if self.view_columns is not None:
            return column in self.view_columns.names and self.view_columns.names[column].is_multiple
        return self.child_of(column) is not None

    def column(self, name: str) -> str | None:
        """Finds a column by its exact name, else the only column whose name differs only in case.

        The columns of a view have more names, see ``ViewColumns``."""
        if self.view_columns is not None:
            return self.view_columns.attribute(name)
        return find_name(name, self.columns)

    def spellings(self, column: str) -> tuple[str, ...]:
        """Returns the names of one of the table's columns that filters match."""
        if self.view_columns is None or column not in self.columns:
            return (column,)
        name = self.view_columns.names[column]
        return (column, name.written, name.column)


class Catalogue(Protocol):
    """Describes tables by the names that a source writes."""

    @property
    def closed(self) -> bool:
        """True if an unknown table does not exist, because the catalogue queries a database."""

    def table(self, schema: str | None, name: str) -> Table | None:
        """Describes a table; ``None`` if it is unknown."""


class JobCatalogue:
    """The tables of the job file; other tables may exist, too."""

    closed = False

    def __init__(self, tables: Iterable[Table]) -> None:
        self._tables = tuple(tables)

    def table(self, schema: str | None, name: str) -> Table | None:
        """Finds a table by its exact name, else the only table whose name differs only in case.

        Schemas are compared only if both sides have one."""
        for equal in (str.__eq__, equal_in_any_case):
            tables = [
                table
                for table in self._tables
                if equal(table.name, name)
                and (schema is None or table.schema is None or equal(table.schema, schema))
            ]
            if schema is not None:
                tables = [table for table in tables if table.schema is not None] or tables
            if len(tables) == 1:
                return replace(tables[0], twins=self._twins_of(tables[0]))
            if tables:
                return None
        return None

    def _twins_of(self, table: Table) -> tuple[str, ...]:
        names = {other.name for other in self._tables if other.schema == table.schema}
        return tuple(n for n in sorted(names - {table.name}) if equal_in_any_case(n, table.name))


class LayeredCatalogue:
    """Two catalogues: the first determines the kinds of the columns that it names.

    The second determines the spelling of names, the order of columns and keys."""

    def __init__(self, first: Catalogue, second: Catalogue) -> None:
        self._first = first
        self._second = second

    @property
    def closed(self) -> bool:
        """True if one of the two catalogues is closed."""
        return self._first.closed or self._second.closed

    def table(self, schema: str | None, name: str) -> Table | None:
        """Combines the descriptions of both; ``None`` if neither describes the table."""
        first = self._first.table(schema, name)
        second = self._second.table(schema, name)
        if first is None or second is None:
            return first or second
        return _combine(first, second)


def _combine(first: Table, second: Table) -> Table:
    spelling = {column.casefold(): column for column in second.columns}
    kinds = dict(second.columns)
    padded = set(second.padded)
    for column in dict.fromkeys((*first.columns, *sorted(first.padded))):
        name = column if column in second.columns else spelling.get(column.casefold(), column)
        if name not in second.columns and second.complete:
            continue  # the database determines which columns exist; `check` reports the others
        if column in first.columns:
            kinds[name] = first.columns[column]
        if column in first.padded:
            padded.add(name)
    return Table(
        schema=second.schema or first.schema,
        name=second.name,
        key=second.key or first.key,
        columns=kinds,
        complete=first.complete or second.complete,
        padded=frozenset(padded),
        children={**second.children, **first.children},
        references={**second.references, **first.references},
        view=first.view or second.view,
        view_columns=first.view_columns or second.view_columns,
        twins=first.twins + second.twins,
    )
