"""One row of the demo's event log, with the outcome that it must get."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import NamedTuple, TypeAlias

from publisher.demo.people import Row, column_value, log_text
from publisher.model.change import PER_FIELD_LOGGED, QUERY_BACK, Outcome, Reason

DRIVER_USER = "idm"
PERPETRATORS = ("hr_app", "portal", "anna", None)


class Subject(NamedTuple):
    """The object that an episode is about: a row of a table or of a view."""

    table: str
    number: int
    group: str = ""


@dataclass(slots=True)
class Event:
    """A row of the event log in the column order of version 3.5, then what becomes of it.

    Record id 0 and no time: both are given when the log is put together.  ``lookup`` names the row
    that a query-back reads; the outcome holds if it exists in the end.
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
    """The row whose record id and time it has too."""
    timeless: bool = False

    def must(self, outcome: Outcome, reason: Reason) -> Event:
        """Sets the outcome, whatever a lookup says; gives the event itself."""
        self.outcome, self.reason, self.lookup = outcome, reason, None
        return self


Versions: TypeAlias = list[tuple[Row | None, Row | None]]
"""A row before and after each statement; ``None`` where there is none."""


@dataclass(slots=True)
class Trigger:
    """Writes the events of one object as the triggers of a database do, and changes the row."""

    random: Random
    subject: Subject
    key: str
    row: Row
    columns: tuple[str, ...]
    new: bool = False
    """Whether the row was not there before."""
    _versions: Versions = field(default_factory=list)
    _known: Row | None = None
    """The row after the last statement."""
    _gone: bool = False

    def __post_init__(self) -> None:
        if not self.new:
            self.as_before()

    def as_before(self) -> None:
        """Marks the present values of the row as older than the log."""
        self._known = dict(self.row)

    def versions(self) -> Versions:
        """Changes of the row itself: all changes between two deletes are one statement."""
        if not self._gone:
            self._add_version()
        return self._versions

    def field(self, event_type: int, column: str) -> Event:
        """An event of one column; types 2, 3 and 8 give it a new value."""
        old = log_text(self.row[column]) if event_type in {2, 3} else None
        if event_type in {2, 3, 8}:
            self._change(column)
        new = log_text(self.row[column]) if event_type in PER_FIELD_LOGGED else None
        event = self._event(event_type, column)
        event.old_value, event.new_value = old, new
        return event

    def fields(self, event_type: int, most: int) -> list[Event]:
        """Events of one to ``most`` different columns."""
        return [self.field(event_type, name) for name in self.some_columns(most)]

    def whole(self, event_type: int) -> Event:
        """An event of the whole row: types 4, 5 and 6."""
        if event_type == 6:
            for name in self.some_columns(3):
                self._change(name)
        return self._event(event_type, None)

    def some_columns(self, most: int) -> list[str]:
        """One to ``most`` different columns, in random order."""
        count = self.random.randint(1, min(most, len(self.columns)))
        return self.random.sample(self.columns, count)

    def _change(self, column: str) -> None:
        old = self.row[column]
        while (new := column_value(self.random, column)) == old:
            pass  # a trigger that fires has something to tell
        self.row[column] = new

    def _add_version(self) -> None:
        if self._known != self.row:
            self._versions.append((self._known, dict(self.row)))
            self.as_before()

    def _event(self, event_type: int, column: str | None) -> Event:
        self._gone = event_type == 4
        if self._gone:
            self._add_version()
            self._versions.append((self._known, None))
            self._known = None
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
