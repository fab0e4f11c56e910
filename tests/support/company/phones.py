"""Episodes of phones: rows of a child table, each a value of its employee's attribute."""

from __future__ import annotations

from random import Random
from typing import TypeAlias

from tests.support.company.acts import Act, phone_change
from tests.support.company.log import PERPETRATORS, Event, Subject
from tests.support.company.people import employee_key, phone_number

TABLE = "employee_phone"
MOST_PHONES = 3

PhoneRow: TypeAlias = tuple[str | None, str | None]
"""The phone in a row before and after a change; ``None`` if the row does not exist then."""


def phone_episode(random: Random, number: int, phones: list[str]) -> Act:
    """Adds, changes or removes a phone of an employee, or changes one that is read back."""
    episodes = [_change, _remove] if phones else [_add]
    if 0 < len(phones) < MOST_PHONES:
        episodes.append(_add)
    old, new = random.choice(episodes)(random, phones)
    is_read_back = random.random() < 0.25
    event = Event(
        record_id=0,
        table_key=employee_key(number),
        status="N",
        event_type=8 if is_read_back else 2,
        event_time=None,
        perpetrator=random.choice(PERPETRATORS),
        table_name=TABLE,
        column_name="phoneno",
        old_value=None if is_read_back else old,
        new_value=None if is_read_back else new,
        lookup=Subject("employee", number) if is_read_back else None,
    )
    return Act((phone_change(TABLE, number, old, new),), [event])


def _add(random: Random, phones: list[str]) -> PhoneRow:
    phones.append(_new_number(random, phones))
    return None, phones[-1]


def _change(random: Random, phones: list[str]) -> PhoneRow:
    place = random.randrange(len(phones))
    old, phones[place] = phones[place], _new_number(random, phones)
    return old, phones[place]


def _remove(random: Random, phones: list[str]) -> PhoneRow:
    return phones.pop(random.randrange(len(phones))), None


def _new_number(random: Random, phones: list[str]) -> str:
    while (number := phone_number(random)) in phones:
        pass  # the values of an attribute are distinct
    return number
