"""Finding the records of a file.

OPEN NORMAL records have one length: they are found by multiplication.  All others say how long they
are; the reader goes from one to the next and believes a length only where the header is one that may
stand there, the items use up the record, and the record leads to another or to the end of the file.
Where one of these fails it looks for whose fault it is, one record at a time: a wrong length, a wrong
header or a wrong item costs that record and no other.  A record that has lost bytes leads into the one
behind it: where a whole record begins inside another that leads nowhere, the inner one is believed.
Records of tables that the settings describe wrongly are told from damage by their lengths, which lead
from one to the next.  Behind damage of any size the reader goes on at the next place where a whole
record can stand.

What is found at an offset depends on the bytes from there on only, so that a record can be read again
by itself and every cut at the begin of a record gives the same records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from publisher.sources.columns.byte_areas import Bytes, Mask, Offsets
from publisher.sources.linkexpress.doubts import NeighbourCheck, RecordSpan
from publisher.sources.linkexpress.headers import HeaderBatch, HeaderReader, Numbers
from publisher.sources.linkexpress.item_offsets import TableLayout
from publisher.sources.linkexpress.layout import RecordForm
from publisher.sources.linkexpress.record_starts import RecordStarts

RECORDS = 8192
"""Records of a block, at most."""
BYTES = 4 << 20
"""Bytes of a block, about."""
_FEW = 16
_RUN = 4
"""Records in a row that the settings do not describe and that need no good one behind them."""
_NONE: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Some records in a row."""

    offsets: Offsets
    lengths: Numbers
    heads: HeaderBatch
    broken: Mapping[int, str] = field(default_factory=lambda: _NONE)
    """Why pieces of this block are no records, by their place in it."""

    @property
    def good(self) -> Mask:
        """Which of them are records with a header that may stand there."""
        if not self.broken:
            return self.heads.good
        good = self.heads.good.copy()
        good[list(self.broken)] = False
        return good

    @property
    def end(self) -> int:
        """Offset after the last one."""
        return int(self.offsets[-1] + self.lengths[-1])


