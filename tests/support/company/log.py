"""Rows of the company's event log, with their expected outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import NamedTuple, TypeAlias

from publisher.model.change import QUERY_BACK, Outcome, Reason
from tests.support.company.people import Row, column_value, log_text

DRIVER_USER = "idm"
PERPETRATORS = ("hr_app", "portal", "anna", None)


class Subject(NamedTuple):
    """The object that an episode is about: a row of a table or of a view."""

    table: str
    number: int
    group: str = ""


@dataclass(slots=True)
class Event:
    """A row of the event log in the column order of version 3.5, followed by its expected outcome.

    Record id and time are assigned when the log is complete.  ``lookup`` names the row that a query-back
    reads; if this row does not exist when the log is complete, the query-back is ignored.
    """

    record_id: int
    table_key: str
    status: str
    event_type: int
    event_time: datetime | None
    perpetrator: str | None
    table_name: str
    column_name: str | None
    old_value: str | None
    new_value: str | None
    outcome: Outcome = Outcome.PUBLISHED
    reason: Reason | None = None
    lookup: Subject | None = None
    repeats: Event | None = None
    """Another row with the same record id and time."""
    timeless: bool = False
    """True for a row whose event time stays NULL."""

    def expect(self, outcome: Outcome, reason: Reason) -> Event:
        """Sets the expected outcome, whatever the look-up returns; returns the event itself."""
        self.outcome, self.reason, self.lookup = outcome, reason, None
        return self


Versions: TypeAlias = list[tuple[Row | None, Row | None]]
"""A row before and after each statement; ``None`` if the row does not exist then."""


@dataclass(slots=True)
class Trigger:
    """Writes the events of one object as the triggers of a database do, and changes the row."""

    random: Random
    subject: Subject
    key: str
    row: Row
    columns: tuple[str, ...]
    new: bool = False
    """True if the row did not exist before."""
    _versions: Versions = field(default_factory=list)
    _last_version: Row | None = None
    """The row after the last statement."""
    _deleted: bool = False

    def __post_init__(self) -> None:
        if not self.new:
            self.set_baseline()

    def set_baseline(self) -> None:
        """Treats the current values of the row as its state after the last statement."""
        self._last_version = dict(self.row)

    def versions(self) -> Versions:
        """Returns the changes of the row: all changes between two deletes are one statement."""
        if not self._deleted:
            self._add_version()
        return self._versions

    def field(self, event_type: int, column: str) -> Event:
        """An event of one column; types 2, 3 and 8 give it a new value."""
        old = log_text(self.row[column]) if event_type in {2, 3} else None
        if event_type in {2, 3, 8}:
            self._change(column)
        new = log_text(self.row[column]) if event_type <= 3 else None
        event = self._event(event_type, column)
        event.old_value, event.new_value = old, new
        return event

    def fields(self, event_type: int, limit: int) -> list[Event]:
        """Events of one to ``limit`` different columns."""
        return [self.field(event_type, name) for name in self.some_columns(limit)]

    def row_event(self, event_type: int) -> Event:
        """An event of the whole row: types 4, 5 and 6."""
        if event_type == 6:
            for name in self.some_columns(3):
                self._change(name)
        return self._event(event_type, None)

    def some_columns(self, limit: int) -> list[str]:
        """One to ``limit`` different columns, in random order."""
        count = self.random.randint(1, min(limit, len(self.columns)))
        return self.random.sample(self.columns, count)

    def _change(self, column: str) -> None:
        old = self.row[column]
        while (new := column_value(self.random, column)) == old:
            pass  # a trigger fires only if the value changes
        self.row[column] = new

    def _add_version(self) -> None:
        if self._last_version != self.row:
            self._versions.append((self._last_version, dict(self.row)))
            self.set_baseline()

    def _event(self, event_type: int, column: str | None) -> Event:
        self._deleted = event_type == 4
        if self._deleted:
            self._add_version()
            self._versions.append((self._last_version, None))
            self._last_version = None
        return Event(
            record_id=0,
            table_key=self.key,
            status="N",
            event_type=event_type,
            event_time=None,
            perpetrator=self.random.choice(PERPETRATORS),
            table_name=self.subject.table,
            column_name=column,
            old_value=None,
            new_value=None,
            lookup=self.subject if event_type in QUERY_BACK else None,
        )
