"""The splits of a dispatch queue: parts of exports, and files that the last run left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from publisher.formats.dispatch_queue.operations import PartsReading
from publisher.formats.files.file_splits import Split, TextRange


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """Whole rows of a binary export; the last part includes the bytes after the last whole row."""

    start: int
    stop: int
    """Offset after the last byte."""
    first: int
    """Number of the first row in the file."""
    stride: int
    """Bytes from row to row."""
    reading: PartsReading
    """The meaning of LEN1 and LEN2 in operations of several rows."""


@dataclass(frozen=True, slots=True)
class TextRows:
    """Lines of a text export."""

    lines: TextRange
    reading: PartsReading


class StateFile(StrEnum):
    """Files that the last run left."""

    OPEN_ROWS = "open-rows"
    """Rows of open transactions."""
    MARKS = "marks"
    """Marks of ended transactions, and tables."""
    LOST_ROWS = "lost-rows"
    """Rows with an unreadable column."""


@dataclass(frozen=True, slots=True)
class StateRows:
    """A whole file that the last run left."""

    file: StateFile
    reading: PartsReading = "unknown"


QueuePart = BinaryRows | TextRows | StateRows
QueueSplit = Split[QueuePart]


def has_marks(split: QueueSplit) -> bool:
    """Checks whether a split has the marks of ended transactions, and no rows."""
    return split.payload == StateRows(StateFile.MARKS)
