"""Restores the splits of a run from its ledger."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from publisher.formats.registry import FORMATS
from publisher.ledger.manifest import SourceEntry

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def restore_split(entry: SourceEntry, number: int) -> Any:
    """Restores a split of a source, by its number in the run."""
    return _split_type(entry.format).validate_python(entry.splits[number - entry.first_split])


@cache
def _split_type(format_: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - most reports read no record again

    return TypeAdapter(FORMATS[format_].split())
