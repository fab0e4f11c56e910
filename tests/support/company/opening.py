"""Rows that are not random: changes of ``usr``, and one row for each error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from publisher.model.change import Outcome, Reason
from tests.support.company.acts import USR_COLUMNS, Act, RowChange, phone_change
from tests.support.company.log import Event
from tests.support.company.people import Row

USERS: dict[int, tuple[str, str, bytes | None, int | None]] = {
    1: ("John", "Doe", b"\xbb\xbb", 4),
    3: ("Anna", "Hoar", None, 4),
    4: ("Ivan", "Морозов", b"\x00\x01\x02", None),
}
"""Rows of ``usr``: idu to fname, lname, photo, manager."""
PHONES: dict[int, tuple[str, ...]] = {
    1: ("222-2222", "333-3333"),
    4: ("444-4444",),
}
"""Rows of ``usr_phone``: idu to the values of phoneno."""


def user_stories() -> list[Event]:
    """Returns the events of four users; user 1, Jack Frost, becomes John Doe and changes a phone."""
    return [
        _user(1, "idu=1", "fname", None, "Jack"),
        _user(1, "idu=1", "lname", None, "Frost"),
        _user(1, "idu=1", "photo", None, "qqo="),
        _user(1, "idu=1", "manager", None, "3"),
        _phone(1, "idu=1", None, "111-1111"),
        _phone(1, "idu=1", None, "222-2222"),
        _user(3, "idu=1", "fname", "Jack", "John"),
        _user(3, "idu=1", "lname", "Frost", "Doe"),
        _user(3, "idu=1", "photo", "qqo=", "u7s="),
        _user(2, "idu=1", "manager", "3", "4"),
        _phone(2, "idu=1", "111-1111", "333-3333"),
        _user(1, "idu=2", "fname", None, "Nora"),
        _user(1, "idu=2", "lname", None, "Rime"),
        _user(4, "idu=2", None, None, None),
        _user(2, "idu=3", "fname", "Ann", "Anna").expect(
            Outcome.SUPERSEDED, Reason.FIELD_QUERY_BACK
        ),
        _user(8, "idu=3", "fname", None, None),
        # one object, although the keys are written differently
        _user(3, "idu=4", "lname", "Frost", "Морозов").expect(
            Outcome.SUPERSEDED, Reason.ROW_QUERY_BACK
        ),
        _user(6, "idu= 04", None, None, None),
    ]


def user_acts(events: Sequence[Event]) -> list[Act]:
    """Returns the changes of the rows of ``user_stories``; the log does not contain all of them."""
    jack, john = _row("Jack", "Frost", b"\xaa\xaa", 3), _row(*USERS[1])
    nora, ann = _row("Nora", "Rime", None, None), _row("Ann", "Hoar", None, 4)
    ivan = _row(*USERS[4])
    episodes = [
        (
            6,
            (
                _user_change(1, None, jack),
                _phone_change(1, None, "111-1111"),
                _phone_change(1, None, "222-2222"),
            ),
        ),
        (5, (_user_change(1, jack, john), _phone_change(1, "111-1111", "333-3333"))),
        (2, (_user_change(2, None, nora),)),
        (1, (_user_change(2, nora, None),)),
        (2, (_user_change(3, ann, _row(*USERS[3])),)),
        (2, (_user_change(4, {**ivan, "lname": "Frost"}, ivan),)),
    ]
    log = iter(events)
    return [Act(changes, tuple(islice(log, count))) for count, changes in episodes]


def _row(*values: str | bytes | int | None) -> Row:
    return dict(zip(USR_COLUMNS, values, strict=True))


def _user_change(number: int, before: Row | None, after: Row | None) -> RowChange:
    return RowChange("usr", (number,), before, after)


def _phone_change(number: int, before: str | None, after: str | None) -> RowChange:
    return phone_change("usr_phone", number, before, after)


def _user(event_type: int, key: str, column: str | None, old: str | None, new: str | None) -> Event:
    return Event(0, key, "N", event_type, None, None, "usr", column, old, new)


def _phone(event_type: int, key: str, old: str | None, new: str | None) -> Event:
    """An event of the child table: its key is the user's."""
    return Event(0, key, "N", event_type, None, None, "usr_phone", "phoneno", old, new)


def _employee(number: int) -> Event:
    key = f"empno={number}"
    return Event(0, key, "N", 3, None, "hr_app", "employee", "badge", "B00001", "B00002")


def _event_type(event: Event) -> None:
    event.event_type = 9


def _negative_event_type(event: Event) -> None:
    event.event_type = -1


def _key_without_column(event: Event) -> None:
    event.table_key = event.table_key.removeprefix("empno=")


def _key_with_open_quote(event: Event) -> None:
    event.table_key = 'empno="17'


def _no_column(event: Event) -> None:
    event.column_name = None


def _unknown_column(event: Event) -> None:
    event.column_name = "shoe_size"


def _no_table(event: Event) -> None:
    event.table_name = ""


def _unknown_table(event: Event) -> None:
    event.table_name = "employes"


def _bad_base64(event: Event) -> None:
    event.column_name, event.old_value, event.new_value = "photo", None, "not*base64"


def _forbidden_character(event: Event) -> None:
    event.new_value = "B00\x0702"


def _negative_record_id(event: Event) -> None:
    event.record_id = -1


def _no_event_time(event: Event) -> None:
    event.timeless = True


ERRORS: list[tuple[Reason, Callable[[Event], None]]] = [
    (Reason.EVENT_TYPE, _event_type),
    (Reason.EVENT_TYPE, _negative_event_type),
    (Reason.TABLE_KEY, _key_without_column),
    (Reason.TABLE_KEY, _key_with_open_quote),
    (Reason.COLUMN_NAME, _no_column),
    (Reason.COLUMN_NAME, _unknown_column),
    (Reason.TABLE_NAME, _no_table),
    (Reason.TABLE_NAME, _unknown_table),
    (Reason.VALUE, _bad_base64),
    (Reason.FORBIDDEN_CHARACTER, _forbidden_character),
    (Reason.RECORD_ID, _negative_record_id),
    (Reason.EVENT_TIME, _no_event_time),
]
"""Reasons of rejects, each with a function that damages a valid event."""


def wrong_event(kind: int, number: int) -> Event:
    """Returns an event of employee ``number`` with the error ``ERRORS[kind]``."""
    reason, damage = ERRORS[kind]
    event = _employee(number)
    damage(event)
    return event.expect(Outcome.REJECTED, reason)


def double_record(number: int, *, identical: bool) -> list[Event]:
    """Two events of one object with the same record id: ignored if identical, else rejected."""
    first, second = _employee(number), _employee(number)
    second.repeats = first
    if identical:
        second.expect(Outcome.IGNORED, Reason.DUPLICATE)
    else:
        second.new_value = "B00003"
        second.expect(Outcome.REJECTED, Reason.DOUBLE_RECORD)
    return [first, second]


def excluded_event(number: int) -> Event:
    """An event of a table that the job file excludes."""
    event = Event(
        0, f"id={number}", "N", 1, None, None, "audit_trail", "note", None, f"entry {number}"
    )
    return event.expect(Outcome.IGNORED, Reason.EXCLUDED)
