"""Query-back: what is asked of a database, and what it may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from publisher.change import Object, Reason


class Row(NamedTuple):
    """The current row of an object: all columns of its table in the table's order.

    Values are in the text form of the event log (Base64 for binary); ``None`` is NULL.
    """

    columns: tuple[str, ...]
    values: tuple[str | None, ...]


class Refused(NamedTuple):
    """The database cannot answer for this object; ``detail`` ends with what to do."""

    reason: Reason
    detail: str


Answer = Row | Refused | None
"""``None``: the row is gone."""


class Lookup(Protocol):
    """Answers for many objects at once."""

    def answers(self, objects: Sequence[Object]) -> Mapping[Object, Answer]:
        """One answer for each object."""
