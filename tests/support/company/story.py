"""The whole event log of the company, generated from a seed, with the expected counts of publishing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from random import Random

from publisher.model.change import Outcome, Reason
from tests.support.company.acts import Act, RowChange
from tests.support.company.author import Author
from tests.support.company.log import Event
from tests.support.company.opening import user_acts, user_stories
from tests.support.company.people import Company, company

SEED = 20260511
PEOPLE = 10_000
EVENTS = 30_000
PROCESSED = 2_000
"""Rows at the beginning that were processed before."""
FIRST_EVENT = datetime(2026, 5, 4, 6, 0, 0)  # noqa: DTZ001  the column has no zone; UTC is meant
RECORDED_FROM = datetime(2026, 5, 7, 6, 0, 0)  # noqa: DTZ001  as above
"""Time at which three more systems begin to record the changes of the same tables."""
NOW = "2026-05-11T00:00:00Z"
"""The clock: later than all events that have no future effective date."""

Counts = Mapping[tuple[Outcome, Reason | None], int]


@dataclass(frozen=True, slots=True)
class Story:
    """The final tables, and all rows of the event log in the order in which they were written."""

    company: Company
    events: list[Event]
    acts: list[Act]
    """Transactions that the other systems record, too, in the order of their commits: those of the four
    users, and those of the last day."""

    def counts(self, *, live: bool) -> Counts:
        """Counts rows by outcome and reason; ``live`` excludes processed rows, which are not read."""
        rows = (e for e in self.events if not (live and e.reason is Reason.STATUS))
        return Counter((e.outcome, e.reason) for e in rows)

    @property
    def unfinished(self) -> RowChange:
        """A change that is not committed when the recordings of the other systems end."""
        return self._change_title(1, "Acting Head")

    @property
    def rolled_back(self) -> RowChange:
        """A change that is rolled back."""
        return self._change_title(2, "Head")

    def _change_title(self, number: int, title: str) -> RowChange:
        row = self.company.employees[number]
        return RowChange("employee", (number,), row, {**row, "title": title})

    @property
    def superseded_id(self) -> int:
        """Record id of a superseded row."""
        superseded = (e for e in self.events if e.outcome is Outcome.SUPERSEDED)
        return next(e.record_id for e in superseded if e.table_name == "usr")

    @property
    def rejected_id(self) -> int:
        """Record id of a rejected row."""
        rejects = (e for e in self.events if e.outcome is Outcome.REJECTED)
        return next(e.record_id for e in rejects if e.reason is Reason.TABLE_KEY)


def write_story(events: int = EVENTS, people: int = PEOPLE) -> Story:
    """Invents the story; equal arguments always give the same story."""
    random = Random(SEED)
    author = Author(random, company(random, people), people)
    users = user_stories()
    processed = list(author.write(PROCESSED))
    pending = list(author.write(events - PROCESSED - len(users), wrong=True))
    log = [*_interleave(random, processed), *users, *_interleave(random, pending)]
    _stamp(random, log)
    for event in log[:PROCESSED]:
        event.status = random.choices("SWE", (96, 3, 1))[0]
        event.expect(Outcome.IGNORED, Reason.STATUS)
    for event in log:
        if event.lookup is not None and not author.exists(event.lookup):
            event.expect(Outcome.IGNORED, Reason.ROW_GONE)
    acts = [*user_acts(users), *_last_day(author.acts)]
    return Story(author.company, log, acts)


def _last_day(acts: Iterable[Act]) -> list[Act]:
    """Returns the transactions that began after the other systems had started to record."""
    recorded = [act for act in acts if all(_is_recorded(event) for event in act.events)]
    return sorted(recorded, key=lambda act: act.last_event.record_id)


def _is_recorded(event: Event) -> bool:
    return event.event_time is not None and event.event_time >= RECORDED_FROM


def _interleave(random: Random, episodes: Iterable[list[Event]]) -> Iterator[Event]:
    """Interleaves the events of four episodes at a time, like concurrent transactions."""
    remaining = iter(episodes)
    running = [list(episode) for episode in islice(remaining, 4)]
    while running:
        episode = random.choice(running)
        yield episode.pop(0)
        if not episode:
            running.remove(episode)
            running += [list(episode) for episode in islice(remaining, 1)]


def _stamp(random: Random, events: Iterable[Event]) -> None:
    """Assigns ascending record ids and times to the rows."""
    time, number = FIRST_EVENT, 0
    for event in events:
        time += timedelta(seconds=random.randrange(20))
        if event.repeats is not None:
            event.record_id, event.event_time = event.repeats.record_id, event.repeats.event_time
            continue
        if event.record_id == 0:
            number += 1
            event.record_id = number
        if event.event_time is None and not event.timeless:
            event.event_time = time
