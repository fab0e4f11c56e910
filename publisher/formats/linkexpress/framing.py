"""Finds the records of a file.

OPEN NORMAL records all have the same length, so their offsets are multiples of it.  All other records
contain their length, which leads to the next one.  The driver checks all headers of a file before its
first record is read, and a file with a header that does not fit is refused as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from publisher.formats.columns.byte_areas import Bytes, Offsets, numbers_at
from publisher.formats.linkexpress.headers import HeaderBatch, HeaderReader, NoTable, Numbers
from publisher.formats.linkexpress.item_offsets import TableLayout
from publisher.formats.linkexpress.items import ItemReader
from publisher.formats.linkexpress.layout import ExtractCode, RecordForm
from publisher.formats.linkexpress.options import LinkexpressOptions

RECORDS = 8192
"""Maximum number of records of a block."""
BYTES = 4 << 20
"""Approximate bytes of a block."""


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Some consecutive records."""

    offsets: Offsets
    lengths: Numbers
    heads: HeaderBatch

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return int(self.offsets[-1] + self.lengths[-1])


class Misfit(NamedTuple):
    """The first header of a file that does not fit the settings."""

    offset: int
    length: int
    """LEN of the record; 0 if it is not in the file."""
    detail: str
    """The field that does not fit, and its value."""


@dataclass(frozen=True)
class RecordFramer:
    """Finds the records of one file, or of a part of it that ends at ``stop``."""

    headers: HeaderReader
    stop: int
    options: LinkexpressOptions

    @property
    def data(self) -> Bytes:
        """The bytes of the file."""
        return self.headers.data

    @property
    def form(self) -> RecordForm:
        """The form of the records."""
        return self.headers.form

    @property
    def tables(self) -> tuple[TableLayout, ...]:
        """The tables of the settings."""
        return self.headers.tables

    @cached_property
    def readers(self) -> tuple[ItemReader, ...]:
        """The readers of items, by table."""
        return tuple(ItemReader(table.layout, self.options) for table in self.tables)

    def blocks(self, start: int) -> Iterator[RecordBlock]:
        """Yields the records after ``start``; after a length that is not possible, the remaining bytes are
        one record whose header is not good."""
        at = start
        while at < self.stop:
            offsets, lengths = self._offsets_of_one_length(at)
            if not len(offsets):
                offsets, lengths = self._offsets_by_lengths(at)
            if not len(offsets):
                offsets, lengths = np.array([at], np.int64), np.array([self.stop - at], np.int64)
            block = RecordBlock(offsets, lengths, self.headers.read(offsets))
            yield block
            at = block.end

    def find_misfit(self) -> Misfit | None:
        """Finds the first record whose header does not fit; ``None`` if all do."""
        is_empty, rows = False, 0
        for block in self.blocks(0):
            heads = block.heads
            bad = np.flatnonzero(~heads.good)
            if len(bad):
                return self._describe(block, int(bad[0]))
            is_row = heads.table != NoTable.MARK
            rows += int(is_row.sum())
            is_empty = is_empty or bool((heads.table == NoTable.NO_ROWS).any())
            if is_empty and rows > 1:
                place = int(np.flatnonzero(is_row)[-1])
                text = "OP: the record FFFF (no rows) must be the only one of a file"
                return Misfit(int(block.offsets[place]), int(block.lengths[place]), text)
        return None

    def _describe(self, block: RecordBlock, place: int) -> Misfit:
        heads, form = block.heads, self.form
        offset, length = int(block.offsets[place]), int(heads.length[place])
        left = self.headers.end - offset
        if left < form.mark_size:
            return Misfit(offset, 0, f"{left} bytes are left, too few for a record: {_TRUNCATED}")
        count, code = int(heads.count[place]), int(heads.code[place])
        table = self.tables[max(int(heads.table[place]), 0)]
        items = len(table.items) + form.extra
        is_mark = code in (ExtractCode.COMMIT, ExtractCode.NO_ROWS)
        detail = f"LEN is {length}, by the settings it is {_describe_lengths(table)}"
        if code not in form.codes:
            legal = ", ".join(each.text for each in sorted(form.codes))
            detail = f"OP is {code:04X}, by the settings it is one of {legal}"
        elif heads.flag[place]:
            detail = f"the NULL area of OP is {int(heads.flag[place]):04X} instead of 0000"
        elif is_mark:
            detail = f"OP is {ExtractCode(code).text}, but CNT is {count} and LEN {length}"
        elif heads.table[place] == NoTable.UNKNOWN:
            detail = f"XID is {int(heads.xid[place])}, which no table has, CNT is {count} and LEN {length}"
        elif form.extra and count != items:
            detail = f"CNT is {count}, by the settings it is {items}"
        elif table.least <= length <= table.greatest:
            detail = f"LEN is {length}, but {left} bytes are left: {_TRUNCATED}"
        return Misfit(offset, length, detail)

    def _offsets_of_one_length(self, at: int) -> tuple[Offsets, Numbers]:
        """Returns offsets and lengths of consecutive records of the same known length, or nothing."""
        size = self.tables[0].fixed if len(self.tables) == 1 and self.form.extra < 2 else None
        if size is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        count = min(RECORDS, (self.stop - at) // size, max(1, BYTES // size))
        offsets = at + np.arange(count, dtype=np.int64) * size
        lengths = np.full(count, size, np.int64)
        if self.form.has_length and count:
            other = numbers_at(self.data, offsets, self.headers.word("length")) != size
            count = int(np.argmax(other)) if other.any() else count
        return offsets[:count], lengths[:count]

    def _offsets_by_lengths(self, at: int) -> tuple[Offsets, Numbers]:
        """Returns offsets and lengths by the length words, up to the first impossible one."""
        unpack = struct.Struct(f"{self.headers.word('length').byteorder}i").unpack_from
        least, stop = self.form.mark_size, min(self.stop, at + BYTES)
        data, last = memoryview(self.data.data), self.headers.end - least
        sizes: list[int] = []
        after = at
        while after <= last and after < stop and len(sizes) < RECORDS:
            (length,) = unpack(data, after)
            if length < least or after + length > self.headers.end:
                break
            sizes.append(length)
            after += length
        lengths = np.array(sizes, np.int64)
        return at + np.cumsum(lengths) - lengths, lengths


_TRUNCATED = "the file was truncated; copy it again, or extract again"


def _describe_lengths(table: TableLayout) -> str:
    return f"{table.least}" if table.fixed else f"{table.least} to {table.greatest}"
