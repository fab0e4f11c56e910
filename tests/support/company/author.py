"""Invents the changes of the company's data, episode by episode, and updates its tables."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.support.company.acts import Act, act_of
from tests.support.company.episodes import (
    ARRIVALS,
    CHANGES,
    CHANGES_WITHOUT_DELETE,
    PLAIN_CHANGES,
    Episode,
    delete_row,
    insert_fields,
    replace_fields,
)
from tests.support.company.log import Event, Subject, Trigger
from tests.support.company.opening import ERRORS, double_record, excluded_event, wrong_event
from tests.support.company.people import (
    EMPLOYEE_COLUMNS,
    GROUPS,
    MEMBERSHIP_COLUMNS,
    VIEW_COLUMNS,
    Company,
    Row,
    can_be_member,
    employee,
    employee_key,
    membership,
    membership_key,
    view_key,
)
from tests.support.company.phones import phone_episode

EPISODE_DISTANCE = 12_000
"""Minimum number of rows between two episodes of an object: more than a poll, so that no poll has both."""


class Author:
    """Writes episodes; no poll has two of the same object, so the outcomes are known in advance."""

    def __init__(self, random: Random, company: Company, people: int) -> None:
        self.company = company
        self.acts: list[Act] = []
        """Changes of rows in the order of invention, without filler events."""
        self._act: Act | None = None
        self._random = random
        self._next_number = people + 1
        self._row_count = 0
        self._last_rows: dict[Subject, int] = {}
        self._former_employees: list[int] = []
        self._members = list(company.memberships)
        self._phone_owners = list(company.phones)
        self._kinds = {
            self._change: 70,
            self._arrival: 12,
            self._leaving: 6,
            self._membership: 9,
            self._new_membership: 2,
            self._view: 6,
            self._phone: 6,
            self._excluded_event: 2,
        }

    def write(self, rows: int, *, wrong: bool = False) -> Iterator[list[Event]]:
        """Yields episodes of ``rows`` events in total; ``wrong`` includes each error of ``ERRORS``."""
        end = self._row_count + rows
        specials = self._specials()
        interval = rows // (len(ERRORS) + 3)
        next_special = self._row_count + interval if wrong else end
        kinds, weights = list(self._kinds), list(self._kinds.values())
        while self._row_count < end:
            special = next(specials, None) if self._row_count >= next_special else None
            if special is not None:
                next_special += interval
            self._act = None
            episode = special or self._random.choices(kinds, weights)[0]()
            if self._row_count + len(episode) > end:
                self._act, episode = None, self._filler(end - self._row_count)
            self._row_count += len(episode)
            self.acts += filter(None, [self._act])
            yield episode

    def exists(self, subject: Subject) -> bool:
        """Returns whether the row exists now."""
        if subject.table == "membership":
            return (subject.group, subject.number) in self.company.memberships
        return subject.number in self.company.employees

    def _specials(self) -> Iterator[list[Event]]:
        """Yields wrong and double records, each of an employee without recent events."""
        for kind in range(len(ERRORS)):
            yield [wrong_event(kind, self._choose_employee())]
        for same in (True, False):
            yield double_record(self._choose_employee(), identical=same)

    def _filler(self, rows: int) -> list[Event]:
        """Returns ``rows`` events that fill the log up to its requested length."""
        return [replace_fields(self._employee(self._choose_employee()))[0] for _ in range(rows)]

    def _change(self) -> list[Event]:
        number = self._choose_employee()
        episodes = CHANGES_WITHOUT_DELETE if can_be_member(number) else CHANGES
        return self._play(self._choose(episodes), self._employee(number))

    def _phone(self) -> list[Event]:
        phones = self.company.phones
        while True:
            number = self._random.choice(self._phone_owners)
            if self._is_idle(Subject("employee", number)):
                break
        self._last_rows[Subject("employee", number)] = self._row_count
        self._act = phone_episode(self._random, number, phones[number])
        return list(self._act.events)

    def _arrival(self) -> list[Event]:
        """Adds a new employee, or one who left long ago."""
        if self._random.random() < 0.3 and self._can_return():
            number = self._former_employees.pop(0)
        else:
            number, self._next_number = self._next_number, self._next_number + 1
        self.company.employees[number] = employee(self._random)
        return self._play(self._choose(ARRIVALS), self._employee(number, new=True))

    def _can_return(self) -> bool:
        return bool(self._former_employees) and self._is_idle(
            Subject("employee", self._former_employees[0])
        )

    def _leaving(self) -> list[Event]:
        number = self._choose_employee(leaving=True)
        episode = self._play(delete_row, self._employee(number))
        del self.company.employees[number]
        self._former_employees.append(number)
        return episode

    def _membership(self) -> list[Event]:
        """Changes a membership, or (one in six) ends it."""
        members = self.company.memberships
        while True:
            group, number = self._random.choice(self._members)
            if (group, number) in members and self._is_idle(Subject("membership", number, group)):
                break
        if self._random.random() < 1 / 6:
            episode = self._play(delete_row, self._member(group, number))
            del members[group, number]
            return episode
        return self._play(self._choose(PLAIN_CHANGES), self._member(group, number))

    def _new_membership(self) -> list[Event]:
        members = self.company.memberships
        while True:
            group, number = self._random.choice(GROUPS), self._random.choice(self._members)[1]
            subject = Subject("membership", number, group)
            if (group, number) not in members and self._is_idle(subject):
                break
        members[group, number] = membership(self._random)
        self._members.append((group, number))
        return self._play(insert_fields, self._member(group, number, new=True))

    def _view(self) -> list[Event]:
        while True:
            number = self._random.randrange(1, self._next_number)
            subject = Subject("view_employee", number)
            if number in self.company.employees and self._is_idle(subject):
                break
        row = self.company.employees[number]
        trigger = self._trigger(subject, view_key(number), row, VIEW_COLUMNS)
        return self._play(self._choose(PLAIN_CHANGES), trigger)

    def _excluded_event(self) -> list[Event]:
        return [excluded_event(self._row_count)]

    def _play(self, episode: Episode, trigger: Trigger) -> list[Event]:
        events = episode(trigger)
        self._act = act_of(trigger, events)
        return events

    def _choose(self, episodes: dict[Episode, int]) -> Episode:
        return self._random.choices(list(episodes), list(episodes.values()))[0]

    def _choose_employee(self, *, leaving: bool = False) -> int:
        """Chooses an employee without recent events."""
        while True:
            number = self._random.randrange(1, self._next_number)
            if leaving and can_be_member(number):
                continue
            if number in self.company.employees and self._is_idle(Subject("employee", number)):
                self._last_rows[Subject("employee", number)] = self._row_count
                return number

    def _is_idle(self, subject: Subject) -> bool:
        last = self._last_rows.get(subject)
        return last is None or self._row_count - last > EPISODE_DISTANCE

    def _employee(self, number: int, *, new: bool = False) -> Trigger:
        row = self.company.employees[number]
        subject = Subject("employee", number)
        return self._trigger(subject, employee_key(number), row, EMPLOYEE_COLUMNS, new=new)

    def _member(self, group: str, number: int, *, new: bool = False) -> Trigger:
        row = self.company.memberships[group, number]
        key = membership_key(group, number)
        subject = Subject("membership", number, group)
        return self._trigger(subject, key, row, MEMBERSHIP_COLUMNS, new=new)

    def _trigger(
        self, subject: Subject, key: str, row: Row, columns: tuple[str, ...], *, new: bool = False
    ) -> Trigger:
        self._last_rows[subject] = self._row_count
        return Trigger(self._random, subject, key, row, columns, new)
