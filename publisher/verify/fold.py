"""Folds documents into the objects that a consumer has after them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from publisher.consumer.delivery import Delivery
from publisher.consumer.errors import EventIdError
from publisher.consumer.inbox import Inbox
from publisher.consumer.objects import Objects
from publisher.consumer.operations import (
    Add,
    AttributeChange,
    Delete,
    Modify,
    ModifyAssociation,
    Operation,
    RemoveAllValues,
)


@dataclass(slots=True)
class FoldedObjects:
    """The objects after some documents, and facts about these documents."""

    objects: Objects = field(default_factory=Objects)
    mentioned: dict[str, dict[str, bool]] = field(default_factory=dict)
    """The attributes that documents mention, for objects whose first document is no ``<add>``, and whether
    all earlier values were removed: other attributes, and earlier values, are unknown."""
    ended: set[str] = field(default_factory=set)
    """The objects that a document has ended: nothing of them is unknown."""
    repeated: int = 0
    """Number of documents that consumers ignore, because they have arrived before."""

    def apply(self, operation: Operation) -> None:
        """Applies an operation as a consumer does."""
        match operation:
            case Modify(association, _, changes):
                if association not in self.objects and association not in self.ended:
                    self.mentioned[association] = {}
                self._mention(association, changes)
            case Delete(association):
                self.ended.add(association)
                self.mentioned.pop(association, None)
            case ModifyAssociation(old, new):
                self.ended.add(old)
                partial = self.mentioned.pop(old, None)
                if old in self.objects:
                    self.mentioned.pop(new, None)
                    if partial is not None:
                        self.mentioned[new] = partial
            case Add(association, _, changes):
                self._mention(association, changes)
        self.objects.apply(operation)

    def _mention(self, association: str, changes: Iterable[AttributeChange]) -> None:
        mentioned = self.mentioned.get(association)
        if mentioned is not None:
            for change in changes:
                is_whole = isinstance(change, RemoveAllValues)
                mentioned[change.attribute] = is_whole or mentioned.get(change.attribute, False)

    def apply_all(self, ready: Iterable[Delivery]) -> None:
        """Applies documents that have arrived in their order."""
        for delivery in ready:
            self.repeated -= delivery.key_change is None
            for operation in delivery.operations:
                self.apply(operation)


def fold(deliveries: Iterable[Delivery]) -> FoldedObjects:
    """Folds documents, each part in its order, as a consumer that reads all of them.

    A change of a key waits for its other copy; if that has expired, it is applied at the end.
    """
    folded = FoldedObjects()
    inbox = Inbox(remembered=sys.maxsize, max_held=sys.maxsize)
    for delivery in deliveries:
        folded.repeated += delivery.key_change is None
        try:
            folded.apply_all(inbox.accept(delivery))
        except EventIdError:  # counted as conflicting; both copies of a key change get the same id
            other = f"{delivery.event_id} {delivery.digest}"
            folded.apply_all(inbox.accept(replace(delivery, event_id=other)))
    folded.apply_all(inbox.release())
    return folded