@dataclass(frozen=True)
class RecordFramer:
    """Finds the records of one file, or of a part of it that ends at ``stop``.

    The part ends where a record begins; what may be a record is judged by the whole file, so that a
    part gives what the file gives."""

    headers: HeaderReader
    stop: int

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
        """The tables whose records there may be."""
        return self.headers.tables

    @property
    def end(self) -> int:
        """Bytes of the file."""
        return self.headers.end

    @cached_property
    def _places(self) -> RecordStarts:
        return RecordStarts(self.headers)

    def heads(self, at: Offsets) -> HeaderBatch:
        """The headers at offsets."""
        return self.headers.read(at)

    def blocks(self, start: int) -> Iterator[RecordBlock]:
        """The records from ``start`` on, every byte in exactly one."""
        if not self.form.has_length:
            yield from self._by_multiplication(start)
            return
        at, size = start, RECORDS
        while at < self.stop:
            block = self._chain(at, size)
            if len(block.offsets):
                size = min(size * 4, RECORDS) if len(block.offsets) == size else _FEW
            else:
                block = self._one_by_one(at)
                size = _FEW
            yield block
            at = block.end

    def _by_multiplication(self, start: int) -> Iterator[RecordBlock]:
        size = self.tables[0].greatest
        step = size * max(1, min(RECORDS, BYTES // size))
        for at in range(start, self.stop, step):
            offsets = np.arange(at, min(at + step, self.stop), size, dtype=np.int64)
            lengths = np.full(len(offsets), size, np.int64)
            yield RecordBlock(offsets, lengths, self.heads(offsets))

    def one(self, at: int) -> RecordBlock:
        """The record at an offset, or the piece that is none, judged by all that can be known of it."""
        if not self.form.has_length:
            here = np.array([at], np.int64)
            return RecordBlock(
                here, np.array([self.tables[0].greatest], np.int64), self.heads(here)
            )
        return self._block_of([self._examine(at)])

    def exact(self, block: RecordBlock) -> int:
        """How many records of a block use up their length."""
        used = self.headers.used(block.offsets, block.heads)
        return int((block.good & (used == block.lengths)).sum())

    def _one_by_one(self, at: int) -> RecordBlock:
        """Records and pieces around damage, up to some good records in a row."""
        pieces: list[RecordSpan] = []
        begin, good = at, 0
        while at < self.stop and at - begin < BYTES and len(pieces) < RECORDS and good < _FEW:
            piece = self._examine(at)
            pieces.append(piece)
            good = good + 1 if piece.why is None else 0
            at += piece.length
        return self._block_of(pieces)

    def _block_of(self, pieces: list[RecordSpan]) -> RecordBlock:
        offsets = np.array([piece.offset for piece in pieces], np.int64)
        lengths = np.array([piece.length for piece in pieces], np.int64)
        broken = {n: piece.why for n, piece in enumerate(pieces) if piece.why is not None}
        return RecordBlock(offsets, lengths, self.heads(offsets), broken)

    def _chain(self, at: int, most: int) -> RecordBlock:
        """The records that follow each other from an offset, as long as nothing speaks against them:
        some of those that ``_examine`` would give."""
        offsets, lengths = self._evenly(at, most)
        if len(offsets):
            block = self._believed(offsets, lengths, evenly=True)
            if len(block.offsets):
                return block
        offsets, lengths = self._by_lengths(at, most)
        return self._believed(offsets, lengths, evenly=False)

    def _believed(self, offsets: Offsets, lengths: Numbers, *, evenly: bool) -> RecordBlock:
        """The first of some records, up to one that must be looked at by itself."""
        count = len(offsets)
        if not count:
            return RecordBlock(offsets, lengths, self.heads(offsets))
        after = int(offsets[-1] + lengths[-1])
        every = np.append(offsets, after)
        heads = self.heads(every)
        used = self.headers.used(every, heads)
        good = np.append(heads.good[1:count], heads.good[count] or after == self.end)
        whole = heads.good & (used == heads.length)
        # a good header that is not whole must lead on itself to be led to
        leads = np.append(whole[1:count] | good[1:], whole[count] or after == self.end)
        right = whole[:count] & good & leads
        heads, used = heads.taken(slice(count)), used[:count]
        odd = (heads.odd | heads.good) & ~whole[:count]
        if not evenly and odd[: _leading(right | odd)].any():
            runs = self._running(heads, after)
            odd &= good | runs
            odd &= ~self._lead_elsewhere(offsets, heads, used)
            right |= odd | (whole[:count] & np.append(runs[1:], False))
            right &= ~self._hiding(offsets, lengths, odd & (np.arange(count) < _leading(right)))
        stop = _leading(right)
        return RecordBlock(offsets[:stop], lengths[:stop], heads.taken(slice(stop)))

    def _running(self, heads: HeaderBatch, after: int) -> Mask:
        """Which records of a row the settings do not describe, though they lead, by their lengths, to a
        good header or the end of the file, or to some more of their kind."""
        if not heads.odd.any():
            return heads.odd
        odd, ends = self._ahead(after)
        odd = np.concatenate([heads.odd, odd])
        ends = np.concatenate([heads.good, ends, [False]])
        others = np.append(np.flatnonzero(~odd), len(odd))
        behind = np.arange(1, len(heads.odd) + 1)
        other = others[np.searchsorted(others, behind)]
        return np.asarray(heads.odd & ((other - behind >= _RUN) | ends[other]))

    def _ahead(self, at: int) -> tuple[Mask, Mask]:
        """Of the next few places that lengths lead to: odd headers, and the end of these, a good header
        or the end of the file."""
        odd: list[bool] = []
        ends: list[bool] = []
        for _ in range(_RUN):
            head = self.heads(np.array([at], np.int64))
            odd.append(bool(head.odd[0]))
            ends.append(bool(head.good[0]) or at == self.end)
            if not odd[-1]:
                break
            at += int(head.length[0])
        return np.array(odd, bool), np.array(ends, bool)

    def _lead_elsewhere(self, offsets: Offsets, heads: HeaderBatch, used: Numbers) -> Mask:
        """Which records lead, by their items, to another good header than by their length."""
        ends = offsets + used
        good = self.heads(ends).good | (ends == self.end)
        return np.asarray((used > 0) & (used != heads.length) & good)

    def _hiding(self, offsets: Offsets, lengths: Numbers, chosen: Mask) -> Mask:
        """In which of the chosen records a good header stands."""
        found = np.zeros(len(offsets), bool)
        places = np.flatnonzero(chosen)
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else ()
        for run in runs:
            stop = int(offsets[run[-1]] + lengths[run[-1]])
            inner = self._places.between(int(offsets[run[0]]), stop)
            holders = np.searchsorted(offsets, inner, side="right") - 1
            found[holders[offsets[holders] != inner]] = True
        return found

    def _evenly(self, at: int, most: int) -> tuple[Offsets, Numbers]:
        """Offsets and lengths of records of one length; none where their lengths differ."""
        one = self.tables[0].fixed if len(self.tables) == 1 and self.form.extra < 2 else None
        many = 0 if one is None else min(most, (self.stop - at) // one, max(1, BYTES // one))
        lengths = np.full(many, one or 0, np.int64)
        return at + np.arange(many, dtype=np.int64) * (one or 0), lengths

    def _by_lengths(self, at: int, most: int) -> tuple[Offsets, Numbers]:
        """Offsets and lengths as the length words say, up to the first that cannot be."""
        read = struct.Struct(f"{self.headers.word('length').byteorder}i").unpack_from
        least, stop = self.form.mark_size, min(self.stop, at + BYTES)
        data, last = memoryview(self.data.data), self.end - least
        found: list[int] = []
        after = at
        while after <= last and after < stop and len(found) < most:
            (length,) = read(data, after)
            if length < least or after + length > self.end:
                break
            found.append(length)
            after += length
        lengths = np.array(found, np.int64)
        offsets = at + np.concatenate([[0], np.cumsum(lengths)[:-1]]) if found else lengths
        return offsets.astype(np.int64), lengths

    def _examine(self, at: int) -> RecordSpan:
        """The record at an offset, or the piece that is none, judged by all that can be known of it."""
        head, length, used = self._look(at)
        end = at + length
        if used and used != length and self._is_good(at + used):
            why = f"LEN says {length} bytes, the record has {used}; the file is damaged, extract again"
            return RecordSpan(at, used, why)
        fits = self.form.mark_size <= length <= self.end - at
        if fits and used == length:
            if not self._places.is_crossed(at, end) or self._leads_on(end):
                doubt = NeighbourCheck(self.headers, self._places).of(at, end)
                return doubt if doubt is not None else RecordSpan(at, length)
            size = self._places.next(at + 1, end) - at
            why = f"LEN says {length} bytes, but the next record begins after {size} and is whole:"
            return RecordSpan(at, size, f"{why} bytes are missing here; extract again")
        runs = head is not None and bool(head.odd[0]) and self._runs(head, end)
        size = self._places.next(at + 1, end if runs else self.end) - at
        if fits and (runs or self._is_good(end)) and not self._places.is_touched(at, end):
            greatest = self._greatest(at, head)
            if runs or length <= size or length <= greatest:
                return RecordSpan(at, length)
        seen = f" (LEN would be {length})" if size >= self.form.mark_size else ""
        why = f"no record begins here nor in the {size} bytes from here{seen}"
        if at + size == self.end and length > size:
            why = f"LEN says {length} bytes, {size} are left; the file was cut or damaged"
        return RecordSpan(at, size, f"{why}, extract again")

    def _look(self, at: int) -> tuple[HeaderBatch | None, int, int]:
        """The header at an offset, ``None`` of a good one; the length by LEN and by the items."""
        place = self._places.at(at)
        if place is not None:
            return None, place.length, place.used
        here = np.array([at], np.int64)
        head = self.heads(here)
        return head, int(head.length[0]), int(self.headers.used(here, head)[0])

    def _runs(self, head: HeaderBatch, end: int) -> bool:
        return bool(self._running(head, end)[0])

    def _greatest(self, at: int, head: HeaderBatch | None) -> int:
        """Bytes that the record at an offset may have; one of a table that the settings do not name,
        any."""
        table = int((head or self.heads(np.array([at], np.int64))).table[0])
        return self.tables[table].greatest if table >= 0 else self.end

    def _is_good(self, at: int) -> bool:
        """Whether a good header, or the end of the file, is here."""
        return at == self.end or self._places.at(at) is not None

    def _leads_on(self, at: int) -> bool:
        """Whether a record begins here, or the file ends."""
        place = self._places.at(at)
        if at == self.end or place is not None:
            return place is None or place.followed or place.whole
        head = self.heads(np.array([at], np.int64))
        return bool(head.odd[0]) and self._runs(head, at + int(head.length[0]))


def _leading(right: Mask) -> int:
    """How many are right before the first that is not."""
    return len(right) if right.all() else int(np.argmin(right))
