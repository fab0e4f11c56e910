"""From changes to documents and decisions: what a run does with the changes of one lane.

Pure but for the look-up it is given: no Spark, no database.  In this order, for the changes of one
object in one poll (``ObjectPlan`` does the steps from 2 on):

1. filters: loopback, excluded tables and columns, events of the future (``filters``);
2. the same record again: ignored when identical, rejected when it differs;
3. ``--from`` and ``--until``; records whose values or names cannot go into a document;
4. precedence (``precedence``), then the look-up of query-backs;
5. grouping and rendering (``renderer``).

``Planner`` cuts the polls, collects look-ups over several of them, and gives documents in the order
of the positions of their first changes.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from publisher.change import (
    QUERY_BACK,
    Change,
    Decision,
    Document,
    Object,
    Outcome,
    Position,
    Reason,
)
from publisher.filters import Filter, Window
from publisher.polls import ObjectPoll, PollOptions, Polls
from publisher.precedence import settle
from publisher.query_back import Answer, Lookup
from publisher.renderer import Prepared, Renderer

_KEYS_TO_ASK = 1_000
"""Objects of one look-up: one statement for a table."""
_DOCUMENTS_HELD = 20_000
_BYTES_HELD = 32 << 20
"""What may wait in memory behind objects that are still to be looked up."""


_PLACE = itemgetter(0, 1, 2)


class LookedUp(NamedTuple):
    """An object that was looked up, and the answer."""

    object: Object
    poll: int
    answer: Answer


@dataclass(slots=True)
class Planned:
    """What planning gave: documents in position order, decisions in any order, answers."""

    documents: list[Document] = field(default_factory=list)
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
        lookup: Lookup | None = None,
        window: Window | None = None,
    ) -> None:
        """Without ``polls`` every change is an operation by itself, as in formats whose records
        carry whole rows.  Without ``lookup`` query-backs are rejected."""
        self._renderer = renderer
        self._filter = filter_
        self._polls = Polls(polls) if polls else None
        self._lookup = lookup
        self._window = window
        self._planned = Planned()
        self._waiting: list[Waiting] = []
        self._bytes_waiting = 0
        self._ordered: list[tuple[int, Position, str, Document]] = []
        """Rank and position of the first change, association (a record_id may be there once for each of
        two objects), document."""
        self._bytes_held = 0
        self._held_before = (0, 0)
        """Documents and bytes that were held when the first of ``_waiting`` came: those that an open
        poll holds back, which no look-up sets free."""

    def add(self, changes: Iterable[Change]) -> Planned:
        """Takes the next changes; gives what is ready."""
        if not self._filter.idle:
            changes = self._filtered(changes)
        if self._polls is None:
            for change in changes:
                self._close(ObjectPoll(change.rank, change.object, [change]))
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

    def take(self, documents: Iterable[tuple[int, Document]]) -> None:
        """Takes documents that were made elsewhere, each with the rank of its first change."""
        for rank, document in documents:
            self._ordered.append((rank, document.position, document.association, document))
            self._bytes_held += len(document.text)
        if self._waiting and self._must_ask():
            self._ask()

    def finish(self) -> Planned:
        """Gives the rest when the lane has ended."""
        if self._polls is not None:
            for poll in self._polls.rest():
                self._close(poll)
        self._ask()
        return self._take()

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
        kept, decisions = settle(changes)
        self._planned.decisions += decisions
        if QUERY_BACK.isdisjoint([change.event_type for change in kept]):
            self._render(Waiting(poll, kept, prepared), None)
        else:
            self._wait(Waiting(poll, kept, prepared))
        if self._waiting and self._must_ask():
            self._ask()

    def _wait(self, entry: Waiting) -> None:
        if not self._waiting:
            self._held_before = (len(self._ordered), self._bytes_held)
        self._waiting.append(entry)
        self._bytes_waiting += sum(
            [len(piece.attributes) for piece in entry.prepared.pieces.values()]
        )

    def _distinct(self, changes: list[Change]) -> list[Change]:
        """Without the records that stand there twice."""
        if len({change.position for change in changes}) == len(changes):
            return changes
        first: dict[Position, Change] = {}
        for change in sorted(changes, key=_by_content):
            known = first.setdefault(change.position, change)
            if known is change:
                continue
            if _content(known) == _content(change):
                decision = Decision(change.row, Outcome.IGNORED, Reason.DUPLICATE, by=known.row)
            else:
                decision = rejected(
                    change,
                    Reason.DOUBLE_RECORD,
                    f"record {change.position.text()} stands twice for this object, with different "
                    "content: keep the one that is true",
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
                self._planned.decisions.append(rejected(change, problem.reason, problem.detail))
        return [change for change in changes if change.row not in prepared.problems]

    def _must_ask(self) -> bool:
        documents, held = self._held_before
        return (
            len(self._waiting) >= _KEYS_TO_ASK
            or len(self._ordered) - documents >= _DOCUMENTS_HELD
            or self._bytes_held - held + self._bytes_waiting >= _BYTES_HELD
        )

    def _ask(self) -> None:
        """Looks up the rows of all that waits, and renders it."""
        waiting, self._waiting, self._bytes_waiting = self._waiting, [], 0
        if not waiting:
            return
        objects = list(dict.fromkeys(entry.poll.object for entry in waiting))
        answers = self._lookup.answers(objects) if self._lookup is not None else None
        for entry in waiting:
            if answers is None:
                self._render(self._without_query_backs(entry), None)
            else:
                obj = entry.poll.object
                self._planned.lookups.append(LookedUp(obj, entry.poll.number, answers[obj]))
                self._render(entry, answers[obj])

    def _without_query_backs(self, entry: Waiting) -> Waiting:
        rest: list[Change] = []
        for change in entry.kept:
            if change.event_type not in QUERY_BACK:
                rest.append(change)
                continue
            detail = (
                f"event type {change.event_type} reads the current row and no database is set: "
                "give --database URL or [database] url"
            )
            self._planned.decisions.append(rejected(change, Reason.NO_DATABASE, detail))
        return entry._replace(kept=rest)

    def _render(self, entry: Waiting, answer: Answer) -> None:
        rendered = self._renderer.render(*entry, answer)
        self._planned.decisions += rendered.decisions
        for rank, document in rendered.documents:
            self._ordered.append((rank, document.position, document.association, document))
            self._bytes_held += len(document.text)

    def _take(self) -> Planned:
        """All that is ready: documents up to the first change that is still open."""
        if not self._waiting and self._ordered:
            self._ordered.sort(key=_PLACE)
            oldest = self._polls.oldest() if self._polls is not None else None
            ready = len(self._ordered)
            if oldest is not None:
                ready = bisect_left(self._ordered, (oldest.rank, oldest.position), key=_PLACE)
            documents = [document for *_, document in self._ordered[:ready]]
            del self._ordered[:ready]
            self._planned.documents += documents
            self._bytes_held -= sum([len(document.text) for document in documents])
        planned, self._planned = self._planned, Planned()
        return planned


def rejected(change: Change, reason: Reason, detail: str) -> Decision:
    """The decision that rejects a change, with the change as its raw record."""
    record = change._asdict() | {"object": change.object._asdict()}
    record["position"] = change.position.text()
    del record["row"], record["rank"]
    raw = json.dumps(record, ensure_ascii=False)
    return Decision(change.row, Outcome.REJECTED, reason, detail=detail, raw=raw)


def _content(change: Change) -> tuple[object, ...]:
    """What must be equal in two readings of the same record."""
    return change._replace(row=0, rank=0)


def _by_rank(change: Change) -> tuple[int, Position]:
    return change.rank, change.position


def _by_content(change: Change) -> tuple[Position, str]:
    # which of two records at one position counts must not depend on how files were cut, as ranks by
    # event time do: a total order of content
    return change.position, repr(_content(change))


__all__ = ["LookedUp", "Planned", "Planner", "rejected"]
