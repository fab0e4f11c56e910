"""The catalogue: key columns, columns and their kinds of the tables in changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

LONGEST_NAME = 1_000
"""Characters of a table or column name at most; databases allow 128 for each part of it."""


class ColumnKind(StrEnum):
    """Kind of a column, which determines the form of its values in documents."""

    STRING = "string"
    OCTET = "octet"
    """Binary; text form is Base64 (event log columns, old_value and new_value)."""
    INT = "int"
    DECIMAL = "decimal"
    """A number with a fraction; published as a string, but a number inside a key."""
    STATE = "state"
    """Boolean."""
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Table:
    """A table or view."""

    schema: str | None
    """Schema of the table; without it the entry applies to the table in any schema."""
    name: str
    """Name of the table, where it differs from the ``NAME`` of the entry."""
    key: tuple[str, ...] = ()
    """Columns of the primary key in their order, if known."""
    columns: Mapping[str, ColumnKind] = field(default_factory=dict)
    """Types of columns, in the order of the table."""
    complete: bool = False
    """Reject columns that ``columns`` does not name."""
    padded: frozenset[str] = frozenset()
    """Columns of fixed width (CHAR), whose values the database pads with blanks."""

    def column(self, name: str) -> str | None:
        """Finds the column of this name, else the only column whose name differs in case."""
        if name in self.columns:
            return name
        alike = [column for column in self.columns if column.lower() == name.lower()]
        return alike[0] if len(alike) == 1 else None


class Catalogue(Protocol):
    """Describes tables by the names that a source writes."""

    @property
    def closed(self) -> bool:
        """True if a table that is not found does not exist, since a database was queried."""

    def table(self, schema: str | None, name: str) -> Table | None:
        """Describes a table; ``None`` if it is unknown."""


class JobCatalogue:
    """The tables of the job file; other tables may exist, too."""

    closed = False

    def __init__(self, tables: Iterable[Table]) -> None:
        self._tables = tuple(tables)

    def table(self, schema: str | None, name: str) -> Table | None:
        """Finds a table by its exact name, else the only one whose name differs in case.

        Schemas are compared only if both sides have one."""
        for same in (str.__eq__, _same_but_case):
            found = [
                table
                for table in self._tables
                if same(table.name, name)
                and (schema is None or table.schema is None or same(table.schema, schema))
            ]
            if schema is not None:
                found = [table for table in found if table.schema is not None] or found
            if found:
                return found[0] if len(found) == 1 else None
        return None


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
        """Combines the descriptions of both; ``None`` if neither knows the table."""
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
            continue  # the database decides on the columns that exist; check reports this one
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
    )


def _same_but_case(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
