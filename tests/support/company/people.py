"""The company: employees, their memberships, and the text of their values in a log."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TypeAlias

Value: TypeAlias = str | int | bool | bytes | date | datetime | Decimal | None
Row: TypeAlias = dict[str, Value]


def _words(text: str) -> list[str]:
    return text.split()


GIVEN = _words(
    "Jack Žofie José Åsa Ömer Chloë Łukasz Núria Siobhán Jürgen Anaïs Đorđe Ilse Tomáš Zoë Björn "
    "Αθηνά Ольга Іван Дмитро 伟 秀英 さくら 健太 민준 서연 नेहा Chinedu Amélie Gýula Renée Mikołaj"
)
FAMILY = _words(
    "Frost Doe Müller Świątek Nuñez Čapek O'Neil Fernández Løvås Weiß Şahin Đặng Kovačević Håkansson "
    "Παπαδοπούλου Шевченко Иванова 王 张 佐藤 鈴木 김 이 शर्मा Okonkwo Lefèvre Smith&Sons d'Arc Ångström"
)
TITLES = ("Engineer", "Accountant", "Nurse", "Driver", "R&D Lead", "Buyer", None)
ADDRESSES = (
    "12 High Street\nDublin",
    "Hauptstraße 7\n1010 Wien",
    "東京都千代田区1-1",
    "Rua Áurea 5",
    None,
)
GROUPS = ("sales", "audit", "R&D, EMEA", 'the "night" shift', "köln=büro", "ops")
ROLES = ("member", "owner", "guest")

EMPLOYEE_COLUMNS = (
    "given_name",
    "family_name",
    "badge",
    "title",
    "address",
    "hired",
    "last_login",
    "active",
    "salary",
    "photo",
    "manager",
)
MEMBERSHIP_COLUMNS = ("role", "since")
VIEW_COLUMNS = ("given_name", "family_name", "title", "active")
_SHARE_OF_MEMBERS = 5
_MANAGERS = 500
FIRST_HIRE = date(2009, 3, 2)
FIRST_LOGIN = datetime(2026, 4, 1, 7, 0, 0)  # noqa: DTZ001  the columns have no zone


@dataclass(slots=True)
class Company:
    """The current rows of the tables by key: employee number, or group and employee number."""

    employees: dict[int, Row]
    memberships: dict[tuple[str, int], Row]
    phones: dict[int, list[str]]
    """Phones of the employees who can have some."""


def company(random: Random, employees: int) -> Company:
    """Invents ``employees`` employees; some are members of a group, have phones, and manage others."""
    people = {number: employee(random) for number in range(1, employees + 1)}
    members = {
        (random.choice(GROUPS), number): membership(random)
        for number in people
        if can_be_member(number)
    }
    phones = {
        number: [phone_number(random) for _ in range(random.randrange(3))] for _, number in members
    }
    return Company(people, members, {number: sorted(set(own)) for number, own in phones.items()})


def can_be_member(number: int) -> bool:
    """Returns whether an employee can be a member of groups, have phones and be a manager.

    One in five can, and never leaves.
    """
    return number % _SHARE_OF_MEMBERS == 1


def employee(random: Random) -> Row:
    """One row of ``employee`` without its key."""
    return {name: column_value(random, name) for name in EMPLOYEE_COLUMNS}


def membership(random: Random) -> Row:
    """One row of ``membership`` without its key."""
    return {name: column_value(random, name) for name in MEMBERSHIP_COLUMNS}


def column_value(random: Random, column: str) -> Value:
    """A new value for a column."""
    return MAKERS[column](random)


def phone_number(random: Random) -> str:
    """A phone number."""
    return f"{random.randrange(100, 1000)}-{random.randrange(10_000):04}"


def _manager(random: Random) -> Value:
    if random.random() < 0.1:
        return None
    return _SHARE_OF_MEMBERS * random.randrange(_MANAGERS) + 1


def _day(random: Random) -> Value:
    return FIRST_HIRE + timedelta(days=random.randrange(6000))


def _photo(random: Random) -> Value:
    return random.randbytes(12) if random.random() < 0.8 else None


MAKERS: dict[str, Callable[[Random], Value]] = {
    "given_name": lambda random: random.choice(GIVEN),
    "family_name": lambda random: random.choice(FAMILY),
    "badge": lambda random: f"B{random.randrange(10**5):05}",
    "title": lambda random: random.choice(TITLES),
    "address": lambda random: random.choice(ADDRESSES),
    "hired": _day,
    "since": _day,
    "last_login": lambda random: FIRST_LOGIN + timedelta(seconds=random.randrange(30 * 86_400)),
    "active": lambda random: random.random() < 0.9,
    "salary": lambda random: Decimal(random.randrange(200_000, 900_000)) / 100,
    "photo": _photo,
    "manager": _manager,
    "role": lambda random: random.choice(ROLES),
}


def log_text(value: Value) -> str | None:
    """Formats a value as a trigger writes it into old_value and new_value."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case datetime():
            return value.isoformat(sep=" ")
        case Decimal():
            return f"{value:.2f}"
        case None:
            return None
    return str(value)


def employee_key(number: int) -> str:
    """table_key of an employee."""
    return f"empno={number}"


def view_key(number: int) -> str:
    """table_key of an employee in the view."""
    return f"pk_empno={number}"


def membership_key(group: str, number: int) -> str:
    """table_key of a membership: a compound key, with quotes if the group's name needs them."""
    if any(c in ",;'+\"=\\<>" for c in group):
        escaped = group.replace("\\", "\\\\").replace('"', '\\"')
        group = f'"{escaped}"'
    return f"grp={group}+empno={number}"
