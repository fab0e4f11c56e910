"""Finds the records of a file.

OPEN NORMAL records all have the same length, so their offsets are multiples of it.  All other records
contain their length.  The framer follows these lengths, and trusts a length only if the header is legal, the
items fill the record, and another record or the end of the file follows.  If a check fails, the framer
examines the records one by one, so that a wrong length, header or item affects only its own record.

* If a record has lost bytes, its length points into the next record.  So if a whole record begins inside
  a record that is not followed by another one, the framer trusts the inner record.
* If the settings describe a table wrongly, its records do not count as damaged: each length leads to the
  next record.
* After damage of any size, the framer continues at the next offset where a whole record can begin.

The result at an offset depends only on the bytes after it.  So a record can be read again by itself, and
a file that is split at the beginning of any record gives the same records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from publisher.sources.columns.byte_areas import Bytes, Mask, Offsets
from publisher.sources.linkexpress.headers import HeaderBatch, HeaderReader, Numbers
from publisher.sources.linkexpress.item_offsets import TableLayout
from publisher.sources.linkexpress.items import ItemReader
from publisher.sources.linkexpress.layout import RecordForm
from publisher.sources.linkexpress.neighbours import NeighbourCheck, RecordSpan
from publisher.sources.linkexpress.options import LinkexpressOptions
from publisher.sources.linkexpress.record_starts import RecordStarts

RECORDS = 8192
"""Maximum number of records of a block."""
BYTES = 4 << 20
"""Approximate bytes of a block."""
_FEW = 16
_RUN = 4
"""Number of consecutive records of undescribed tables that the framer accepts although no good header
follows them."""
_NONE: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Some consecutive records."""

    offsets: Offsets
    lengths: Numbers
    heads: HeaderBatch
    broken: Mapping[int, str] = field(default_factory=lambda: _NONE)
    """Explains by index why a part of this block is not a record."""

    @property
    def good(self) -> Mask:
        """Marks records with a good header."""
        if not self.broken:
            return self.heads.good
        good = self.heads.good.copy()
        good[list(self.broken)] = False
        return good

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return int(self.offsets[-1] + self.lengths[-1])


