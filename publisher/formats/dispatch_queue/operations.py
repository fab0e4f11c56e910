"""The operations of a split: their rows, images and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple

from publisher.formats.columns.byte_areas import Mask
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.dispatch_queue.rows.layout import DATA_BYTES, OperationCode
from publisher.formats.dispatch_queue.rows.rows import Addresses, Codes, QueueRows
from publisher.model.change import Reason

PartsReading = Literal["totals", "per-part", "unknown"]


class RowKind(IntEnum):
    """Kind of one or several rows: a change of a row, or the end of a transaction."""

    OPERATION = 0
    COMMIT = 1
    ROLLBACK = 2
    CLOSING = 3
    """COMMIT or ROLLBACK; the code does not distinguish them."""


class OperationUse(IntEnum):
    """Use of an operation."""

    COUNTED = 0
    """Read as a change or the end of a transaction."""
    COPY = 1
    """Repeats a counted operation for another destination."""
    EXCLUDED = 2
    """Excluded by the settings."""


WITH_DATA = frozenset(
    {
        OperationCode.DELETE,
        OperationCode.INSERT,
        OperationCode.UPDATE,
        OperationCode.COMMIT,
        OperationCode.CREATE_BLOB,
        OperationCode.INSERT_BLOB,
        OperationCode.CLEAR_BLOB,
    }
)
"""Codes of operations on a row; in list b of ``OperationCode``, code 4 with data is DELETE BLOB."""
BLOB_TYPES = frozenset(
    {
        OperationCode.COMMIT,
        OperationCode.CREATE_BLOB,
        OperationCode.INSERT_BLOB,
        OperationCode.CLEAR_BLOB,
    }
)


class DataSegment(NamedTuple):
    """A range of bytes of a row's DATA."""

    row: int
    """Place in ``QueueRows``."""
    start: int
    size: int


@dataclass(slots=True, eq=False)
class Operations:
    """The operations of a split, in the order of their first rows."""

    rows: QueueRows
    first: Codes
    """Place in ``rows`` of the first row of each operation."""
    parts: Codes
    """Number of rows of each operation."""
    members: list[list[int]]
    """Places of all rows of operations with several rows, by ``group``."""
    group: Codes
    """Place in ``members``; -1 for an operation of one row."""
    kind: Codes
    """The ``RowKind`` of each operation."""
    use: Codes
    """The ``OperationUse`` of each operation."""
    len1: Codes
    """Bytes of the first image in all parts together."""
    len2: Codes
    """Bytes of the second image in all parts together."""
    reading: PartsReading
    whole: Mask
    """Marks operations whose two images can be separated."""
    ignored: Mask
    """Marks operations on BLOBs that the settings ignore; their content is not checked."""
    repeated: list[int] = field(default_factory=list)
    """Places of exact repetitions of rows."""
    faults: dict[int, RecordFault] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.first)

    def column(self, name: str) -> Codes:
        """Returns an integer column of the first row of each operation."""
        return self.rows.integers[name][self.first]

    @property
    def node(self) -> Codes:
        """Place of DBNODE in ``rows.nodes``."""
        return self.rows.node[self.first]

    @property
    def address(self) -> Addresses:
        """SYSLOG_ADDR as an unsigned number."""
        return self.rows.address[self.first]

    def rows_of(self, number: int) -> list[int]:
        """Returns the places of the rows of an operation."""
        group = int(self.group[number])
        return [int(self.first[number])] if group < 0 else self.members[group]

    def add_fault(
        self, numbers: Iterable[int], reason: Reason, detail_of: Callable[[int], str] | str
    ) -> None:
        """Records a fault of operations that have none yet."""
        for number in numbers:
            detail = detail_of if isinstance(detail_of, str) else detail_of(number)
            self.faults.setdefault(int(number), RecordFault(reason, detail))

    def segments(self, number: int) -> tuple[list[DataSegment], list[DataSegment]]:
        """Returns the segments of the two images of a faultless operation."""
        members = self.rows_of(number)
        len1, len2 = int(self.len1[number]), int(self.len2[number])
        if len(members) == 1:
            row = members[0]
            return [DataSegment(row, 0, len1)], [DataSegment(row, len1, len2)]
        if self.reading == "totals":
            return _segments(members, 0, len1), _segments(members, len1, len1 + len2)
        first, second = [], []
        lengths = self.rows.integers
        for row in members:
            part1, part2 = int(lengths["LEN1"][row]), int(lengths["LEN2"][row])
            first.append(DataSegment(row, 0, part1))
            second.append(DataSegment(row, part1, part2))
        return first, second

    def image(self, segments: Iterable[DataSegment]) -> bytes:
        """Joins the bytes of segments."""
        rows = self.rows
        starts = ((int(rows.data_at[s.row]) + s.start, s.size) for s in segments)
        return b"".join(rows.data[at : at + size].tobytes() for at, size in starts)


def _segments(members: list[int], start: int, stop: int) -> list[DataSegment]:
    """Divides bytes ``start`` to ``stop`` of the joined DATA of rows into segments."""
    segments = []
    for number, row in enumerate(members):
        base = number * DATA_BYTES
        a, b = max(start, base), min(stop, base + DATA_BYTES)
        if a < b:
            segments.append(DataSegment(row, a - base, b - a))
    return segments
