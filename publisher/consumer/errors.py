"""Errors of the consumer, each with the place and advice.

::

    ConsumerError
    ├── DocumentError   a document or its record cannot be used
    ├── StateError      an operation contradicts a strict state
    ├── EventIdError    an event id names two documents
    ├── HeldError       too many documents wait for the other copy of a key change
    └── TopicError      a topic cannot be read
"""

from __future__ import annotations

from dataclasses import dataclass

from publisher.errors import PublisherError


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a document: ``xds/3:17`` is offset 17 of partition 3, ``part-00000.xds:17`` a line."""

    part: str
    """A topic's partition, or a file; its documents are in order."""
    number: int
    """Offset or line; it increases within the part."""

    def __str__(self) -> str:
        return f"{self.part}:{self.number}"


NOWHERE = Origin("document", 1)
"""The origin of a document that was read from neither a topic nor a file."""


class ConsumerError(PublisherError):
    """Root of the consumer's errors; ``problem`` says what happened and what to do."""

    def __init__(self, place: Origin | str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem

    def __reduce__(self) -> tuple[type[ConsumerError], tuple[Origin | str, str]]:
        return type(self), (self.place, self.problem)


class DocumentError(ConsumerError):
    """A document, or the record that carries it, cannot be used; nothing of it was applied."""


class StateError(ConsumerError):
    """An operation contradicts the state of its object."""


class EventIdError(ConsumerError):
    """An event id names another document than before; the document was not accepted."""


class HeldError(ConsumerError):
    """Too many documents wait for the other copy of a key change; the document was not accepted."""


class TopicError(ConsumerError):
    """A topic cannot be read."""


def replaced_topic(topic: str, known: str, id_: str) -> TopicError:
    """Returns the error for a topic with another id than that of the stored state."""
    return TopicError(
        topic,
        f"the topic was deleted and created again: its id is {id_} instead of {known}, and the stored "
        "offsets are not valid in it; start with an empty state, or from a copy of all objects",
    )
