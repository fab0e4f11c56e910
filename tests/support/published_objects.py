"""Published states in memory, and the operations that lead to the objects of a consumer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from publisher.consumer import Objects, parse_document
from publisher.model.published_objects import UNKNOWN, PublishedObject
from tests.support.plan_results import Document

ObjectValues = dict[str, tuple[str, dict[str, frozenset[str]]]]


@dataclass
class StatesInMemory:
    """The published states of a job: ``is_complete`` if it has published nothing else before."""

    is_complete: bool = True
    states: dict[str, PublishedObject] = field(default_factory=dict)

    def prefetch(self, associations: Collection[str]) -> None:
        """All states are in memory."""

    def state_of(self, association: str) -> PublishedObject | None:
        return self.states.get(association, None if self.is_complete else UNKNOWN)

    def accepts(self, text_bytes: int) -> bool:
        """The sink accepts all documents."""
        return text_bytes >= 0

    def put(self, association: str, state: PublishedObject | None) -> None:
        self.states.pop(association, None)
        if state is not None:
            self.states[association] = state


def apply_texts(objects: Objects, texts: Iterable[str]) -> Objects:
    """Applies documents to the objects of a consumer."""
    for text in texts:
        for operation in parse_document(text):
            objects.apply(operation)
    return objects


def consumed(documents: Sequence[Document], before: Iterable[str] = ()) -> ObjectValues:
    """The objects of a consumer after some documents, compared by the sets of their values."""
    texts = [*before, *(document.text for document in documents)]
    return values_of(apply_texts(Objects(), texts))


def values_of(objects: Objects) -> ObjectValues:
    """Class and values of each object; the order of values does not count."""
    return {
        name: (
            known.class_name,
            {
                attribute: frozenset(map(repr, values))
                for attribute, values in known.attributes.items()
            },
        )
        for name, known in objects.items()
    }
