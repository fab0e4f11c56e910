"""Folds documents into the objects that a consumer has after them, as a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from publisher.consumer.delivery import Delivery
from publisher.consumer.errors import Origin
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
    Value,
    ValueType,
)
from publisher.xds.escape import attribute_text, escape_permitted


@dataclass(slots=True)
class FoldedObjects:
    """The objects after some documents, and facts about these documents."""

    objects: Objects = field(default_factory=Objects)
    mentioned: dict[str, dict[str, bool]] = field(default_factory=dict)
    """The attributes that documents mention, for objects whose first document is no ``<add>``, and whether
    all earlier values were removed: other attributes, and earlier values, are unknown."""
    event_ids: dict[str, set[str]] = field(default_factory=dict)
    """Event ids of the documents by association."""
    documents: Counter[str] = field(default_factory=Counter)
    """Number of documents by association, repeated ones included."""
    last: dict[str, list[Origin]] = field(default_factory=dict)
    """The place of the last document in each part, by association."""
    repeated: int = 0
    """Number of documents that consumers ignore, because they have arrived before."""

    def apply(self, operation: Operation) -> None:
        """Applies an operation as a consumer does."""
        match operation:
            case Modify(association, _, changes):
                if association not in self.objects:
                    self.mentioned[association] = {}
                self._mention(association, changes)
            case Delete(association):
                self.mentioned.pop(association, None)
            case ModifyAssociation(old, new):
                partial = self.mentioned.pop(old, None)
                if old in self.objects:
                    self.mentioned.pop(new, None)
                    if partial is not None:
                        self.mentioned[new] = partial
            case Add():
                pass
        self.objects.apply(operation)

    def _mention(self, association: str, changes: Iterable[AttributeChange]) -> None:
        mentioned = self.mentioned.get(association)
        if mentioned is not None:
            for change in changes:
                is_whole = isinstance(change, RemoveAllValues)
                mentioned[change.attribute] = is_whole or mentioned.get(change.attribute, False)

    def knows(self, association: str, attribute: str, *, is_multiple: bool) -> bool:
        """Returns whether documents determine the values of an attribute."""
        mentioned = self.mentioned.get(association)
        if mentioned is None:
            return True
        return mentioned.get(attribute, False) if is_multiple else attribute in mentioned

    def apply_all(self, ready: Iterable[Delivery]) -> None:
        """Applies documents that have arrived in their order."""
        for delivery in ready:
            self.repeated -= delivery.key_change is None
            for operation in delivery.operations:
                self.apply(operation)

    def note(self, delivery: Delivery) -> None:
        """Notes the arrival of a document."""
        self.repeated += delivery.key_change is None
        for association in associations_of(delivery.operations):
            self.documents[association] += 1
            self.last.setdefault(association, []).append(delivery.origin)
            if delivery.event_id is not None:
                self.event_ids.setdefault(association, set()).add(delivery.event_id)


def fold(deliveries: Sequence[Delivery]) -> FoldedObjects:
    """Folds documents, each part in its order, as a consumer that reads all of them.

    A change of a key waits for its other copy; if that has expired, it is applied at the end.
    """
    folded = FoldedObjects()
    inbox = Inbox(remembered=len(deliveries) + 1, max_held=len(deliveries) + 1)
    for delivery in deliveries:
        folded.note(delivery)
        folded.apply_all(inbox.accept(delivery))
    folded.apply_all(inbox.release())
    return folded


def associations_of(operations: Iterable[Operation]) -> set[str]:
    """Returns the associations that operations name."""
    names: set[str] = set()
    for operation in operations:
        if isinstance(operation, ModifyAssociation):
            names.update((operation.old, operation.new))
        else:
            names.add(operation.association)
    return names


_OPENINGS = {None: "<value"} | {kind: f'<value type="{kind}"' for kind in ValueType}


def element_of(value: Value) -> str:
    """Writes a value as the element that documents of this program have for it."""
    opening, content = _OPENINGS[value.type], escape_permitted(value.text)
    if value.association_ref is None and not value.components:
        return f"{opening}>{content}</value>"
    for part in value.components:
        name, text = attribute_text(part.name), escape_permitted(part.text)
        content += f'<component name="{name}"{_reference(part.association_ref)}>{text}</component>'
    return f"{opening}{_reference(value.association_ref)}>{content}</value>"


def _reference(association: str | None) -> str:
    return "" if association is None else f' association-ref="{attribute_text(association)}"'
