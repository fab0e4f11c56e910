"""From changes to documents and decisions: what a run does with the changes of one lane.

Pure but for the look-up it is given: no Spark, no database.  In this order, for the changes of one
object in one poll (``ObjectPlan`` does the steps from 2 on):

1. filters: loopback, excluded tables and columns, events of the future (``filters``);
2. the same record again: ignored when identical, rejected when it differs;
3. ``--from`` and ``--until``; records whose values or names cannot go into a document, and those of
   transactions that are rejected as a whole (``held_back``);
4. precedence (``precedence``), then the look-up of query-backs;
5. grouping and rendering (``renderer``).

``Planner`` cuts the polls, collects look-ups over several of them, and gives documents in the order
of the positions of their first changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.model.change import (
    QUERY_BACK,
    Change,
    Decision,
    Document,
    Object,
    Outcome,
    Position,
    Reason,
)
from publisher.model.document_batches import Documents, Outbox
from publisher.planning.filters import Filter, Window
from publisher.planning.polls import ObjectPoll, PollOptions, Polls
from publisher.planning.precedence import settle
from publisher.planning.query_back import NO_DATABASE, Answer, LookedUp, Lookup
from publisher.planning.renderer import Prepared, Renderer
from publisher.planning.torn_transactions import RejectedTransactions

_KEYS_TO_ASK = 1_000
"""Objects of one look-up: one statement for a table."""
_DOCUMENTS_HELD = 20_000
_BYTES_HELD = 32 << 20
"""What may wait in memory behind objects that are still to be looked up."""


@dataclass(slots=True)
class Planned:
    """What planning gave: documents in position order, decisions in any order, answers."""

    documents: list[Documents] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lookups: list[LookedUp] = field(default_factory=list)


class Waiting(NamedTuple):
    """What precedence left of one object's poll; its row may still have to be looked up."""

    poll: ObjectPoll
    kept: list[Change]
    prepared: Prepared


