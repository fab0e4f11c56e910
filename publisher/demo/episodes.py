"""Episodes: what happens to one object within one poll, and what becomes of each event.

Each function says in its outcomes what the rules of precedence give for it; no rule is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from publisher.demo.log import DRIVER_USER, Event, Trigger
from publisher.demo.people import employee
from publisher.model.change import Outcome, Reason

Episode: TypeAlias = Callable[[Trigger], list[Event]]

EFFECTIVE = datetime(2026, 6, 1, 0, 0, 0)  # noqa: DTZ001  the columns have no zone; after the demo's now


def _by_row(*events: Event) -> list[Event]:
    return [e.must(Outcome.SUPERSEDED, Reason.ROW_QUERY_BACK) for e in events]


def _by_field(*events: Event) -> list[Event]:
    return [e.must(Outcome.SUPERSEDED, Reason.FIELD_QUERY_BACK) for e in events]


def insert_fields(t: Trigger) -> list[Event]:
    """A new row, one event for each column."""
    return [t.field(1, name) for name in t.columns]


def update_fields(t: Trigger) -> list[Event]:
    """Some columns, old and new value."""
    return t.fields(2, 3)


def replace_fields(t: Trigger) -> list[Event]:
    """Some columns, all values removed."""
    return t.fields(3, 3)


def delete_row(t: Trigger) -> list[Event]:
    """The row goes."""
    return [t.whole(4)]


def insert_row_query_back(t: Trigger) -> list[Event]:
    """A new row, read back."""
    return [t.whole(5)]


def update_row_query_back(t: Trigger) -> list[Event]:
    """A changed row, read back."""
    return [t.whole(6)]


def insert_fields_query_back(t: Trigger) -> list[Event]:
    """A new row, its columns read back."""
    return t.fields(7, 4)


def update_fields_query_back(t: Trigger) -> list[Event]:
    """Some columns, read back."""
    return t.fields(8, 3)


def one_of_each(t: Trigger) -> list[Event]:
    """Old and new value, read back, all values removed: one modify of three columns."""
    first, second, third = t.random.sample(("given_name", "family_name", "badge"), 3)
    return [t.field(2, first), t.field(8, second), t.field(3, third)]


def field_query_back_wins(t: Trigger) -> list[Event]:
    """Logs a column and reads it back, in either order."""
    name = t.some_columns(1)[0]
    logged, read = t.field(t.random.choice((2, 3)), name), t.field(8, name)
    _by_field(logged)
    return [logged, read] if t.random.random() < 0.5 else [read, logged]


def row_query_back_wins(t: Trigger) -> list[Event]:
    """Columns logged, then the row read back."""
    return [*_by_row(*t.fields(2, 3), *t.fields(8, 2)), t.whole(6)]


def insert_read_back_wins(t: Trigger) -> list[Event]:
    """A new row logged column by column, read back, and changed again."""
    logged = _by_row(*insert_fields(t)[:3])
    return [*logged, t.whole(5), *_by_row(t.whole(6))]


def twice_the_same(t: Trigger) -> list[Event]:
    """The row read back twice: the first stays."""
    return [t.whole(6), *_by_row(t.whole(6))]


def insert_beats_update(t: Trigger) -> list[Event]:
    """A column of a new row read back as inserted and as updated."""
    return [t.field(7, "badge"), *_by_field(t.field(8, "badge"))]


def replaced_row(t: Trigger) -> list[Event]:
    """Changed, deleted and inserted again with other values."""
    gone = t.whole(6).must(Outcome.IGNORED, Reason.ENDED_BY_DELETE)
    changed = t.field(3, "badge")
    logged = _by_row(changed)
    deleted = t.whole(4)
    t.row.update(employee(t.random))
    return [gone, *logged, deleted, *insert_fields(t)]


def delete_and_read_back(t: Trigger) -> list[Event]:
    """Changed by column, deleted, inserted again and read back."""
    changed = t.fields(2, 2)
    deleted = t.whole(4)
    t.row.update(employee(t.random))
    return [*changed, deleted, t.whole(5)]


def nothing_new(t: Trigger) -> list[Event]:
    """A trigger that does not compare: no value before, none after."""
    t.row["photo"] = None
    event = t.field(3, "photo")
    t.row["photo"] = None
    t.as_before()
    event.event_type, event.old_value, event.new_value = 2, None, None
    return [event.must(Outcome.IGNORED, Reason.NOTHING_TO_PUBLISH)]


def loopback(t: Trigger) -> list[Event]:
    """The driver's own user did it."""
    events = t.fields(3, 2)
    for event in events:
        event.perpetrator = DRIVER_USER
        event.must(Outcome.IGNORED, Reason.LOOPBACK)
    return events


def effective_later(t: Trigger) -> list[Event]:
    """A change with an effective date to come; the table does not have it yet."""
    row = dict(t.row)
    events = t.fields(3, 2)
    t.row.update(row)
    for event in events:
        event.event_time = EFFECTIVE + timedelta(days=t.random.randrange(60))
        event.must(Outcome.HELD, Reason.FUTURE)
    return events


CHANGES: dict[Episode, int] = {
    update_fields: 22,
    replace_fields: 20,
    update_row_query_back: 10,
    update_fields_query_back: 12,
    one_of_each: 6,
    field_query_back_wins: 6,
    row_query_back_wins: 5,
    twice_the_same: 2,
    replaced_row: 2,
    delete_and_read_back: 2,
    nothing_new: 1,
    loopback: 5,
    effective_later: 3,
}
"""Episodes of an employee that exists, and how often they happen."""

ARRIVALS: dict[Episode, int] = {
    insert_fields: 5,
    insert_row_query_back: 3,
    insert_fields_query_back: 2,
    insert_read_back_wins: 1,
    insert_beats_update: 1,
}
"""Episodes of an employee that comes."""

PLAIN_CHANGES: dict[Episode, int] = {
    update_fields: 3,
    replace_fields: 3,
    update_row_query_back: 2,
    update_fields_query_back: 2,
    row_query_back_wins: 1,
}
"""Episodes of a membership, or of an employee seen through the view."""