@dataclass(frozen=True)
class RecordFramer:
    """Finds the records of one file, or of a part of it that ends at ``stop``.

    The part ends where a record begins.  Checks may read beyond it, so that parts give the same records as
    the whole file.
    """

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

    @property
    def end(self) -> int:
        """Number of bytes of the file."""
        return self.headers.end

    @cached_property
    def readers(self) -> tuple[ItemReader, ...]:
        """The readers of items, by table."""
        return tuple(ItemReader(table.layout, self.options) for table in self.tables)

    @cached_property
    def _starts(self) -> RecordStarts:
        return RecordStarts(self.headers)

    def heads(self, at: Offsets) -> HeaderBatch:
        """Reads the headers at offsets."""
        return self.headers.read(at)

    def blocks(self, start: int) -> Iterator[RecordBlock]:
        """Yields the records after ``start``; every byte belongs to exactly one record."""
        if not self.form.has_length:
            yield from self._blocks_of_one_length(start)
            return
        at, size = start, RECORDS
        while at < self.stop:
            block = self._find_trusted_records(at, size)
            if len(block.offsets):
                size = min(size * 4, RECORDS) if len(block.offsets) == size else _FEW
            else:
                block = self._examine_one_by_one(at)
                size = _FEW
            yield block
            at = block.end

    def _blocks_of_one_length(self, start: int) -> Iterator[RecordBlock]:
        size = self.tables[0].greatest
        step = size * max(1, min(RECORDS, BYTES // size))
        for at in range(start, self.stop, step):
            offsets = np.arange(at, min(at + step, self.stop), size, dtype=np.int64)
            lengths = np.full(len(offsets), size, np.int64)
            yield RecordBlock(offsets, lengths, self.heads(offsets))

    def record_at(self, at: int) -> RecordBlock:
        """Finds the record at an offset, or the bytes there that are not a record, with all checks."""
        if not self.form.has_length:
            here = np.array([at], np.int64)
            return RecordBlock(
                here, np.array([self.tables[0].greatest], np.int64), self.heads(here)
            )
        return self._block_of([self._examine(at)])

    def count_exact(self, block: RecordBlock) -> int:
        """Counts records of a block whose items fill their length."""
        used = self.headers.used_lengths(block.offsets, block.heads)
        return int((block.good & (used == block.lengths)).sum())

    def _examine_one_by_one(self, at: int) -> RecordBlock:
        """Examines records and other bytes around damage, until several good records follow each other."""
        spans: list[RecordSpan] = []
        begin, good_in_row = at, 0
        while at < self.stop and at - begin < BYTES and len(spans) < RECORDS and good_in_row < _FEW:
            span = self._examine(at)
            spans.append(span)
            good_in_row = good_in_row + 1 if span.why is None else 0
            at += span.length
        return self._block_of(spans)

    def _block_of(self, spans: list[RecordSpan]) -> RecordBlock:
        offsets = np.array([span.offset for span in spans], np.int64)
        lengths = np.array([span.length for span in spans], np.int64)
        broken = {n: span.why for n, span in enumerate(spans) if span.why is not None}
        return RecordBlock(offsets, lengths, self.heads(offsets), broken)

    def _find_trusted_records(self, at: int, limit: int) -> RecordBlock:
        """Finds consecutive records that pass the quick checks; ``_examine`` finds the same records."""
        offsets, lengths = self._offsets_of_one_length(at, limit)
        if len(offsets):
            block = self._keep_trusted_records(offsets, lengths, of_one_length=True)
            if len(block.offsets):
                return block
        offsets, lengths = self._offsets_by_lengths(at, limit)
        return self._keep_trusted_records(offsets, lengths, of_one_length=False)

    def _keep_trusted_records(
        self, offsets: Offsets, lengths: Numbers, *, of_one_length: bool
    ) -> RecordBlock:
        """Returns the records before the first one that must be examined by itself."""
        count = len(offsets)
        if not count:
            return RecordBlock(offsets, lengths, self.heads(offsets))
        after = int(offsets[-1] + lengths[-1])
        with_end = np.append(offsets, after)
        heads = self.heads(with_end)
        used = self.headers.used_lengths(with_end, heads)
        good = np.append(heads.good[1:count], heads.good[count] or after == self.end)
        whole = heads.good & (used == heads.length)
        # the start of a record confirms the length of the record before it; if its own items do not fill it,
        # only together with a good header after it
        leads = np.append(whole[1:count] | good[1:], whole[count] or after == self.end)
        trusted = whole[:count] & good & leads
        heads, used = heads.take(slice(count)), used[:count]
        odd = (heads.odd | heads.good) & ~whole[:count]
        if not of_one_length and odd[: _leading(trusted | odd)].any():
            runs = self._are_in_run(heads, after)
            odd &= good | runs
            odd &= ~self._lead_elsewhere(offsets, heads, used)
            trusted |= odd | (whole[:count] & np.append(runs[1:], False))
            trusted &= ~self._hide_headers(
                offsets, lengths, odd & (np.arange(count) < _leading(trusted))
            )
        stop = _leading(trusted)
        return RecordBlock(offsets[:stop], lengths[:stop], heads.take(slice(stop)))

    def _are_in_run(self, heads: HeaderBatch, after: int) -> Mask:
        """Marks records of undescribed tables whose lengths lead to a good header, to the end of the file, or
        to several more such records."""
        if not heads.odd.any():
            return heads.odd
        odd, ends = self._look_ahead(after)
        odd = np.concatenate([heads.odd, odd])
        ends = np.concatenate([heads.good, ends, [False]])
        not_odd = np.append(np.flatnonzero(~odd), len(odd))
        following = np.arange(1, len(heads.odd) + 1)
        run_end = not_odd[np.searchsorted(not_odd, following)]
        return np.asarray(heads.odd & ((run_end - following >= _RUN) | ends[run_end]))

    def _look_ahead(self, at: int) -> tuple[Mask, Mask]:
        """Follows the lengths of a few records from an offset.

        Marks offsets with a header of an undescribed table, and offsets with a good header or at the end of
        the file.
        """
        odd: list[bool] = []
        ends: list[bool] = []
        for _ in range(_RUN):
            head = self.headers.read_one(at)
            odd.append(bool(head.odd[0]))
            ends.append(bool(head.good[0]) or at == self.end)
            if not odd[-1]:
                break
            at += int(head.length[0])
        return np.array(odd, bool), np.array(ends, bool)

    def _lead_elsewhere(self, offsets: Offsets, heads: HeaderBatch, used: Numbers) -> Mask:
        """Marks records whose items end at a good header, but not where their length word says."""
        ends = offsets + used
        good = self.heads(ends).good | (ends == self.end)
        return np.asarray((used > 0) & (used != heads.length) & good)

    def _hide_headers(self, offsets: Offsets, lengths: Numbers, chosen: Mask) -> Mask:
        """Marks the chosen records inside which another good header begins."""
        hiding = np.zeros(len(offsets), bool)
        places = np.flatnonzero(chosen)
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else ()
        for run in runs:
            stop = int(offsets[run[-1]] + lengths[run[-1]])
            inner = self._starts.between(int(offsets[run[0]]), stop)
            holders = np.searchsorted(offsets, inner, side="right") - 1
            hiding[holders[offsets[holders] != inner]] = True
        return hiding

    def _offsets_of_one_length(self, at: int, limit: int) -> tuple[Offsets, Numbers]:
        """Returns offsets and lengths if all records have one length, else nothing."""
        size = self.tables[0].fixed if len(self.tables) == 1 and self.form.extra < 2 else None
        count = 0 if size is None else min(limit, (self.stop - at) // size, max(1, BYTES // size))
        lengths = np.full(count, size or 0, np.int64)
        return at + np.arange(count, dtype=np.int64) * (size or 0), lengths

    def _offsets_by_lengths(self, at: int, limit: int) -> tuple[Offsets, Numbers]:
        """Returns offsets and lengths by the length words, up to the first impossible one."""
        unpack = struct.Struct(f"{self.headers.word('length').byteorder}i").unpack_from
        least, stop = self.form.mark_size, min(self.stop, at + BYTES)
        data, last = memoryview(self.data.data), self.end - least
        sizes: list[int] = []
        after = at
        while after <= last and after < stop and len(sizes) < limit:
            (length,) = unpack(data, after)
            if length < least or after + length > self.end:
                break
            sizes.append(length)
            after += length
        lengths = np.array(sizes, np.int64)
        offsets = at + np.concatenate([[0], np.cumsum(lengths)[:-1]]) if sizes else lengths
        return offsets.astype(np.int64), lengths

    def _examine(self, at: int) -> RecordSpan:
        """Finds the record at an offset, or the bytes there that are not a record, with all checks."""
        head, length, used = self._read_one(at)
        end = at + length
        if used and used != length and self._is_good(at + used):
            why = f"LEN says {length} bytes, the record has {used}; the file is damaged, extract again"
            return RecordSpan(at, used, why)
        in_range = self.form.mark_size <= length <= self.end - at
        if in_range and used == length:
            if not self._starts.is_crossed(at, end) or self._leads_on(end):
                check = NeighbourCheck(self.headers, self._starts, self.readers)
                damage = check.find_damage(at, end)
                return damage if damage is not None else RecordSpan(at, length)
            size = self._starts.next(at + 1, end) - at
            why = f"LEN says {length} bytes, but the next record begins after {size} and is whole:"
            return RecordSpan(at, size, f"{why} bytes are missing here; extract again")
        runs = head is not None and bool(head.odd[0]) and self._is_in_run(head, end)
        size = self._starts.next(at + 1, end if runs else self.end) - at
        if in_range and (runs or self._is_good(end)) and not self._starts.is_touched(at, end):
            greatest = self._greatest(at, head)
            if runs or length <= size or length <= greatest:
                return RecordSpan(at, length)
        hint = f" (LEN would be {length})" if size >= self.form.mark_size else ""
        why = f"no record begins here or in the {size} bytes that follow{hint}"
        if at + size == self.end and length > size:
            why = f"LEN says {length} bytes, {size} are left; the file was cut or damaged"
        return RecordSpan(at, size, f"{why}, extract again")

    def _read_one(self, at: int) -> tuple[HeaderBatch | None, int, int]:
        """Reads the header at an offset (``None`` if good), and the lengths by LEN and by the items."""
        start = self._starts.at(at)
        if start is not None:
            return None, start.length, start.used
        head = self.headers.read_one(at)
        used = self.headers.used_lengths(np.array([at], np.int64), head)
        return head, int(head.length[0]), int(used[0])

    def _is_in_run(self, head: HeaderBatch, end: int) -> bool:
        return bool(self._are_in_run(head, end)[0])

    def _greatest(self, at: int, head: HeaderBatch | None) -> int:
        """Returns the maximum length of the record at an offset.

        There is no limit for an unknown table whose header is legal otherwise.
        """
        table = int((head or self.headers.read_one(at)).table[0])
        if table >= 0:
            return self.tables[table].greatest
        return self.end if head is not None and head.odd[0] else self.headers.lengths[1]

    def _is_good(self, at: int) -> bool:
        """Returns whether a good header, or the end of the file, is at an offset."""
        return at == self.end or self._starts.at(at) is not None

    def _leads_on(self, at: int) -> bool:
        """Returns whether a record begins at an offset, or the file ends."""
        start = self._starts.at(at)
        if at == self.end or start is not None:
            return start is None or start.followed or start.whole
        head = self.headers.read_one(at)
        return bool(head.odd[0]) and self._is_in_run(head, at + int(head.length[0]))


def _leading(marks: Mask) -> int:
    """Counts true values before the first false one."""
    return len(marks) if marks.all() else int(np.argmin(marks))
