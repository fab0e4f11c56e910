"""Which changes are not to be published, whatever they say.

What a filter takes out supersedes nothing and is no barrier for precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from publisher.change import Change, Decision, Object, Outcome, Position, Reason


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Patterns are shell globs, case-sensitive; an empty ``include`` includes everything."""

    driver_user: str | None = None
    """Database user of the identity manager; what it caused itself is loopback."""
    allow_loopback: bool = False
    """Publish changes that the driver's own user caused."""
    include: tuple[str, ...] = ()
    """Tables to publish, as ``table`` or ``schema.table``."""
    exclude: tuple[str, ...] = ()
    """Tables not to publish; wins over ``include``."""
    include_columns: tuple[str, ...] = ()
    """Columns to publish, as ``column`` or ``table.column``."""
    exclude_columns: tuple[str, ...] = ()
    """Columns not to publish; wins over ``include_columns``."""


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
            known = _wanted(names, options.include_columns, options.exclude_columns)
            self._columns[table, column] = known
        return known

    def _any_column_wanted(self, change: Change) -> bool:
        return any(self.column_wanted(change.object.table, name) for name in change.columns)

    def table_wanted(self, obj: Object) -> bool:
        """Whether the table of an object is published."""
        known = self._tables.get(obj[:2])
        if known is None:
            names = (obj.table, f"{obj.schema}.{obj.table}") if obj.schema else (obj.table,)
            known = _wanted(names, self._options.include, self._options.exclude)
            self._tables[obj[:2]] = known
        return known


def _wanted(names: Sequence[str], include: Sequence[str], exclude: Sequence[str]) -> bool:
    def matched(patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)

    return (not include or matched(include)) and not matched(exclude)


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
