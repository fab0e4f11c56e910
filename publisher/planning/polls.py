"""Polls: the unit of precedence and grouping of an event log, like a polling cycle of the driver.

Polls are counted in events: the rank of an event is its
place among the distinct usable record ids of the wanted status (``event_ranks``), or its
place by event time.
Each lane applies the other rules by itself: ranks are cut in blocks of ``poll_size``; an event
within ``poll_slack`` ranks of the previous event of the same object stays in that object's poll; a poll
holds at most ``poll_size`` events of one object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge

from publisher.model.change import Change, Object


@dataclass(frozen=True, slots=True)
class PollOptions:
    """Options for cutting an event log into polls."""

    poll_size: Annotated[int, Ge(1)] = 10_000
    """Number of events in one poll; the driver's query limit has the same default."""
    poll_slack: Annotated[int, Ge(0)] = 100
    """Maximum distance in events at which an event stays in the poll of the previous event of its
    object."""
    future_events: bool = False
    """Order events by time, and hold events that lie in the future."""


@dataclass(slots=True)
class ObjectPoll:
    """The changes of one object in one poll, in position order."""

    number: int
    object: Object
    changes: list[Change] = field(default_factory=list)
    repeats: int = 0
    """Number of changes that repeat a record; they do not count towards the size of the poll."""

    @property
    def first(self) -> Change:
        """The change that opened the poll of this object."""
        return self.changes[0]


_NONE: tuple[ObjectPoll, ...] = ()


class Polls:
    """Cuts the changes of one lane, given in rank order, into polls of objects.

    Holds the changes of at most one poll of the lane, and of the objects whose polls continue.
    """

    def __init__(self, options: PollOptions) -> None:
        self._size = options.poll_size
        self._slack = options.poll_slack
        self._open: dict[Object, ObjectPoll] = {}
        self._next_end = 0

    def add(self, change: Change) -> Sequence[ObjectPoll]:
        """Adds one change; returns the polls that it closes."""
        rank = change.rank
        closed = self.close_until(rank)
        number = (rank - 1) // self._size
        poll = self._open.get(change.object)
        if poll is not None and not self._belongs(change, number, poll):
            closed = [*closed, self._open.pop(change.object)]
            poll = None
        if poll is None:
            poll = self._open[change.object] = ObjectPoll(number, change.object)
            if len(self._open) == 1:
                self._next_end = self._end(poll, rank)
        poll.changes.append(change)
        return closed

    def close_until(self, rank: int) -> Sequence[ObjectPoll]:
        """Closes and returns the polls that end before this rank."""
        return self._close_oldest(rank) if rank >= self._next_end and self._open else _NONE

    def open_objects(self) -> Collection[Object]:
        """The objects whose polls are open."""
        return self._open.keys()

    def close_all(self) -> Iterator[ObjectPoll]:
        """Closes and returns all open polls at the end of the lane."""
        polls = list(self._open.values())
        self._open.clear()
        polls.reverse()
        while polls:  # the changes of planned polls need not stay in memory
            yield polls.pop()

    def oldest(self) -> Change | None:
        """The first change of the oldest open poll; ``None`` if no poll is open."""
        for poll in self._open.values():
            return poll.first
        return None

    def _belongs(self, change: Change, number: int, poll: ObjectPoll) -> bool:
        last = poll.changes[-1]
        if change.position == last.position:  # a repeated record never opens a poll
            poll.repeats += 1
            return True
        if len(poll.changes) - poll.repeats >= self._size:
            return False
        return number == poll.number or change.rank - last.rank <= self._slack

    def _end(self, poll: ObjectPoll, last_rank: int) -> int:
        """The first rank whose change would open a new poll of the object."""
        return max((poll.number + 1) * self._size + 1, last_rank + self._slack + 1)

    def _close_oldest(self, rank: int) -> list[ObjectPoll]:
        # Oldest first, up to the first poll that continues: documents are released in the order of
        # positions, so the documents of later polls would wait for this poll anyway.
        closed: list[ObjectPoll] = []
        for poll in self._open.values():
            self._next_end = self._end(poll, poll.changes[-1].rank)
            if rank < self._next_end:
                break
            closed.append(poll)
        for poll in closed:
            del self._open[poll.object]
        return closed
