"""Changes of rows, as any system can record them, with the events that triggers log for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tests.support.company.log import Event, Subject, Trigger
from tests.support.company.people import EMPLOYEE_COLUMNS, MEMBERSHIP_COLUMNS, Row, Value

USR_COLUMNS = ("fname", "lname", "photo", "manager")

COLUMNS: dict[str, tuple[str, ...]] = {
    "usr": USR_COLUMNS,
    "usr_phone": ("phoneno",),
    "employee": EMPLOYEE_COLUMNS,
    "employee_phone": ("phoneno",),
    "membership": MEMBERSHIP_COLUMNS,
}
"""Columns outside the key or the link to the parent, by recorded table."""
KEYS: dict[str, tuple[str, ...]] = {
    "usr": ("idu",),
    "usr_phone": ("idu",),
    "employee": ("empno",),
    "employee_phone": ("empno",),
    "membership": ("grp", "empno"),
}
"""Columns of the primary key, or of the link to the parent, by recorded table."""

PARENTS = {"usr_phone": "usr", "employee_phone": "employee"}
"""Parent tables, by child table: a row of a child table is a value of the parent's object."""

ATTRIBUTES = COLUMNS | {
    parent: (*COLUMNS[parent], f"{child}.phoneno") for child, parent in PARENTS.items()
}
"""Attributes of each class; those of a child table have its name."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row before and after a statement; ``None`` if the row does not exist then."""

    table: str
    key: tuple[Value, ...]
    before: Row | None
    after: Row | None

    @property
    def class_name(self) -> str:
        """The class of the object that the row belongs to."""
        return PARENTS.get(self.table, self.table)

    @property
    def changed_columns(self) -> tuple[str, ...]:
        """Names of the columns that differ; none for an insert or a delete."""
        if self.before is None or self.after is None:
            return ()
        return tuple(n for n in COLUMNS[self.table] if self.before[n] != self.after[n])

    def image(self, row: Row) -> Row:
        """A row with its key, all columns in the order of the table."""
        key = dict(zip(KEYS[self.table], self.key, strict=True))
        return key | {name: row[name] for name in COLUMNS[self.table]}


def phone_change(table: str, number: int, before: str | None, after: str | None) -> RowChange:
    """Returns the change of a row of a child table of phones."""
    row_before: Row | None = None if before is None else {"phoneno": before}
    row_after: Row | None = None if after is None else {"phoneno": after}
    return RowChange(table, (number,), row_before, row_after)


@dataclass(frozen=True, slots=True)
class Act:
    """A transaction: the changes of one object's rows, and the events that the log has of them."""

    changes: tuple[RowChange, ...]
    events: Sequence[Event] = field(repr=False)

    @property
    def row(self) -> tuple[str, tuple[Value, ...]]:
        """Table and key of the object's row, not of a row of its child tables."""
        return self.changes[0].class_name, self.changes[0].key

    @property
    def event_types(self) -> frozenset[int]:
        """The event types in the log."""
        return frozenset(event.event_type for event in self.events)

    @property
    def last_event(self) -> Event:
        """The event with the greatest record id."""
        return max(self.events, key=lambda event: event.record_id)

    @property
    def end_time(self) -> datetime:
        """Time of the last event in UTC."""
        time = self.last_event.event_time
        assert time is not None  # only events without transaction have no time
        return time


def act_of(trigger: Trigger, events: Sequence[Event]) -> Act | None:
    """The changes of one episode to its row; ``None`` without changes."""
    table, key = table_of(trigger.subject)
    changes = tuple(RowChange(table, key, *versions) for versions in trigger.versions())
    return Act(changes, events) if changes else None


def table_of(subject: Subject) -> tuple[str, tuple[Value, ...]]:
    """The table that stores a row, and the key; rows of the view are stored in ``employee``."""
    if subject.table == "membership":
        return "membership", (subject.group, subject.number)
    return "employee", (subject.number,)
