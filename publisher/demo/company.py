"""The demo's company: users, their phones, and the event log of one week.

The log is generated from a seed, so it is the same each time.  It has every kind of event, rows that no
document needs, and some rows that are wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

PEOPLE = 1_000
EVENTS = 12_000
NOW = "2026-05-11T00:00:00Z"
"""The demo's clock: later than all events that have no future effective date."""
JACK = 1
"""The user whose document is shown."""
SUPERSEDED = 16
"""Record id of a superseded change of a name."""
REJECTED = 25
"""Record id of the first rejected row."""

_SEED = 20260511
_FIRST_EVENT = datetime(2026, 5, 4, 6, 0, 0)  # noqa: DTZ001  the column has no zone; UTC is meant
_FIRST_EFFECTIVE_DATE = datetime(2026, 6, 1, 0, 0, 0)  # noqa: DTZ001  as above
_DRIVER_USER = "idm"
_MANAGERS = 50
"""Users below this number are managers, and stay."""
_SHOWN = frozenset(range(1, 5))
"""Users whose changes are all in the opening."""
_CONCURRENT = 4
"""Transactions that write the log at the same time."""

_GIVEN_NAMES = (
    "Žofie José Åsa Ömer Chloë Łukasz Núria Siobhán Jürgen Anaïs Đorđe Tomáš Zoë Björn Αθηνά Ольга "
    "Іван Дмитро 伟 秀英 さくら 健太 민준 서연 नेहा Chinedu Amélie Renée Mikołaj"
)
_FAMILY_NAMES = (
    "Müller Świątek Nuñez Čapek O'Neil Fernández Løvås Weiß Şahin Kovačević Håkansson Παπαδοπούλου "
    "Шевченко 王 张 佐藤 鈴木 김 शर्मा Okonkwo Lefèvre Smith&Sons d'Arc Ångström"
)
_TITLES = ("Engineer", "Accountant", "Nurse", "Driver", "R&D Lead", "Buyer", None)
_COLUMNS = ("fname", "lname", "title", "hired", "manager")