class Planner:
    """Plans the changes of one lane of one source, given in position order."""

    def __init__(
        self,
        renderer: Renderer,
        filter_: Filter,
        *,
        polls: PollOptions | None = None,
        lookup: Lookup = NO_DATABASE,
        window: Window | None = None,
        rejected: RejectedTransactions | None = None,
    ) -> None:
        """Without ``polls`` every change is an operation by itself, as in formats whose records
        carry whole rows.  Without a ``lookup`` query-backs are rejected."""
        self._renderer = renderer
        self._filter = filter_
        self._polls = Polls(polls) if polls else None
        self._lookup = lookup
        self._window = window
        self._rejected = rejected
        self._planned = Planned()
        self._waiting: list[Waiting] = []
        self._bytes_waiting = 0
        self._outbox = Outbox()
        self._same: list[Change] = []
        """Without polls: changes of one position, which is a record that stands there again."""
        self._held_before = (0, 0)
        """Documents and bytes that were held when the first of ``_waiting`` came: those that an open
        poll holds back, which no look-up sets free."""

    def add(self, changes: Iterable[Change]) -> Planned:
        """Takes the next changes; gives what is ready."""
        if not self._filter.idle:
            changes = self._filtered(changes)
        if self._polls is None:
            for change in changes:
                if self._same and change.position != self._same[0].position:
                    self._close_same()
                self._same.append(change)
        else:
            for change in changes:
                for poll in self._polls.add(change):
                    self._close(poll)
        return self._take()

    def advance(self, rank: int) -> Collection[Object]:
        """Closes the polls that can get no change of this rank or a later one.

        Gives the objects whose poll is still open."""
        if self._polls is None:
            return ()
        for poll in self._polls.expired(rank):
            self._close(poll)
        return self._polls.open_objects()

    def take(self, documents: Iterable[Documents], singles: Iterable[tuple[int, Document]]) -> None:
        """Takes documents that were made elsewhere (``Outbox``)."""
        for batch in documents:
            self._outbox.add_batch(batch)
        for rank, document in singles:
            self._outbox.add(rank, document)
        if self._waiting and self._must_ask():
            self._ask()

    def finish(self) -> Planned:
        """Gives the rest when the lane has ended."""
        if self._polls is not None:
            for poll in self._polls.rest():
                self._close(poll)
        self._close_same()
        self._ask()
        return self._take()

    def _close_same(self) -> None:
        same, self._same = self._same, []
        if len(same) == 1:
            self._close(ObjectPoll(same[0].rank, same[0].object, same))
            return
        objects: dict[Object, list[Change]] = {}
        for change in same:
            objects.setdefault(change.object, []).append(change)
        for obj, changes in objects.items():
            self._close(ObjectPoll(changes[0].rank, obj, changes))

    def _filtered(self, changes: Iterable[Change]) -> Iterator[Change]:
        for change in changes:
            decision = self._filter.decision(change)
            if decision is None:
                yield change
            else:
                self._planned.decisions.append(decision)

    def _close(self, poll: ObjectPoll) -> None:
        changes = self._inside(self._distinct(poll.changes))
        prepared = self._renderer.prepare(changes)
        if prepared.problems:
            changes = self._without_problems(changes, prepared)
        if self._rejected is not None:
            changes = self._not_held_back(changes, self._rejected)
        kept, decisions = settle(changes, self._renderer.is_in_row)
        self._planned.decisions += decisions
        if QUERY_BACK.isdisjoint([change.event_type for change in kept]):
            self._render(Waiting(poll, kept, prepared), None)
        else:
            self._wait(Waiting(poll, kept, prepared))
        if self._waiting and self._must_ask():
            self._ask()

    def _wait(self, entry: Waiting) -> None:
        if not self._waiting:
            self._held_before = (self._outbox.count, self._outbox.bytes)
        self._waiting.append(entry)
        if entry.prepared.pieces:
            pieces = entry.prepared.pieces.values()
            self._bytes_waiting += sum([len(text) for piece in pieces for text in piece.attributes])

    def _distinct(self, changes: list[Change]) -> list[Change]:
        """Without the records that stand there twice."""
        if len(changes) == 1 or len({change.position for change in changes}) == len(changes):
            return changes
        first: dict[Position, Change] = {}
        for change in sorted(changes, key=_by_content):
            known = first.setdefault(change.position, change)
            if known is change:
                continue
            if _content(known) == _content(change):
                decision = Decision(change.row, Outcome.IGNORED, Reason.DUPLICATE, by=known.row)
            else:
                decision = self._renderer.rejected(
                    change,
                    Reason.DOUBLE_RECORD,
                    f"record {self._renderer.position_text(change)} stands twice for this object, "
                    "with different content: keep the one that is true",
                )._replace(by=known.row)
            self._planned.decisions.append(decision)
        return sorted(first.values(), key=_by_rank)

    def _inside(self, changes: list[Change]) -> list[Change]:
        """Without the changes that are out of range."""
        if self._window is None:
            return changes
        inside: list[Change] = []
        for change in changes:
            if change in self._window:
                inside.append(change)
            else:
                decision = Decision(change.row, Outcome.IGNORED, Reason.OUT_OF_RANGE)
                self._planned.decisions.append(decision)
        return inside

    def _without_problems(self, changes: list[Change], prepared: Prepared) -> list[Change]:
        """Without the changes that cannot be written."""
        for change in changes:
            problem = prepared.problems.get(change.row)
            if problem is not None:
                self._planned.decisions.append(
                    self._renderer.rejected(change, problem.reason, problem.detail)
                )
        return [change for change in changes if change.row not in prepared.problems]

    def _not_held_back(self, changes: list[Change], rejected: RejectedTransactions) -> list[Change]:
        """Without the changes whose transaction is rejected as a whole."""
        left: list[Change] = []
        for change in changes:
            cause = rejected.cause(change)
            if cause is None:
                left.append(change)
                continue
            reason, detail = cause.reason, cause.detail
            if change.position != cause.position:
                where = self._renderer.position_of(cause.position)
                reason = Reason.HELD_BACK
                detail = f"{rejected.unit} is rejected as one: its record {where}: {detail}"
            self._planned.decisions.append(self._renderer.rejected(change, reason, detail))
        return left

    def _must_ask(self) -> bool:
        documents, held = self._held_before
        return (
            len(self._waiting) >= _KEYS_TO_ASK
            or self._outbox.count - documents >= _DOCUMENTS_HELD
            or self._outbox.bytes - held + self._bytes_waiting >= _BYTES_HELD
        )

    def _ask(self) -> None:
        """Looks up the rows of all that waits, and renders it."""
        waiting, self._waiting, self._bytes_waiting = self._waiting, [], 0
        if not waiting:
            return
        objects = list(dict.fromkeys(entry.poll.object for entry in waiting))
        answers = self._lookup.answers(objects)
        for entry in waiting:
            obj = entry.poll.object
            self._planned.lookups.append(LookedUp(obj, entry.poll.number, answers[obj]))
            self._render(entry, answers[obj])

    def _render(self, entry: Waiting, answer: Answer) -> None:
        rendered = self._renderer.render(*entry, answer)
        self._planned.decisions += rendered.decisions
        for rank, document in rendered.documents:
            self._outbox.add(rank, document)

    def _take(self) -> Planned:
        """All that is ready: documents up to the first change that is still open."""
        if not self._waiting and self._outbox.count:
            oldest = self._polls.oldest() if self._polls is not None else None
            before = None if oldest is None else (oldest.rank, oldest.position)
            self._planned.documents += self._outbox.take(before)
        planned, self._planned = self._planned, Planned()
        return planned


def _content(change: Change) -> tuple[object, ...]:
    """What must be equal in two readings of the same record."""
    return change._replace(row=0, rank=0)


def _by_rank(change: Change) -> tuple[int, Position]:
    return change.rank, change.position


def _by_content(change: Change) -> tuple[Position, str]:
    # which of two records at one position counts must not depend on how files were cut, as ranks by
    # event time do: a total order of content
    return change.position, repr(_content(change))
