"""Changes to rows, for any system that records them: the story of the event log's triggers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from publisher.demo.log import Event, Subject, Trigger
from publisher.demo.people import EMPLOYEE_COLUMNS, MEMBERSHIP_COLUMNS, Row, Value

USR_COLUMNS = ("fname", "lname", "photo")

COLUMNS: dict[str, tuple[str, ...]] = {
    "usr": USR_COLUMNS,
    "employee": EMPLOYEE_COLUMNS,
    "membership": MEMBERSHIP_COLUMNS,
}
"""The tables that are recorded, and their columns outside the key."""
KEYS: dict[str, tuple[str, ...]] = {
    "usr": ("idu",),
    "employee": ("empno",),
    "membership": ("grp", "empno"),
}
"""Their primary keys."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row before and after one statement; ``None`` where it was not or is no longer there."""

    table: str
    key: tuple[Value, ...]
    before: Row | None
    after: Row | None

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the columns that differ, of a row that was there before and is there after."""
        if self.before is None or self.after is None:
            return ()
        return tuple(n for n in COLUMNS[self.table] if self.before[n] != self.after[n])

    def image(self, row: Row) -> Row:
        """A row with its key, all columns in the order of the table."""
        named = dict(zip(KEYS[self.table], self.key, strict=True))
        return named | {name: row[name] for name in COLUMNS[self.table]}


@dataclass(frozen=True, slots=True)
class Act:
    """One transaction: the changes of one row, and the events that a log has of it."""

    changes: tuple[RowChange, ...]
    events: Sequence[Event] = field(repr=False)

    @property
    def row(self) -> tuple[str, tuple[Value, ...]]:
        """Table and key of the row."""
        return self.changes[0].table, self.changes[0].key

    @property
    def types(self) -> frozenset[int]:
        """The event types that the log has of it."""
        return frozenset(event.event_type for event in self.events)

    @property
    def last(self) -> Event:
        """The event with which it ended."""
        return max(self.events, key=lambda event: event.record_id)

    @property
    def ended(self) -> datetime:
        """When it ended, UTC."""
        moment = self.last.event_time
        assert moment is not None  # as all events of transactions
        return moment


def act_of(trigger: Trigger, events: Sequence[Event]) -> Act | None:
    """The changes of one episode to its row; ``None`` without changes."""
    table, key = table_of(trigger.subject)
    made = (RowChange(table, key, before, after) for before, after in trigger.versions())
    changes = tuple(made)
    return Act(changes, events) if changes else None


def table_of(subject: Subject) -> tuple[str, tuple[Value, ...]]:
    """The table in which a row is stored, and its key; a view stores nothing."""
    if subject.table == "membership":
        return "membership", (subject.group, subject.number)
    return "employee", (subject.number,)