Row: TypeAlias = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the event log; record id and time are assigned when it is written."""

    table_key: str
    event_type: int
    table_name: str = "usr"
    column_name: str | None = None
    old_value: str | None = None
    new_value: str | None = None
    perpetrator: str | None = None
    event_time: datetime | None = None
    record_id: int = 0
    status: str = "N"


@dataclass(slots=True)
class Company:
    """Changes users as an application does, and logs each change as triggers do."""

    users: dict[int, Row] = field(default_factory=dict)
    phones: dict[int, list[str]] = field(default_factory=dict)
    log: list[LogRow] = field(default_factory=list)
    _random: random.Random = field(default_factory=lambda: random.Random(_SEED))  # noqa: S311  no secrets

    def live_through_a_week(self) -> None:
        """Writes the whole log: some fixed events, the first users, then random changes and wrong rows."""
        events = [*_opening(self), *self._interleave(self._hires(), PEOPLE * 10)]
        events += self._interleave(self._changes(), EVENTS - len(events) - len(_ERRORS) - 2)
        for number, damage in enumerate(_ERRORS):
            row = damage(LogRow("idu=7", 3, "usr", "title", None, "Buyer"))
            events.insert(REJECTED - 1 + number * (EVENTS // 10), row)
        self._stamp(events)
        self.log += [self.log[-1], replace(self.log[-2], new_value="another")]

    def set(self, number: int, event_type: int, column: str, value: str | None) -> LogRow:
        """Changes a column of a user."""
        row = self.users[number]
        old, row[column] = row[column], value
        if event_type in (7, 8):
            return LogRow(_key(number), event_type, "usr", column)
        return LogRow(
            _key(number), event_type, "usr", column, old if event_type == 2 else None, value
        )

    def set_phone(
        self, number: int, old: str | None, new: str | None, event_type: int = 2
    ) -> LogRow:
        """Adds, changes or removes a phone of a user."""
        phones = self.phones.setdefault(number, [])
        phones[:] = [phone for phone in phones if phone != old] + ([new] if new else [])
        return LogRow(_key(number), event_type, "usr_phone", "phoneno", old, new)

    def hire(self, number: int, event_type: int, *values: str | None) -> list[LogRow]:
        """Inserts a user: an event for each column, or one that reads the row back."""
        self.users[number] = dict.fromkeys(_COLUMNS)
        events = [
            self.set(number, event_type, name, value)
            for name, value in zip(_COLUMNS, values, strict=True)
        ]
        return [LogRow(_key(number), 5)] if event_type == 5 else events

    def _hires(self) -> Iterator[tuple[int, list[LogRow]]]:
        for number in range(len(self.users) + 1, PEOPLE + 1):
            yield number, self._hire(number)

    def _hire(self, number: int) -> list[LogRow]:
        values = (self._value(name) for name in _COLUMNS)
        return self.hire(number, self._random.choice((1, 1, 5, 7)), *values)

    def _changes(self) -> Iterator[tuple[int, list[LogRow]]]:
        """Yields changes of random users for ever."""
        kinds = [kind for kind, weight in _KINDS.items() for _ in range(weight)]
        while True:
            number = self._random.choice([n for n in self.users if n not in _SHOWN])
            yield number, list(self._random.choice(kinds)(self, number))

    def _interleave(
        self, episodes: Iterator[tuple[int, list[LogRow]]], limit: int
    ) -> Iterator[LogRow]:
        """Mixes the events of several users, like concurrent transactions; stops at ``limit`` events."""
        running: dict[int, list[LogRow]] = {}
        count = 0
        while count < limit:
            while len(running) < _CONCURRENT:
                number, events = next(episodes, (0, []))
                if not number:
                    break
                if events:
                    running.setdefault(number, []).extend(events)
            if not running:
                return
            number = self._random.choice(list(running))
            yield running[number].pop(0)
            count += 1
            if not running[number]:
                del running[number]
        for events in running.values():
            yield from events

    def _stamp(self, events: list[LogRow]) -> None:
        """Assigns ascending record ids and times."""
        time = _FIRST_EVENT
        for number, event in enumerate(events, 1):
            time += timedelta(seconds=self._random.randrange(90))
            record_id = event.record_id or number
            self.log.append(
                replace(event, record_id=record_id, event_time=event.event_time or time)
            )

    def _value(self, column: str) -> str | None:
        choose = self._random.choice
        match column:
            case "fname":
                return choose(_GIVEN_NAMES.split())
            case "lname":
                return choose(_FAMILY_NAMES.split())
            case "title":
                return choose(_TITLES)
            case "hired":
                return f"{choose(range(2009, 2026))}-{choose(range(1, 13)):02}-{choose(range(1, 29)):02}"
        return str(choose(range(1, _MANAGERS)))

    def _other(self, number: int, column: str) -> str | None:
        """A value that the column does not have: a trigger fires only if the value changes."""
        while (value := self._value(column)) == self.users[number][column]:
            pass
        return value

    def _columns(self) -> list[str]:
        return self._random.sample(_COLUMNS, self._random.randint(1, 3))

    def update(self, number: int, event_type: int = 2) -> list[LogRow]:
        """Changes up to three columns."""
        return [self.set(number, event_type, c, self._other(number, c)) for c in self._columns()]

    def replace_values(self, number: int) -> list[LogRow]:
        """Changes columns, logged without their old values."""
        return self.update(number, 3)

    def update_and_read_back(self, number: int) -> list[LogRow]:
        """Changes columns that are read back."""
        return self.update(number, 8)

    def update_row(self, number: int) -> list[LogRow]:
        """Changes columns, and reads the whole row back, which supersedes the events of the columns."""
        return [*self.update(number), LogRow(_key(number), 6)]

    def change_phone(self, number: int) -> list[LogRow]:
        """Adds, changes or removes a phone."""
        phones = self.phones.get(number, [])
        new = f"{self._random.randrange(100, 1000)}-{self._random.randrange(10_000):04}"
        if not phones or (new not in phones and len(phones) < 3 and self._random.random() < 0.4):
            return [self.set_phone(number, None, new)]
        return [self.set_phone(number, phones[0], self._random.choice((None, new)))]

    def leave(self, number: int) -> list[LogRow]:
        """Deletes a user after a last change, unless others need the user as a manager."""
        if number < _MANAGERS:
            return []
        events = [*self.update_row(number), LogRow(_key(number), 4)]
        del self.users[number]
        self.phones.pop(number, None)
        return events

    def log_nothing_new(self, number: int) -> list[LogRow]:
        """An update from NULL to NULL, as triggers log it if they do not compare values."""
        return [LogRow(_key(number), 2, "usr", "title")]

    def loop_back(self, number: int) -> list[LogRow]:
        """The identity manager writes a value that it has received."""
        title = self.users[number]["title"]
        return [LogRow(_key(number), 3, "usr", "title", None, title, _DRIVER_USER)]

    def plan_ahead(self, number: int) -> list[LogRow]:
        """A change with a future effective date, which the table does not contain yet."""
        time = _FIRST_EFFECTIVE_DATE + timedelta(days=self._random.randrange(60))
        return [LogRow(_key(number), 3, "usr", "title", None, "Director", event_time=time)]

    def audit(self, number: int) -> list[LogRow]:
        """An event of a table that the job file excludes."""
        return [LogRow(f"id={number}", 1, "audit_trail", "note", None, "signed in")]


_KINDS: dict[Callable[[Company, int], list[LogRow]], int] = {
    Company.update: 26,
    Company.replace_values: 16,
    Company.update_and_read_back: 12,
    Company.update_row: 12,
    Company.change_phone: 16,
    Company.leave: 3,
    Company.log_nothing_new: 1,
    Company.loop_back: 6,
    Company.plan_ahead: 3,
    Company.audit: 4,
}
"""Changes of existing users, with their weights."""


def _opening(company: Company) -> list[LogRow]:
    """The events that the demo shows: user 1, Jack, becomes John; user 3 is read back."""
    events = [
        *company.hire(1, 1, "Jack", "Frost", "Engineer", "2019-05-06", "3"),
        company.set_phone(1, None, "111-1111", 1),
        company.set_phone(1, None, "222-2222", 1),
        company.set(1, 2, "fname", "John"),
        company.set_phone(1, "111-1111", "333-3333"),
        *company.hire(2, 5, "Nora", "Rime", "Nurse", "2021-02-01", "1"),
        *company.hire(3, 1, "Ann", "Hoar", "R&D Lead", "2012-10-01", None),
        company.set(3, 2, "fname", "Anna"),
        company.set(3, 8, "fname", "Anna"),
        *company.hire(4, 1, "Ivan", "Морозов", "Buyer", "2015-03-09", None),
    ]
    assert events[SUPERSEDED - 1].column_name == "fname"
    return events


def _wrong_event_type(row: LogRow) -> LogRow:
    return replace(row, event_type=9)


def _key_without_column(row: LogRow) -> LogRow:
    return replace(row, table_key="1746")


def _key_with_open_quote(row: LogRow) -> LogRow:
    return replace(row, table_key='idu="17')


def _unknown_column(row: LogRow) -> LogRow:
    return replace(row, column_name="shoe_size")


def _unknown_table(row: LogRow) -> LogRow:
    return replace(row, table_name="users")


def _bad_date(row: LogRow) -> LogRow:
    return replace(row, column_name="hired", new_value="soon")


def _forbidden_character(row: LogRow) -> LogRow:
    return replace(row, new_value="Buy\x07er")


def _negative_record_id(row: LogRow) -> LogRow:
    return replace(row, record_id=-1)


_ERRORS: tuple[Callable[[LogRow], LogRow], ...] = (
    *(_key_without_column, _wrong_event_type, _key_with_open_quote, _unknown_column),
    *(_unknown_table, _bad_date, _forbidden_character, _negative_record_id),
)
"""Functions that damage a valid event, one for each row that is rejected."""


def _key(number: int) -> str:
    return f"idu={number}"
