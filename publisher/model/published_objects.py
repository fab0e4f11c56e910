"""The published state of objects: the values that a consumer of all documents has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PublishedObject:
    """The known part of an object's published state."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The sorted value elements of attributes by their escaped names."""
    is_whole: bool = False
    """True if no other attribute has values."""

    @property
    def exists(self) -> bool:
        """True if a consumer is sure to have the object."""
        return self.is_whole or bool(self.values)

    def values_of(self, name: str) -> tuple[str, ...] | None:
        """The values of an attribute; ``None`` if they are unknown."""
        return self.values.get(name, () if self.is_whole else None)


UNKNOWN = PublishedObject()
"""The state of an object of which nothing is known."""


class PublishedObjects(Protocol):
    """The published states of objects."""

    def state_of(self, association: str) -> PublishedObject | None:
        """The state of an object; ``None`` if the job never published it, or has deleted it."""

    def put(self, association: str, state: PublishedObject | None) -> None:
        """Replaces the state of an object."""
