"""Filters out changes of excluded tables and columns, of the driver's own user, and of the future.

Filters apply before precedence: a filtered change supersedes nothing and is never a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from publisher.errors import TableRefusedError
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import Object, Position

SYSTEM_SCHEMAS = (
    "information_schema",
    "mysql",
    "performance_schema",
    "pg_catalog",
    "pg_temp*",
    "pg_toast*",
    "sys",
)
"""Schemas of the system tables of PostgreSQL, MySQL, MariaDB and SQL Server, in lower case."""


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """The tables and columns to publish, by shell globs.

    An empty ``include`` includes everything.  ``include`` patterns are case-sensitive, ``exclude``
    patterns ignore case."""

    include: tuple[str, ...] = ()
    """Tables to publish, as patterns of ``table`` or ``schema.table`` in their exact case; all if
    empty."""
    exclude: tuple[str, ...] = ()
    """Tables not to publish, as patterns in any case. It overrides ``include``."""
    system_schemas: Literal["exclude", "publish"] = "exclude"
    """Handling of the database's own tables: those in ``pg_catalog``, ``pg_toast…``, ``pg_temp…``,
    ``information_schema``, ``mysql``, ``performance_schema`` and ``sys``."""
    include_columns: tuple[str, ...] = ()
    """Columns to publish, as patterns of ``column`` or ``table.column`` in their exact case; all if
    empty."""
    exclude_columns: tuple[str, ...] = ()
    """Columns not to publish, as patterns in any case. It overrides ``include_columns``."""


@dataclass(frozen=True, slots=True)
class FilterOptions(SelectionOptions):
    """The selection, and the user whose changes are loopback, for formats whose records name a user."""

    driver_user: str | None = None
    """Database user of the identity manager; changes by this user are loopback and ignored."""
    allow_loopback: bool = False
    """Publish changes by ``driver_user``, too."""


class Filter:
    """Finds what is published; caches the results for tables and columns."""

    def __init__(
        self,
        options: FilterOptions,
        *,
        held_after: int | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        """``held_after`` is in microseconds since 1970-01-01 UTC.

        ``catalogue`` describes views, whose columns are filtered by all their names, and tells attributes of
        child tables from columns with a dot in their names."""
        self._options = options
        self._catalogue = catalogue
        self.held_after = held_after
        """Changes with a later event time are held; ``None`` holds no change."""
        self.loopback_user = None if options.allow_loopback else options.driver_user
        """User whose changes are not published; ``None`` publishes changes of all users."""
        self._selects_columns = bool(
            options.include_columns or options.exclude_columns or options.exclude
        )
        self._excluded = tuple(pattern.lower() for pattern in options.exclude)
        self._excluded_columns = tuple(pattern.lower() for pattern in options.exclude_columns)
        self._hides_system = options.system_schemas == "exclude"
        self._tables: dict[tuple[str | None, str], bool] = {}
        self._columns: dict[tuple[str | None, str, str], bool] = {}

    def publishes_column(self, obj: Object, column: str) -> bool:
        """Returns whether a column of an object's table is published, or an attribute of a child table.

        An attribute ``child.column`` is filtered by the names of child and column, too."""
        if not self._selects_columns:
            return True
        published = self._columns.get((obj.schema, obj.table, column))
        if published is None:
            published = self.column_exclusion(obj, column) is None
            self._columns[obj.schema, obj.table, column] = published
        return published

    def column_exclusion(self, obj: Object, column: str) -> str | None:
        """Returns the setting that excludes a column, see ``publishes_column``; ``None`` if none does."""
        options = self._options
        names, child = self.names_of_column(obj, column)
        if options.include_columns and _match(names, options.include_columns) is None:
            return "include_columns does not name it"
        pattern = _match([name.lower() for name in names], self._excluded_columns)
        if pattern is not None:
            return f"exclude_columns has {pattern!r}"
        return None if child is None else self._exclusion(obj.schema, child)

    def names_of_column(self, obj: Object, column: str) -> tuple[list[str], str | None]:
        """The names by which patterns match a column or attribute, and the child table that it belongs to."""
        table = self._table(obj)
        known = None if table is None else table.column(column)
        spellings = [column]
        if table is None or known is None:
            child = column.rpartition(".")[0] or None
        else:
            child = table.child_of(known)
            spellings += table.spellings(known)
        names = [*spellings, *(f"{obj.table}.{name}" for name in spellings)]
        if child is not None:
            names.append(column[len(child) + 1 :])
        return names, child

    def _table(self, obj: Object) -> Table | None:
        """Describes an object's table; ``None`` if it is unknown or refused."""
        try:
            return self._catalogue.table(obj.schema, obj.table) if self._catalogue else None
        except TableRefusedError:
            return None

    def publishes_table(self, obj: Object) -> bool:
        """Returns whether the table of an object is published."""
        published = self._tables.get(obj[:2])
        if published is None:
            published = self._tables[obj[:2]] = self.table_exclusion(obj) is None
        return published

    def table_exclusion(self, obj: Object) -> str | None:
        """Returns the setting that excludes the table of an object; ``None`` if none does."""
        include = self._options.include
        if include and _match(_names_of(obj.schema, obj.table), include) is None:
            return "include does not name it"
        return self._exclusion(obj.schema, obj.table)

    def excludes(self, schema: str | None, table: str) -> bool:
        """Returns whether ``exclude`` or the system schemas match a table, in any case.

        Works without a catalogue, so that logged names are filtered before the database is queried.
        """
        return self._exclusion(schema, table) is not None

    def _exclusion(self, schema: str | None, table: str) -> str | None:
        schema, table = schema.lower() if schema else None, table.lower()
        if self._hides_system and schema and _match([schema], SYSTEM_SCHEMAS) is not None:
            return f"{schema} is a system schema, see system_schemas"
        pattern = _match(_names_of(schema, table), self._excluded)
        return None if pattern is None else f"exclude has {pattern!r}"


def _names_of(schema: str | None, table: str) -> Sequence[str]:
    return (table, f"{schema}.{table}") if schema else (table,)


def _match(names: Sequence[str], patterns: Sequence[str]) -> str | None:
    """Returns the first pattern that matches one of the names."""
    return next((p for p in patterns for name in names if fnmatchcase(name, p)), None)


@dataclass(frozen=True, slots=True)
class PositionRange:
    """The positions that a run publishes, both ends included.  The window applies after polls are cut."""

    first: Position | None = None
    last: Position | None = None

    def has(self, position: Position) -> bool:
        """Returns whether a position is published."""
        at = position[:3]
        return (self.first is None or self.first[:3] <= at) and (
            self.last is None or at <= self.last[:3]
        )
