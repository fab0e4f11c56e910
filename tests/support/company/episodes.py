"""Episodes: events of one object within one poll, with the expected outcome of each event.

Each function states the outcomes that follow from the rules of precedence; it computes no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from publisher.model.change import Outcome, Reason
from tests.support.company.log import DRIVER_USER, Event, Trigger
from tests.support.company.people import employee

Episode: TypeAlias = Callable[[Trigger], list[Event]]

FIRST_EFFECTIVE_DATE = datetime(2026, 6, 1, 0, 0, 0)  # noqa: DTZ001  the columns have no zone; after the clock


def _superseded_by_row(*events: Event) -> list[Event]:
    return [e.expect(Outcome.SUPERSEDED, Reason.ROW_QUERY_BACK) for e in events]


def _superseded_by_field(*events: Event) -> list[Event]:
    return [e.expect(Outcome.SUPERSEDED, Reason.FIELD_QUERY_BACK) for e in events]


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
    """The row deleted."""
    return [t.row_event(4)]


def insert_row_query_back(t: Trigger) -> list[Event]:
    """A new row, read back."""
    return [t.row_event(5)]


def update_row_query_back(t: Trigger) -> list[Event]:
    """A changed row, read back."""
    return [t.row_event(6)]


def insert_fields_query_back(t: Trigger) -> list[Event]:
    """A new row, its columns read back."""
    return t.fields(7, 4)


def update_fields_query_back(t: Trigger) -> list[Event]:
    """Some columns, read back."""
    return t.fields(8, 3)


def one_of_each(t: Trigger) -> list[Event]:
    """Three columns that become one modify: old and new value, read back, all values removed."""
    first, second, third = t.random.sample(("given_name", "family_name", "badge"), 3)
    return [t.field(2, first), t.field(8, second), t.field(3, third)]


def field_query_back_wins(t: Trigger) -> list[Event]:
    """Logs a column and reads it back, in either order."""
    name = t.some_columns(1)[0]
    logged, read = t.field(t.random.choice((2, 3)), name), t.field(8, name)
    _superseded_by_field(logged)
    return [logged, read] if t.random.random() < 0.5 else [read, logged]


def row_query_back_wins(t: Trigger) -> list[Event]:
    """Logs columns, then reads the row back."""
    return [*_superseded_by_row(*t.fields(2, 3), *t.fields(8, 2)), t.row_event(6)]


def insert_read_back_wins(t: Trigger) -> list[Event]:
    """Logs a new row column by column, reads it back, and changes it again."""
    logged = _superseded_by_row(*insert_fields(t)[:3])
    return [*logged, t.row_event(5), *_superseded_by_row(t.row_event(6))]


def repeated_query_back(t: Trigger) -> list[Event]:
    """Reads the row back twice: the first query-back is published."""
    return [t.row_event(6), *_superseded_by_row(t.row_event(6))]


def insert_beats_update(t: Trigger) -> list[Event]:
    """Reads a column of a new row back as inserted and as updated."""
    return [t.field(7, "badge"), *_superseded_by_field(t.field(8, "badge"))]


def replace_row(t: Trigger) -> list[Event]:
    """Changes and deletes a row, then inserts it again with other values."""
    query_back = t.row_event(6).expect(Outcome.IGNORED, Reason.ENDED_BY_DELETE)
    update = _superseded_by_row(t.field(3, "badge"))
    delete = t.row_event(4)
    t.row.update(employee(t.random))
    return [query_back, *update, delete, *insert_fields(t)]


def delete_and_read_back(t: Trigger) -> list[Event]:
    """Changes columns, deletes the row, inserts it again and reads it back."""
    updates = t.fields(2, 2)
    delete = t.row_event(4)
    t.row.update(employee(t.random))
    return [*updates, delete, t.row_event(5)]


def nothing_new(t: Trigger) -> list[Event]:
    """An update from NULL to NULL, as triggers log it if they do not compare values."""
    t.row["photo"] = None
    event = t.field(3, "photo")
    t.row["photo"] = None
    t.set_baseline()
    event.event_type, event.old_value, event.new_value = 2, None, None
    return [event.expect(Outcome.IGNORED, Reason.NOTHING_TO_PUBLISH)]


def loopback(t: Trigger) -> list[Event]:
    """Changes by the driver's own user."""
    events = t.fields(3, 2)
    for event in events:
        event.perpetrator = DRIVER_USER
        event.expect(Outcome.IGNORED, Reason.LOOPBACK)
    return events


def effective_later(t: Trigger) -> list[Event]:
    """A change with a future effective date, which the table does not contain yet."""
    row = dict(t.row)
    events = t.fields(3, 2)
    t.row.update(row)
    for event in events:
        event.event_time = FIRST_EFFECTIVE_DATE + timedelta(days=t.random.randrange(60))
        event.expect(Outcome.HELD, Reason.FUTURE)
    return events


CHANGES: dict[Episode, int] = {
    update_fields: 22,
    replace_fields: 20,
    update_row_query_back: 10,
    update_fields_query_back: 12,
    one_of_each: 6,
    field_query_back_wins: 6,
    row_query_back_wins: 5,
    repeated_query_back: 2,
    replace_row: 2,
    delete_and_read_back: 2,
    nothing_new: 1,
    loopback: 5,
    effective_later: 3,
}
"""Episodes of existing employees, with their weights."""

CHANGES_WITHOUT_DELETE = {
    episode: weight
    for episode, weight in CHANGES.items()
    if episode not in {replace_row, delete_and_read_back}
}
"""Episodes of employees whose phones and memberships stay."""

ARRIVALS: dict[Episode, int] = {
    insert_fields: 5,
    insert_row_query_back: 3,
    insert_fields_query_back: 2,
    insert_read_back_wins: 1,
    insert_beats_update: 1,
}
"""Episodes of new employees, with their weights."""

PLAIN_CHANGES: dict[Episode, int] = {
    update_fields: 3,
    replace_fields: 3,
    update_row_query_back: 2,
    update_fields_query_back: 2,
    row_query_back_wins: 1,
}
"""Episodes of memberships and of employees in the view, with their weights."""
