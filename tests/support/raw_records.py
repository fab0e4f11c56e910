"""Single records of a source as JSON text."""

from __future__ import annotations

from typing import Any

from publisher.formats.contract import Source
from publisher.formats.files.file_splits import Split


def raw_record(source: Source, split: Split[Any], row: int) -> str | None:
    """Reads one record of a split again; ``None`` if there is none."""
    return source.raw_records(split, frozenset({row})).get(row)
