"""What is known of a run that was read from a segment: where it was, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class PlaceInSegment(NamedTuple):
    """The folder that a run had before it moved into a segment, and the folder of the segment."""

    origin: Path
    segment: Path


class FilesInMemory(NamedTuple):
    """The files of a run that was read from a segment: text files, and the tables of the files of lanes."""

    texts: Mapping[str, str]
    tables: Mapping[str, pa.Table]
