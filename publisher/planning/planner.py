"""Plans the changes of one lane: documents, and a decision for each change without a document.

Pure except for the look-up: no Spark, no database.  The steps for the changes of one object in one poll:

1. filters: loopback, excluded tables and columns, future events (``filters``);
2. repeated records: ignored if identical, rejected if they differ;
3. ``--from`` and ``--until``; values and names that cannot go into a document; transactions that are
   rejected as a whole (``torn_transactions``);
4. precedence (``precedence``), then the look-up of query-backs;
5. grouping and rendering (``renderer``).

``Planner`` cuts the polls, collects look-ups over several polls, and returns documents in the order
of the positions of their first changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.model.change import (
    QUERY_BACK,
    Change,
    Decision,
    EventType,
    Object,
    Outcome,
    Position,
    Reason,
)
from publisher.model.document_batches import Documents, Outbox
from publisher.model.key_changes import KeyHistory
from publisher.model.published_objects import PublishedObjects
from publisher.planning.deletes import Deletes
from publisher.planning.drafts import Draft
from publisher.planning.filters import Filter, Window
from publisher.planning.joined_keys import join_key_changes
from publisher.planning.minimal_drafts import MinimalDrafts, place_of
from publisher.planning.polls import ObjectPoll, PollOptions, Polls
from publisher.planning.precedence import apply_precedence
from publisher.planning.query_back import (
    Answer,
    ObjectLookup,
    RowLookups,
)
from publisher.planning.renderer import PreparedPoll, Renderer
from publisher.planning.row_readers import NO_ROWS, RowAnswers, RowQuestion, needed_columns
from publisher.planning.torn_transactions import RejectedTransactions

_OBJECTS_AT_ONCE = 1_000
"""Maximum number of objects in one look-up, which is one statement for each table."""
DOCUMENTS_HELD = 20_000
BYTES_HELD = 32 << 20
"""Limits of the documents that wait in memory until look-ups of earlier objects are done."""


@dataclass(slots=True)
class PlanResult:
    """The result of planning: documents in position order, decisions in any order, look-ups."""

    documents: list[Documents] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    lookups: list[ObjectLookup | RowLookups] = field(default_factory=list)


class PendingPoll(NamedTuple):
    """Changes of an object's poll after precedence; the look-up of ``row`` may be outstanding.

    ``row`` is the object under the key that it has after all changes of its key."""

    poll: ObjectPoll
    remaining: list[Change]
    prepared: PreparedPoll
    row: Object

    def question(self) -> RowQuestion:
        """Asks for the row."""
        return RowQuestion(self.row, needed_columns(self.remaining))


class Planner:
    """Plans the changes of one lane of one source, given in position order."""

    def __init__(
        self,
        renderer: Renderer,
        filter_: Filter,
        *,
        polls: PollOptions | None = None,
        rows: RowAnswers = NO_ROWS,
        window: Window | None = None,
        rejected: RejectedTransactions | None = None,
        history: KeyHistory | None = None,
        published: PublishedObjects | None = None,
    ) -> None:
        """Without ``polls`` every change is an operation by itself, as in formats whose records
        hold whole rows.  Without ``rows`` query-backs are rejected.  ``history`` has the changes of keys
        that a survey of the input has found.  With ``published`` operations are reduced to their differences
        from it."""
        self._renderer = renderer
        self._filter = filter_
        self._polls = Polls(polls) if polls else None
        self._rows = rows
        self._window = window
        self._rejected = rejected
        self._history = history or KeyHistory()
        self._last_key_changes: dict[Object, list[Change]] = {}
        """See ``JoinedChanges.last``; for compound keys only."""
        self.deletes = Deletes(self._history, renderer, by_transaction=polls is None)
        """The deleted objects whose children may still be updated."""
        self._result = PlanResult()
        self._waiting: list[PendingPoll] = []
        self._bytes_waiting = 0
        self._outbox = Outbox()
        self._minimal = None if published is None else MinimalDrafts(renderer, published)
        self._repeats: list[Change] = []
        """Without polls: the changes of one position, which are repetitions of one record."""
        self._held_before = (0, 0)
        """Number and bytes of the documents that waited already when the first of ``_waiting`` was added.
        An open poll holds these documents back, so a look-up would not release them."""

    def add(self, changes: Iterable[Change]) -> PlanResult:
        """Adds the next changes; returns the finished part of the plan."""
        if not self._filter.passes_all:
            changes = self._apply_filter(changes)
        if self._polls is None:
            for change in changes:
                if self._repeats and change.position != self._repeats[0].position:
                    self._close_repeats()
                self._repeats.append(change)
        else:
            for change in changes:
                for poll in self._polls.add(change):
                    self.close_poll(poll)
        return self._take()

    def advance(self, rank: int) -> Collection[Object]:
        """Closes the polls that end before this rank; returns the objects whose polls stay open."""
        if self._polls is None:
            return ()
        for poll in self._polls.close_until(rank):
            self.close_poll(poll)
        return self._polls.open_objects()

    def take(self, rank: int) -> PlanResult:
        """Returns the plan before this rank; all documents and changes before it must have been added."""
        self.advance(rank)
        self._look_up()
        return self._take(rank)

    def waiting_keys(self) -> list[str]:
        """The keys of objects whose published states depend on changes that wait, with minimal modifies."""
        waiting = [entry.poll.object.key for entry in self._waiting]
        return [] if self._minimal is None else [*waiting, *self._minimal.keys()]

    def add_documents(self, documents: Iterable[Documents], drafts: Iterable[Draft]) -> None:
        """Adds documents of the columnar planner (see ``Outbox``)."""
        for batch in documents:
            self._outbox.add_batch(batch)
        self._add_drafts(drafts)
        if self._waiting and self._must_look_up():
            self._look_up()

    def finish(self) -> PlanResult:
        """Closes all polls at the end of the lane; returns the remaining plan."""
        if self._polls is not None:
            for poll in self._polls.close_all():
                self.close_poll(poll)
        self._close_repeats()
        self._look_up()
        return self._take()

    def _close_repeats(self) -> None:
        repeats, self._repeats = self._repeats, []
        if len(repeats) == 1:
            self.close_poll(ObjectPoll(repeats[0].rank, repeats[0].object, repeats))
            return
        objects: dict[Object, list[Change]] = {}
        for change in repeats:
            objects.setdefault(change.object, []).append(change)
        for obj, changes in objects.items():
            self.close_poll(ObjectPoll(changes[0].rank, obj, changes))

    def _apply_filter(self, changes: Iterable[Change]) -> Iterator[Change]:
        for change in changes:
            decision = self._filter.decision(change)
            if decision is None:
                yield change
            else:
                self._result.decisions.append(decision)
                if self._minimal is not None and decision.reason is Reason.LOOPBACK:
                    self._minimal.add_loopback(change)

    def close_poll(self, poll: ObjectPoll) -> None:
        """Plans the changes of one object in one poll; query-backs wait for a look-up of several polls."""
        changes = self._drop_out_of_range(self._drop_repeats(poll.changes))
        changes, first_rows = self._join_key_changes(changes)
        prepared = self._renderer.prepare(changes)
        if prepared.problems:
            changes = self._reject_problems(changes, prepared)
        if self._rejected is not None:
            changes = self._reject_torn(changes, self._rejected)
        changes, ignored = self.deletes.ignore_after(changes)
        self._result.decisions += ignored
        remaining, decisions = apply_precedence(changes, self._renderer.is_in_row)
        self._result.decisions += decisions
        for part in _parts(remaining, first_rows):
            row = self._history.follow(poll.object, part[-1])
            entry = PendingPoll(poll, part, prepared, row)
            if QUERY_BACK.isdisjoint([change.event_type for change in part]):
                self._render(entry, None)
            else:
                self._postpone(entry)
        if self._waiting and self._must_look_up():
            self._look_up()

    def _join_key_changes(self, changes: list[Change]) -> tuple[list[Change], dict[int, int]]:
        """Joins changes of several columns of a key; rejects those that cannot be joined.

        Also returns the row of the first record of each joined change by the rows of all of its records."""
        obj = changes[0].object if changes else None
        if obj is None or self._polls is None or "+" not in obj.key:
            return changes, {}
        last = self._last_key_changes.pop(obj, [])
        if not last and EventType.KEY_CHANGE not in [c.event_type for c in changes]:
            return changes, {}
        joined = join_key_changes(changes, self._history, last)
        if joined.last:
            self._last_key_changes[obj] = joined.last
        remaining = []
        for change in joined.changes:
            divided = joined.divided.get(change.row)
            if divided is None:
                remaining.append(change)
                continue
            first, second = map(self._renderer.position_text, divided)
            detail = (
                f"records {first} and {second} change columns of the key {change.object.key} and are no "
                "neighbours: log all columns of the key one after the other, before the other columns"
            )
            self._result.decisions.append(self._renderer.reject(change, Reason.KEY_CHANGE, detail))
        return remaining, joined.first_rows

    def _postpone(self, entry: PendingPoll) -> None:
        if not self._waiting:
            self._held_before = self._pending()
        self._waiting.append(entry)
        if entry.prepared.pieces:
            pieces = entry.prepared.pieces.values()
            self._bytes_waiting += sum([len(text) for piece in pieces for text in piece.attributes])

    def _drop_repeats(self, changes: list[Change]) -> list[Change]:
        """Drops repeated records and decides on them."""
        if len(changes) == 1 or len({change.position for change in changes}) == len(changes):
            return changes
        first: dict[Position, Change] = {}
        for change in sorted(changes, key=_by_content):
            original = first.setdefault(change.position, change)
            if original is change:
                continue
            if _content(original) == _content(change):
                decision = Decision(change.row, Outcome.IGNORED, Reason.DUPLICATE, by=original.row)
            else:
                decision = self._renderer.reject(
                    change,
                    Reason.DOUBLE_RECORD,
                    f"record {self._renderer.position_text(change)} appears twice for this object, "
                    "with different content: keep the correct one",
                )._replace(by=original.row)
            self._result.decisions.append(decision)
        return sorted(first.values(), key=_by_rank)

    def _drop_out_of_range(self, changes: list[Change]) -> list[Change]:
        """Drops changes outside ``--from`` and ``--until`` and decides on them."""
        if self._window is None:
            return changes
        inside: list[Change] = []
        for change in changes:
            if change in self._window:
                inside.append(change)
            else:
                decision = Decision(change.row, Outcome.IGNORED, Reason.OUT_OF_RANGE)
                self._result.decisions.append(decision)
        return inside

    def _reject_problems(self, changes: list[Change], prepared: PreparedPoll) -> list[Change]:
        """Drops changes that cannot be rendered and rejects them."""
        for change in changes:
            problem = prepared.problems.get(change.row)
            if problem is not None:
                self._result.decisions.append(
                    self._renderer.reject(change, problem.reason, problem.detail)
                )
        return [change for change in changes if change.row not in prepared.problems]

    def _reject_torn(self, changes: list[Change], rejected: RejectedTransactions) -> list[Change]:
        """Drops the changes of rejected transactions and rejects them."""
        remaining: list[Change] = []
        for change in changes:
            cause = rejected.cause(change)
            if cause is None:
                remaining.append(change)
                continue
            reason, detail = cause.reason, cause.detail
            if change.position != cause.position:
                where = self._renderer.position_of(cause.position)
                reason = Reason.HELD_BACK
                detail = f"{rejected.unit} is rejected as a whole: its record {where}: {detail}"
            self._result.decisions.append(self._renderer.reject(change, reason, detail))
        return remaining

    def _must_look_up(self) -> bool:
        (documents, held), (documents_before, held_before) = self._pending(), self._held_before
        return (
            len(self._waiting) >= _OBJECTS_AT_ONCE
            or documents - documents_before >= DOCUMENTS_HELD
            or held - held_before + self._bytes_waiting >= BYTES_HELD
        )

    def _pending(self) -> tuple[int, int]:
        """Number and bytes of the documents that are not taken yet."""
        if self._minimal is None:
            return self._outbox.count, self._outbox.bytes
        return self._outbox.count + self._minimal.count, self._outbox.bytes + self._minimal.bytes

    def _look_up(self) -> None:
        """Looks up the rows of all waiting polls and renders the polls."""
        waiting, self._waiting, self._bytes_waiting = self._waiting, [], 0
        if not waiting:
            return
        answers = self._rows.answers([entry.question() for entry in waiting])
        for entry, answer in zip(waiting, answers, strict=True):
            obj, row = entry.poll.object, entry.row
            row_key = None if row == obj else row.key
            self._result.lookups.append(ObjectLookup(obj, entry.poll.number, answer, row_key))
            self._render(entry, answer)

    def _render(self, entry: PendingPoll, answer: Answer) -> None:
        rendered = self._renderer.render(entry.poll, entry.remaining, entry.prepared, answer)
        self._result.decisions += rendered.decisions
        self._add_drafts(rendered.drafts)

    def _add_drafts(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            if self._minimal is not None:
                self._minimal.add(draft)
            else:
                self._outbox.add(draft.first.rank, self._renderer.document(draft))

    def _take(self, end: int | None = None) -> PlanResult:
        """Returns the finished plan: documents before the first change of an open poll, and before a rank."""
        if not self._waiting and any(self._pending()):
            oldest = self._polls.oldest() if self._polls is not None else None
            before = None if oldest is None else place_of(oldest)
            if end is not None:
                place = ("", end, Position("", -1, -1, -1))
                before = place if before is None else min(before, place)
            if self._minimal is not None:
                for rank, document, decisions in self._minimal.settle(before):
                    self._result.decisions += decisions
                    if document is not None:
                        self._outbox.add(rank, document)
            self._result.documents += self._outbox.take(before)
        result, self._result = self._result, PlanResult()
        return result


def _parts(changes: list[Change], first_rows: Mapping[int, int]) -> Iterator[list[Change]]:
    """Divides the changes of an object at changes of its key, each of which is a part by itself.

    ``first_rows`` has the row of the first record of a change for each of its records."""
    part: list[Change] = []
    for change in changes:
        if part and EventType.KEY_CHANGE in (part[-1].event_type, change.event_type):
            rows = (part[-1].row, change.row)
            if len({first_rows.get(row, row) for row in rows}) > 1:
                yield part
                part = []
        part.append(change)
    if part:
        yield part


def _content(change: Change) -> tuple[object, ...]:
    """Content that must be equal in repetitions of one record."""
    return change._replace(row=0, rank=0)


def _by_rank(change: Change) -> tuple[int, Position]:
    return change.rank, change.position


def _by_content(change: Change) -> tuple[Position, str]:
    # Of several records at one position, the first by content counts, not the first by rank: ranks by event
    # time depend on the splits.
    return change.position, repr(_content(change))
