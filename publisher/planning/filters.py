"""Which changes are not to be published, whatever they say.

What a filter takes out supersedes nothing and is no barrier for precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from publisher.model.change import Change, Decision, Object, Outcome, Position, Reason

SYSTEM_SCHEMAS = (
    "information_schema",
    "mysql",
    "performance_schema",
    "pg_catalog",
    "pg_temp*",
    "pg_toast*",
    "sys",
)
"""Schemas in which PostgreSQL, MySQL, MariaDB and SQL Server keep tables of their own, in lower case."""


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Patterns are shell globs; an empty ``include`` includes everything.  What excludes ignores case,
    what includes does not."""

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
    """The same, and whose changes are loopback, for formats whose records name a user."""

    driver_user: str | None = None
    """Database user of the identity manager; changes by this user are loopback and ignored."""
    allow_loopback: bool = False
    """Publish changes by ``driver_user``, too."""


class Filter:
    """Decides for one change at a time; remembers its answers for tables and columns."""

    def __init__(self, options: FilterOptions, *, held_after: int | None = None) -> None:
        """``held_after``: changes with a later event time (microseconds since 1970, UTC) are held."""
        self._options = options
        self.held_after = held_after
        """Later changes are held; ``None``: none are."""
        self.loopback_user = None if options.allow_loopback else options.driver_user
        """Whose changes are not published; ``None``: nobody's."""
        self._selects_columns = bool(options.include_columns or options.exclude_columns)
        self._excluded = tuple(pattern.lower() for pattern in options.exclude)
        self._excluded_columns = tuple(pattern.lower() for pattern in options.exclude_columns)
        self._hides_system = options.system_schemas == "exclude"
        self._tables: dict[tuple[str | None, str], bool] = {}
        self._columns: dict[tuple[str, str], bool] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing can speak against any change."""
        options = self._options
        return not (
            self.loopback_user is not None
            or options.include
            or options.exclude
            or self._hides_system
            or self._selects_columns
            or self.held_after is not None
        )

    def decision(self, change: Change) -> Decision | None:
        """Why the change is not to be published, or ``None`` where nothing speaks against it."""
        if self.loopback_user is not None and change.perpetrator == self.loopback_user:
            return Decision(change.row, Outcome.IGNORED, Reason.LOOPBACK)
        if not self.table_wanted(change.object):
            return Decision(change.row, Outcome.IGNORED, Reason.EXCLUDED)
        if self._selects_columns and change.columns and not self._any_column_wanted(change):
            return Decision(change.row, Outcome.IGNORED, Reason.EXCLUDED)
        if (
            self.held_after is not None
            and change.event_time is not None
            and change.event_time > self.held_after
        ):
            return Decision(change.row, Outcome.HELD, Reason.FUTURE)
        return None

    def column_wanted(self, table: str, column: str) -> bool:
        """Whether a column of a table is published."""
        if not self._selects_columns:
            return True
        known = self._columns.get((table, column))
        if known is None:
            options = self._options
            names = (column, f"{table}.{column}")
            included = not options.include_columns or _matches(names, options.include_columns)
            lower = [name.lower() for name in names]
            known = included and not _matches(lower, self._excluded_columns)
            self._columns[table, column] = known
        return known

    def _any_column_wanted(self, change: Change) -> bool:
        return any(self.column_wanted(change.object.table, name) for name in change.columns)

    def table_wanted(self, obj: Object) -> bool:
        """Whether the table of an object is published."""
        known = self._tables.get(obj[:2])
        if known is None:
            names = (obj.table, f"{obj.schema}.{obj.table}") if obj.schema else (obj.table,)
            included = not self._options.include or _matches(names, self._options.include)
            known = included and not self.excludes(*obj[:2])
            self._tables[obj[:2]] = known
        return known

    def excludes(self, schema: str | None, table: str) -> bool:
        """Tell whether ``exclude`` or the system schemas name a table, whatever the case.

        Needs no catalogue, so that names are asked as a log writes them before a database is asked.
        """
        schema, table = schema.lower() if schema else None, table.lower()
        if self._hides_system and schema and _matches([schema], SYSTEM_SCHEMAS):
            return True
        names = (table, f"{schema}.{table}") if schema else (table,)
        return _matches(names, self._excluded)


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


@dataclass(frozen=True, slots=True)
class Window:
    """Positions that a run was told to publish, both ends included.  Asked after polls are cut."""

    first: Position | None = None
    last: Position | None = None

    def __contains__(self, change: Change) -> bool:
        at = change.position[:3]
        return (self.first is None or self.first[:3] <= at) and (
            self.last is None or at <= self.last[:3]
        )
