"""Reduces drafts of documents to their differences from the published state, in the order of publishing.

A poll may be rendered before an earlier one: look-ups wait, and another object may take over a key.  So
drafts wait until no earlier one can follow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from publisher.model.change import Change, Decision, Document, Outcome, Position, Reason
from publisher.model.published_objects import UNKNOWN, PublishedObjects
from publisher.planning.drafts import Draft, OperationPiece
from publisher.planning.minimal import ObjectOperation, publish_difference
from publisher.planning.renderer import Renderer
from publisher.xds.value_edits import read_edits

Place = tuple[str, int, Position]
"""Part, rank and position of a change: in some formats ranks begin again in each part."""


class SettledDraft(NamedTuple):
    """The document of a reduced draft with the rank of its first change, and decisions on its other changes.

    There is no document if nothing has changed."""

    rank: int
    document: Document | None
    decisions: list[Decision]


class MinimalDrafts:
    """The drafts of one lane that wait for their turn."""

    def __init__(self, renderer: Renderer, objects: PublishedObjects) -> None:
        self._renderer = renderer
        self._drafts: list[Draft] = []
        self._objects = _LoopbackObjects(objects)
        self._size = 0

    @property
    def count(self) -> int:
        """Number of waiting drafts, and of loopback changes."""
        return len(self._drafts) + self._objects.count

    @property
    def bytes(self) -> int:
        """Size of the attributes of drafts in characters."""
        return self._size

    def keys(self) -> Iterator[str]:
        """The keys of the objects of waiting drafts and loopback changes."""
        yield from [draft.poll.object.key for draft in self._drafts]
        yield from self._objects.keys

    def add(self, draft: Draft) -> None:
        """Adds a draft."""
        self._drafts.append(draft)
        self._size += _size_of(draft)

    def add_loopback(self, change: Change) -> None:
        """Makes the state of an object unknown after a change that the consumer has made itself."""
        for name in self._renderer.associations(change):
            self._objects.add(place_of(change), name, change.object.key)

    def settle(self, before: Place | None) -> Iterator[SettledDraft]:
        """Removes and reduces the drafts before a place, or all, in order."""
        self._drafts.sort(key=_place)
        ready = len(self._drafts)
        if before is not None:
            ready = bisect_left(self._drafts, before, key=_place)
        drafts = self._drafts[:ready]
        del self._drafts[:ready]
        self._objects.prefetch([draft.association for draft in drafts])
        for draft in drafts:
            self._size -= _size_of(draft)
            last = draft.operations[-1][-1].change
            self._objects.forget(_place(draft))
            self._objects.forget_object(draft.association, place_of(last))
            yield self._reduce(draft)
        self._objects.forget(before)

    def _reduce(self, draft: Draft) -> SettledDraft:
        decisions: list[Decision] = []
        operations: list[list[OperationPiece]] = []
        for group in draft.operations:
            remaining = []
            for piece in group:
                reduced = self._minimize(draft.association, piece)
                if reduced is not None:
                    remaining.append(reduced)
                else:
                    row = piece.change.row
                    decisions.append(Decision(row, Outcome.IGNORED, Reason.UNCHANGED))
            if remaining:
                operations.append(remaining)
        if not operations:
            return SettledDraft(draft.first.rank, None, decisions)
        draft = draft._replace(operations=operations)
        document = self._renderer.document(draft)
        if not self._objects.accepts(len(document.text.encode())):
            self._objects.put(document.association, UNKNOWN)
            if document.new_association is not None:
                self._objects.put(document.new_association, UNKNOWN)
        return SettledDraft(draft.first.rank, document, decisions)

    def _minimize(self, association: str, piece: OperationPiece) -> OperationPiece | None:
        """Reduces a piece and updates the state of its object; ``None`` if nothing has changed."""
        inserts_row = piece.kind == "add" and self._renderer.inserts_row(piece.change)
        operation = ObjectOperation(piece.kind, read_edits(piece.attributes), inserts_row)
        attributes = publish_difference(
            self._objects, association, operation, piece.new_association
        )
        return None if attributes is None else piece._replace(attributes=attributes)


class _LoopbackObjects:
    """Published states, which are unknown after changes that consumers have made themselves."""

    def __init__(self, objects: PublishedObjects) -> None:
        self.prefetch = objects.prefetch
        self.state_of = objects.state_of
        self.put = objects.put
        self.accepts = objects.accepts
        self._changes: deque[tuple[Place, str, str]] = deque()
        self._by_object: dict[str, deque[Place]] = {}

    @property
    def count(self) -> int:
        """Number of changes that are not passed yet."""
        return len(self._changes)

    @property
    def keys(self) -> list[str]:
        """The keys of their objects."""
        return [key for _, _, key in self._changes]

    def add(self, place: Place, association: str, key: str) -> None:
        """Adds the next change."""
        self._changes.append((place, association, key))
        self._by_object.setdefault(association, deque()).append(place)

    def forget(self, before: Place | None) -> None:
        """Passes the changes before a place, or all."""
        while self._changes and (before is None or self._changes[0][0] < before):
            _, association, _ = self._changes.popleft()
            self.forget_object(association, before)

    def forget_object(self, association: str, before: Place | None) -> None:
        """Passes the changes of one object before a place, or all."""
        places = self._by_object.get(association)
        if places is None or (before is not None and places[0] >= before):
            return
        self.put(association, UNKNOWN)
        while places and (before is None or places[0] < before):
            places.popleft()
        if not places:
            del self._by_object[association]


def _size_of(draft: Draft) -> int:
    pieces = [piece for group in draft.operations for piece in group]
    return sum([len(text) for piece in pieces for text in piece.attributes])


def _place(draft: Draft) -> Place:
    return place_of(draft.first)


def place_of(change: Change) -> Place:
    """Returns the place of a change in the order of publishing, which is the order of planning."""
    return change.position.part, change.rank, change.position
