"""The published state of objects: the values that a consumer of all documents has.

A state is one text, in which single attributes are read and replaced: most changes concern few attributes of
an object, and its other values are stored as they were read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

_WHOLE, _PARTIAL = "whole", "partial"
_ATTRIBUTE, _VALUES, _VALUE = "\x1e", "\x1d", "\x1f"
"""What stands before the name, before all values and before each value of an attribute.  XML forbids these
characters, so that no name and no value has them."""


class PublishedObject(NamedTuple):
    """The known part of an object's published state."""

    text: str = _PARTIAL
    """The stored form of the state: attributes by name, values in order."""

    @classmethod
    def of(cls, values: Mapping[str, Iterable[str]], *, is_whole: bool = False) -> PublishedObject:
        """Creates a state from the sorted value elements of attributes by their escaped names.

        ``is_whole``: no other attribute has values."""
        state = cls(_WHOLE if is_whole else _PARTIAL)
        for name, of_name in values.items():
            state = state.with_values(name, of_name)
        return state

    @property
    def is_whole(self) -> bool:
        """True if no other attribute has values."""
        return self.text.startswith(_WHOLE)

    @property
    def exists(self) -> bool:
        """True if a consumer is sure to have the object."""
        return self.text != _PARTIAL

    @property
    def values(self) -> Mapping[str, tuple[str, ...]]:
        """The values of all known attributes."""
        parts = [part.partition(_VALUES) for part in self.text.split(_ATTRIBUTE)[1:]]
        return {name: tuple(values.split(_VALUE)[1:]) for name, _, values in parts}

    def values_of(self, name: str) -> tuple[str, ...] | None:
        """The values of an attribute; ``None`` if they are unknown."""
        start, end = self._find(name)
        if start:
            return tuple(self.text[start:end].split(_VALUE)[1:])
        return () if self.is_whole else None

    def with_values(self, name: str, values: Iterable[str]) -> PublishedObject:
        """The state with other values of an attribute."""
        start, end = self._find(name)
        text = "".join([_VALUE + value for value in values])
        if start:
            return PublishedObject(self.text[:start] + text + self.text[end:])
        attribute = f"{name}{_VALUES}{text}"
        if _ATTRIBUTE not in self.text:
            return PublishedObject(self.text + _ATTRIBUTE + attribute)
        kind, *attributes = self.text.split(_ATTRIBUTE)
        attributes.append(attribute)
        return PublishedObject(_ATTRIBUTE.join([kind, *sorted(attributes)]))

    def _find(self, name: str) -> tuple[int, int]:
        """Finds the values of an attribute in the text; zeros if they are unknown."""
        head = f"{_ATTRIBUTE}{name}{_VALUES}"
        place = self.text.find(head)
        if place < 0:
            return 0, 0
        start = place + len(head)
        end = self.text.find(_ATTRIBUTE, start)
        return start, len(self.text) if end < 0 else end


UNKNOWN = PublishedObject()
"""The state of an object of which nothing is known."""
EMPTY = PublishedObject(_WHOLE)
"""The state of an object that has no values."""


class PublishedObjects(Protocol):
    """The published states of objects."""

    def prefetch(self, associations: Collection[str]) -> None:
        """Reads the states of objects that are asked for next, all at once."""

    def state_of(self, association: str) -> PublishedObject | None:
        """The state of an object; ``None`` if the job never published it, or has deleted it."""

    def put(self, association: str, state: PublishedObject | None) -> None:
        """Replaces the state of an object."""

    def accepts(self, text_bytes: int) -> bool:
        """Tests whether the sink surely accepts documents of this size."""
