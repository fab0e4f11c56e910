"""The operations of a part of a file: rows and their images, and the faults of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from publisher.model.change import Reason
from publisher.sources.columns.byte_areas import Mask
from publisher.sources.dispatch_queue.rows import layout
from publisher.sources.dispatch_queue.rows.layout import DATA_BYTES
from publisher.sources.dispatch_queue.rows.rows import Addresses, Codes, Rows

PartsReading = Literal["totals", "per-part", "unknown"]

OPERATION, COMMIT, ROLLBACK, CLOSING = 0, 1, 2, 3
"""What a row, or several, is: a change of a row, or the end of a transaction; ``CLOSING`` is COMMIT or
ROLLBACK, nobody knows which."""

ALONE, COPY, EXCLUDED = 0, 1, 2
"""Whether an operation counts: by itself; not, as it is there already for another destination; not, as
the settings leave it out."""

WITH_DATA = frozenset(
    {layout.DELETE, layout.INSERT, layout.UPDATE, layout.COMMIT, 7, layout.INSERT_BLOB, 9}
)
"""TYP of operations on a row; 4 with data is DELETE BLOB (list below the table)."""
BLOB_TYPES = frozenset({layout.COMMIT, layout.CREATE_BLOB, layout.INSERT_BLOB, layout.CLEAR_BLOB})


class Fault(NamedTuple):
    """Why an operation is rejected."""

    reason: Reason
    detail: str


class Segment(NamedTuple):
    """Bytes of DATA of a row."""

    row: int
    """Place in ``Rows``."""
    start: int
    size: int


@dataclass(slots=True, eq=False)
class Operations:
    """The operations of a part of a file, in the order of their first rows."""

    rows: Rows
    first: Codes
    """Place of the first row of each in ``rows``."""
    parts: Codes
    """Rows of each."""
    members: list[list[int]]
    """Places of all rows of those that have more than one, by ``group``."""
    group: Codes
    """Place in ``members``; -1 of an operation of one row."""
    kind: Codes
    counted: Codes
    len1: Codes
    """Bytes of the first image, all parts together."""
    len2: Codes
    reading: PartsReading
    whole: Mask
    """Whether its images can be told apart."""
    ignored: Mask
    """Operations on BLOBs that the settings ignore: nothing in them is looked at."""
    again: list[int] = field(default_factory=list)
    """Places of rows that stand there again, with the same content."""
    faults: dict[int, Fault] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.first)

    def column(self, name: str) -> Codes:
        """An integer column of the first rows."""
        return self.rows.integers[name][self.first]

    @property
    def node(self) -> Codes:
        """Place of DBNODE in the names of the rows."""
        return self.rows.node[self.first]

    @property
    def address(self) -> Addresses:
        """SYSLOG_ADDR without sign."""
        return self.rows.address[self.first]

    def rows_of(self, number: int) -> list[int]:
        """Places of the rows of an operation."""
        group = int(self.group[number])
        return [int(self.first[number])] if group < 0 else self.members[group]

    def fault(self, wrong: Iterable[int], reason: Reason, say: object) -> None:
        """Notes the first fault of each."""
        for number in wrong:
            detail = say(number) if callable(say) else str(say)
            self.faults.setdefault(int(number), Fault(reason, detail))

    def segments(self, number: int) -> tuple[list[Segment], list[Segment]]:
        """Where the two images of a good operation lie, by the file's reading."""
        members = self.rows_of(number)
        len1, len2 = int(self.len1[number]), int(self.len2[number])
        if len(members) == 1:
            row = members[0]
            return [Segment(row, 0, len1)], [Segment(row, len1, len2)]
        if self.reading == "totals":
            return _cut(members, 0, len1), _cut(members, len1, len1 + len2)
        ones, twos = [], []
        lengths = self.rows.integers
        for row in members:
            one, two = int(lengths["LEN1"][row]), int(lengths["LEN2"][row])
            ones.append(Segment(row, 0, one))
            twos.append(Segment(row, one, two))
        return ones, twos

    def image(self, segments: Iterable[Segment]) -> bytes:
        """The bytes of segments, joined."""
        rows = self.rows
        starts = ((int(rows.data_at[s.row]) + s.start, s.size) for s in segments)
        return b"".join(rows.data[at : at + size].tobytes() for at, size in starts)


def _cut(members: list[int], start: int, stop: int) -> list[Segment]:
    """Bytes ``start`` to ``stop`` of the joined DATA of rows."""
    found = []
    for number, row in enumerate(members):
        base = number * DATA_BYTES
        a, b = max(start, base), min(stop, base + DATA_BYTES)
        if a < b:
            found.append(Segment(row, a - base, b - a))
    return found
