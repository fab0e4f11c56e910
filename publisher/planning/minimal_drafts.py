"""Reduces drafts of documents to their differences from the published state, in the order of publishing.

A poll may be rendered before an earlier one: look-ups wait, and another object may take over a key.  So
drafts wait until no earlier one can follow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from publisher.model.change import Decision, Document, Outcome, Position, Reason
from publisher.model.published_objects import PublishedObjects
from publisher.planning.drafts import Draft, OperationPiece
from publisher.planning.minimal import ObjectOperation, minimize
from publisher.planning.renderer import Renderer


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
        self._objects = objects
        self._drafts: list[Draft] = []
        self.count = 0
        """Number of waiting drafts."""
        self.bytes = 0
        """Size of their attributes in characters."""

    def add(self, draft: Draft) -> None:
        """Adds a draft."""
        self._drafts.append(draft)
        self._count(draft, 1)

    def settle(self, before: tuple[int, Position] | None) -> Iterator[SettledDraft]:
        """Removes and reduces the drafts before a place, or all, in order."""
        self._drafts.sort(key=_place)
        ready = len(self._drafts)
        if before is not None:
            ready = bisect_left(self._drafts, before, key=_place)
        drafts = self._drafts[:ready]
        del self._drafts[:ready]
        for draft in drafts:
            self._count(draft, -1)
            yield self._reduce(draft)

    def _count(self, draft: Draft, sign: int) -> None:
        self.count += sign
        pieces = [piece for group in draft.operations for piece in group]
        self.bytes += sign * sum([len(text) for piece in pieces for text in piece.attributes])

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
        return SettledDraft(draft.first.rank, self._renderer.document(draft), decisions)

    def _minimize(self, association: str, piece: OperationPiece) -> OperationPiece | None:
        """Reduces a piece and updates the state of its object; ``None`` if nothing has changed."""
        inserts_row = piece.kind == "add" and self._renderer.inserts_row(piece.change)
        operation = ObjectOperation(piece.kind, piece.attributes, inserts_row)
        before = self._objects.state_of(association)
        attributes, after = minimize(before, operation)
        if piece.new_association is not None:
            self._objects.put(association, None)
            association = piece.new_association
        if attributes is not None:
            self._objects.put(association, after)
        return None if attributes is None else piece._replace(attributes=attributes)


def _place(draft: Draft) -> tuple[int, Position]:
    change = draft.first
    return change.rank, change.position
