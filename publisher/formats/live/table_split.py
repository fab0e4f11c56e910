"""A live table as input, and its splits, which reports name without the libraries that read tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from publisher.database.options import DatabaseOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from publisher.database.ordered_ranges import Span

Payload_co = TypeVar("Payload_co", covariant=True)


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """The table of a database that a source reads."""

    database: DatabaseOptions
    name: str
    """Table as ``table`` or ``schema.table``."""
    text_of: Callable[[Any], str | None]
    """Converts a value of the database driver to text."""


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
