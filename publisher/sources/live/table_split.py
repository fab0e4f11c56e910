"""The splits of a live table, which reports name without the libraries that read tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from publisher.database.ordered_ranges import Span

Payload_co = TypeVar("Payload_co", covariant=True)


@dataclass(frozen=True, slots=True)
class TableSplit(Generic[Payload_co]):
    """A part of a table that one task reads: rows whose ordering column is in [low, high)."""

    number: int
    snapshot: str | None = None
    low: int | None = None
    high: int | None = None
    span: Span | None = None
    """The rows to read; ``None`` for all."""
    notes: tuple[str, ...] = ()
    """Notes for operators, about rows that arrived late and rows that wait."""
    payload: Payload_co = None  # type: ignore[assignment]
    """Facts about the whole table, of a type that the format defines, as in ``Split``."""
