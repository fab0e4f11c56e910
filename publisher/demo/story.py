"""The whole event log of the demo, made from a seed, with the counts that publishing it must give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from publisher.demo.acts import Act, RowChange
from publisher.demo.author import Author
from publisher.demo.log import Event
from publisher.demo.opening import SUPERSEDED_USER, user_acts, user_stories
from publisher.demo.people import Company, company
from publisher.model.change import Outcome, Reason

SEED = 20260511
PEOPLE = 10_000
EVENTS = 30_000
PROCESSED = 2_000
"""Rows at the beginning that were processed before."""
FIRST_EVENT = datetime(2026, 5, 4, 6, 0, 0)  # noqa: DTZ001  the column has no zone; UTC is meant
RECORDED_FROM = datetime(2026, 5, 7, 6, 0, 0)  # noqa: DTZ001  as above
"""From then on three more systems record what happens to the same tables."""
NOW = "2026-05-11T00:00:00Z"
"""The demo's clock: after all events but those with an effective date to come."""

Counts = Mapping[tuple[Outcome, Reason | None], int]


@dataclass(frozen=True, slots=True)
class Story:
    """The final tables, and all rows of the event log in the order of writing."""

    company: Company
    events: list[Event]
    acts: list[Act]
    """Transactions that others record too, in the order of their ends: those of the four users, and
    the last day's."""

    def counts(self, *, live: bool) -> Counts:
        """Rows by outcome and reason.  A live reading does not see rows that were processed."""
        rows = (e for e in self.events if not (live and e.reason is Reason.STATUS))
        return Counter((e.outcome, e.reason) for e in rows)

    @property
    def unfinished(self) -> RowChange:
        """A change that is not committed when the other records end."""
        return self._change_title(1, "Acting Head")

    @property
    def undone(self) -> RowChange:
        """A change that is rolled back."""
        return self._change_title(2, "Head")

    def _change_title(self, number: int, title: str) -> RowChange:
        row = self.company.employees[number]
        return RowChange("employee", (number,), row, {**row, "title": title})

    @property
    def superseded(self) -> int:
        """Record id of a change that another one superseded."""
        return self.events[PROCESSED + SUPERSEDED_USER].record_id

    @property
    def rejected(self) -> int:
        """Record id of a row that is rejected."""
        rejects = (e for e in self.events if e.outcome is Outcome.REJECTED)
        return next(e.record_id for e in rejects if e.reason is Reason.TABLE_KEY)


def tell(events: int = EVENTS, people: int = PEOPLE) -> Story:
    """The story; equal arguments always give the same one."""
    random = Random(SEED)  # noqa: S311  not for secrets
    author = Author(random, company(random, people), people)
    users = user_stories()
    processed = list(author.write(PROCESSED))
    rest = list(author.write(events - PROCESSED - len(users), wrong=True))
    log = [*_interleave(random, processed), *users, *_interleave(random, rest)]
    _stamp(random, log)
    for event in log[:PROCESSED]:
        event.status = random.choices("SWE", (96, 3, 1))[0]
        event.must(Outcome.IGNORED, Reason.STATUS)
    for event in log:
        if event.lookup is not None and not author.exists(event.lookup):
            event.must(Outcome.IGNORED, Reason.ROW_GONE)
    acts = [*user_acts(users), *_last_day(author.acts)]
    return Story(author.company, log, acts)


def _last_day(acts: Iterable[Act]) -> list[Act]:
    """Transactions that ended when the others had begun to record."""
    late = [act for act in acts if all(_late(event) for event in act.events)]
    return sorted(late, key=lambda act: act.last.record_id)


def _late(event: Event) -> bool:
    return event.event_time is not None and event.event_time >= RECORDED_FROM


def _interleave(random: Random, episodes: Iterable[list[Event]]) -> Iterator[Event]:
    """Interleaves the events of four episodes at a time, like concurrent transactions."""
    waiting = iter(episodes)
    running = [list(e) for _, e in zip(range(4), waiting, strict=False)]
    while running:
        chosen = random.choice(running)
        yield chosen.pop(0)
        if not chosen:
            running.remove(chosen)
            running += [list(e) for _, e in zip(range(1), waiting, strict=False)]


def _stamp(random: Random, events: Iterable[Event]) -> None:
    """Gives the rows record ids and times, both ascending."""
    moment, number = FIRST_EVENT, 0
    for event in events:
        moment += timedelta(seconds=random.randrange(20))
        if event.repeats is not None:
            event.record_id, event.event_time = event.repeats.record_id, event.repeats.event_time
            continue
        if event.record_id == 0:
            number += 1
            event.record_id = number
        if event.event_time is None and not event.timeless:
            event.event_time = moment
