"""The header of a segment."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from publisher import __version__
from publisher.journal.durable import read_versioned_file
from publisher.journal.manifest import SourceEntry
from publisher.model.plain import restore

SEGMENT_FORMAT = 3
HEADER = "segment.json"
"""File that is written last: its presence means that the segment is complete."""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A source of some runs: everything that is needed to read positions."""

    name: str
    format: str
    options: dict[str, object]
    reading: dict[str, object]

    @classmethod
    def of(cls, entry: SourceEntry) -> SegmentSource:
        """Takes the values from a source of a manifest."""
        return cls(**{field.name: getattr(entry, field.name) for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The size of a segment, the times at which its oldest and youngest runs ended, its sources."""

    runs: int
    records: int
    """Rows of its decisions."""
    bytes: int
    """Bytes of its manifests and documents, before compression."""
    oldest: float
    youngest: float
    sources: tuple[SegmentSource, ...]
    format: int = SEGMENT_FORMAT
    program: str = f"xds-publisher {__version__}"

    @classmethod
    def read(cls, folder: Path) -> SegmentHeader | None:
        """Reads the header of a segment; ``None`` if the segment does not exist or is being removed.

        Raises:
            FatalError: The header is damaged, or of another version of the program.
        """
        remedy = f"remove the directory {folder}: the finished runs in it can then no longer be explained"
        return read_versioned_file(folder / HEADER, SEGMENT_FORMAT, partial(restore, cls), remedy)
