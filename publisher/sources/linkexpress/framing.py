"""Finding the records of a file.

OPEN NORMAL records have one length: they are found by multiplication.  All others say how long they
are; the reader goes from one to the next and believes a length only where the header is one that may
stand there and the items use up the record.  Where that fails it looks for whose fault it is, one
record at a time: a wrong length, a wrong header or a wrong item costs that record and no other.
Behind damage of any size it goes on at the next place where a whole record can stand.

What is found at an offset depends on the bytes from there on only, so that a record can be read again
by itself and every cut at the begin of a record gives the same records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from publisher.sources.areas import Bytes, Mask, Offsets, numbers_at
from publisher.sources.linkexpress.cells import TableLayout
from publisher.sources.linkexpress.layout import (
    COMMIT,
    EMPTY,
    FLAG,
    Form,
    word_offsets,
    word_type,
)
from publisher.sources.linkexpress.options import GREATEST_XID, ByteOrder

RECORDS = 8192
"""Records of a block, at most."""
BYTES = 4 << 20
"""Bytes of a block, about."""
_FIRST_WINDOW, _WINDOW = 1 << 10, 1 << 18
"""Bytes that are searched at once for a record."""
_FEW = 16
_RUN = 4
"""Records of unknown tables in a row that need no known one behind them."""

UNKNOWN, MARK, NO_ROWS = -1, -2, -3
"""In place of the number of a table: none that the settings name, a commit record, a record that says
that a full extract has no rows."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Heads:
    """What the headers at some offsets say."""

    length: Numbers
    count: Numbers
    xid: Numbers
    flag: Numbers
    code: Numbers
    table: Numbers
    """Number of the table, or one of ``UNKNOWN``, ``MARK``, ``NO_ROWS``."""
    good: Mask
    """Whether such a header may stand there."""
    stranger: Mask
    """Whether it might, if its extraction identifier were that of a table."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some records in a row."""

    offsets: Offsets
    lengths: Numbers
    heads: Heads
    broken: str | None = None
    """Why the one piece of this block is no record; ``None`` where these are records."""


@dataclass(frozen=True)
class Framer:
    """Finds the records of one file, or of a part of it that ends at ``stop``.

    The part ends where a record begins; what may be a record is judged by the whole file, so that a
    part gives what the file gives."""

    data: Bytes
    form: Form
    tables: tuple[TableLayout, ...]
    xids: Mapping[int, int]
    """Number of a table by its extraction identifier."""
    order: ByteOrder
    stop: int
    _words: dict[str, np.dtype[Any]] = field(init=False, repr=False)
    _limits: npt.NDArray[np.int64] = field(init=False, repr=False)
    """Bytes at the least and at the most, items; by table."""

    def __post_init__(self) -> None:
        words = {word: word_type(word, self.order) for word in self.form.words}
        limits = [(each.least, each.greatest, len(each.items)) for each in self.tables]
        object.__setattr__(self, "_words", words)
        object.__setattr__(self, "_limits", np.array(limits, np.int64).T)

    @property
    def end(self) -> int:
        """Bytes of the file."""
        return len(self.data)

    def blocks(self, start: int) -> Iterator[Block]:
        """The records from ``start`` on, every byte in exactly one."""
        if not self.form.has_length:
            yield from self._by_multiplication(start)
            return
        at, size = start, RECORDS
        while at < self.stop:
            offsets, lengths, heads = self._chain(at, size)
            if len(offsets):
                block = Block(offsets, lengths, heads)
                size = min(size * 4, RECORDS) if len(offsets) == size else _FEW
            else:
                block = self.one(at)
                size = _FEW
            yield block
            at = int(block.offsets[-1] + block.lengths[-1])

    def _by_multiplication(self, start: int) -> Iterator[Block]:
        size = self.tables[0].greatest
        step = size * max(1, min(RECORDS, BYTES // size))
        for at in range(start, self.stop, step):
            offsets = np.arange(at, min(at + step, self.stop), size, dtype=np.int64)
            lengths = np.full(len(offsets), size, np.int64)
            yield Block(offsets, lengths, self.heads(offsets))

    def heads(self, at: Offsets) -> Heads:
        """What the headers at offsets say; one that does not lie inside is not good."""
        places, marks = word_offsets(self.form.words), word_offsets(self.form.mark_words)
        mark_size = self.form.mark_size
        inside = at + mark_size <= self.end
        safe = np.where(inside, at, 0)
        if self.end < mark_size:  # too little to look at
            nothing = np.zeros(len(at), np.int64)
            none = np.full(len(at), UNKNOWN, np.int64)
            no = inside & False
            return Heads(nothing, nothing, nothing, nothing, nothing, none, no, no)
        zeros = np.zeros(len(at), np.int64)
        found = dict.fromkeys(("length", "count", "xid", "flag", "operation"), zeros)
        for word in ("length", "count"):
            if word in places:
                found[word] = self._read(word, safe + places[word])
        is_mark = (found["count"] == 1) if COMMIT in self.form.codes else inside & False
        whole = inside & (is_mark | (at + self.form.size <= self.end))
        safe = np.where(whole, at, 0)
        for word in ("xid", "flag", "operation"):
            if word in places:
                place = np.where(is_mark & whole, marks.get(word, 0), places[word])
                found[word] = self._read(word, safe + place)
        return self._judged(at, found, is_mark & whole, whole)

    def _read(self, word: str, at: Offsets) -> Numbers:
        kind = self._words[word]
        # a header that is cut is not good, whatever is found in its place
        at = np.minimum(at, self.end - kind.itemsize)
        return numbers_at(self.data, at, kind).astype(np.int64)

    def _judged(self, at: Offsets, found: dict[str, Numbers], is_mark: Mask, whole: Mask) -> Heads:
        """Which table a header speaks of, and whether it is one that may stand there."""
        length, count, code = found["length"], found["count"], found["operation"]
        no_rows = ~is_mark & (code == EMPTY)
        table = np.full(len(at), UNKNOWN, np.int64)
        for xid, number in self.xids.items():
            table[found["xid"] == xid] = number
        least, greatest, items = self._limits[:, table]
        counted = np.full(len(at), self.form.extra > 0)
        right_count = ~counted | (count == items + self.form.extra)
        if self.form.has_length:
            right_length = (length >= least) & (length <= greatest)
        else:
            length = np.full(len(at), self.tables[0].greatest, np.int64)
            right_length = whole
        data = right_count & right_length & (table != UNKNOWN) & (code != COMMIT)
        mark = (length == self.form.mark_size) & (code == COMMIT)
        empty = (length == self.form.size) & (~counted | (count == self.form.extra) | right_count)
        if not self.form.has_length:
            empty = whole & False  # a file of its own, never a record among others
        legal = np.isin(code, list(self.form.codes)) & (found["flag"] == 0) & whole
        strange = (table == UNKNOWN) & legal & ~is_mark & ~no_rows & (code != COMMIT)
        strange &= self._is_plausible(at, found)
        good = legal & np.where(is_mark, mark, np.where(no_rows, empty, data))
        table = np.where(is_mark, MARK, np.where(no_rows & empty, NO_ROWS, table))
        if self.form.has_length:
            good &= at + length <= self.end
        return Heads(length, count, found["xid"], found["flag"], code, table, good, strange)

    def _is_plausible(self, at: Offsets, found: dict[str, Numbers]) -> Mask:
        """Whether headers may be those of a table that the settings do not name."""
        if "xid" not in self.form.words:
            return np.zeros(len(at), bool)
        length, items, xid = found["length"], found["count"] - self.form.extra, found["xid"]
        least = self.form.size + items * (FLAG if self.form.nulls else 1)
        inside = (length >= least) & (at + length <= self.end)
        return np.asarray(inside & (items > 0) & (xid > 0) & (xid <= GREATEST_XID))

    def _chain(self, at: int, most: int) -> tuple[Offsets, Numbers, Heads]:
        """The records that follow each other from an offset, as long as nothing speaks against them."""
        offsets, lengths = self._lengths(at, most)
        heads = self.heads(offsets)
        wrong = ~(heads.good & (self._used(offsets, heads) == lengths))
        running = self._running(offsets, heads)
        wrong &= ~running
        stop = int(np.argmax(wrong)) if wrong.any() else len(offsets)
        stop = self._before_hidden(offsets, lengths, running[:stop])
        return offsets[:stop], lengths[:stop], _first(heads, stop)

    def _running(self, offsets: Offsets, heads: Heads) -> Mask:
        """Which of some records in a row are those of an unknown table: such that lead, by their
        lengths, to a good header or the end of the file, or to some more of their kind."""
        if not heads.stranger.any():
            return heads.stranger
        strange, ends = self._ahead(int(offsets[-1] + heads.length[-1]))
        strange = np.concatenate([heads.stranger, strange])
        ends = np.concatenate([heads.good, ends, [False]])
        others = np.append(np.flatnonzero(~strange), len(strange))
        after = np.arange(1, len(offsets) + 1)
        other = others[np.searchsorted(others, after)]
        return np.asarray(heads.stranger & ((other - after >= _RUN) | ends[other]))

    def _ahead(self, at: int) -> tuple[Mask, Mask]:
        """Of the next few places that lengths lead to: those of unknown tables, and the end of these,
        a good header or the end of the file."""
        strange: list[bool] = []
        ends: list[bool] = []
        for _ in range(_RUN):
            head = self.heads(np.array([at], np.int64))
            strange.append(bool(head.stranger[0]))
            ends.append(bool(head.good[0]) or at == self.end)
            if not strange[-1]:
                break
            at += int(head.length[0])
        return np.array(strange, bool), np.array(ends, bool)

    def _before_hidden(self, offsets: Offsets, lengths: Numbers, running: Mask) -> int:
        """How many of some records come before one of an unknown table in which another begins."""
        places = np.flatnonzero(running)
        if not len(places):
            return len(running)
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            stop = int(offsets[run[-1]] + lengths[run[-1]])
            inner = self._next_record(int(offsets[run[0]]) + 1, stop)
            if inner < stop:
                return int(np.searchsorted(offsets, inner, side="right")) - 1
        return len(running)

    def _lengths(self, at: int, most: int) -> tuple[Offsets, Numbers]:
        """Offsets and lengths as the length words say, up to the first that cannot be."""
        one = self.tables[0].fixed if len(self.tables) == 1 and self.form.extra < 2 else None
        if one is not None:
            many = min(most, (self.stop - at) // one, max(1, BYTES // one))
            offsets = at + np.arange(many, dtype=np.int64) * one
            return offsets, np.full(many, one, np.int64)
        read = struct.Struct(f"{self._words['length'].byteorder}i").unpack_from
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

    def exact(self, block: Block) -> int:
        """How many records of a block use up their length."""
        if block.broken is not None:
            return 0
        return int((self._used(block.offsets, block.heads) == block.lengths).sum())

    def _used(self, offsets: Offsets, heads: Heads) -> Numbers:
        """Bytes that the items of good records use up with their headers; -1 where they do not fit."""
        used = np.where(heads.table < UNKNOWN, heads.length, -1)
        for number, table in enumerate(self.tables):
            chosen = np.flatnonzero(heads.good & (heads.table == number))
            if not len(chosen):
                continue
            if table.fixed is not None:
                used[chosen] = table.fixed
                continue
            at = offsets[chosen]
            cells = table.cells(self.data, at, np.full(len(at), self.end, np.int64))
            used[chosen] = np.where(cells.fault < 0, cells.ends - at, -1)
        return used

    def one(self, at: int) -> Block:
        """The record at an offset, or the piece that is none, judged by all that can be known of it."""
        here = np.array([at], np.int64)
        heads = self.heads(here)
        if not self.form.has_length:
            return Block(here, heads.length, heads)
        length, used = int(heads.length[0]), self._by_items(here, heads)
        if used and used != length and self._may_follow(at + used):
            why = f"LEN says {length} bytes, the record has {used}; the file is damaged, extract again"
            return self._broken(here, used, heads, why)
        fits = self.form.mark_size <= length <= self.end - at
        if fits and used == length:
            return Block(here, heads.length, heads)
        runs = bool(self._running(here, heads)[0])
        size = self._next_record(at + 1, at + length if runs else self.end) - at
        fits = fits and (length <= size or length <= self._greatest(int(heads.table[0])))
        follows = runs or (fits and self._may_follow(at + length))
        if fits and follows and not self._leads(at + size, at + length):
            return Block(here, heads.length, heads)
        seen = f" (LEN would be {length})" if size >= self.form.mark_size else ""
        why = f"no record begins here nor in the {size} bytes from here{seen}"
        if at + size == self.end and length > size:
            why = f"LEN says {length} bytes, {size} are left; the file was cut or damaged"
        return self._broken(here, size, heads, f"{why}, extract again")

    def _greatest(self, table: int) -> int:
        """Bytes that a record may have; one of a table that the settings do not name, any."""
        return self.tables[table].greatest if table >= 0 else self.end

    def _by_items(self, here: Offsets, heads: Heads) -> int:
        """Bytes of the record by its items, whatever its length word says; 0 where they do not fit."""
        number = int(heads.table[0])
        if number < 0:
            return self.form.mark_size if number == MARK else 0
        table = self.tables[number]
        if int(here[0]) + table.least > self.end:
            return 0
        if table.fixed is not None:
            return table.fixed
        cells = table.cells(self.data, here, np.array([self.end], np.int64))
        return int(cells.ends[0] - here[0]) if cells.fault[0] < 0 else 0

    def _may_follow(self, at: int) -> bool:
        """Whether a record may end here."""
        if at >= self.end:
            return at == self.end
        return bool(self.heads(np.array([at], np.int64)).good[0])

    def _leads(self, at: int, stop: int) -> bool:
        """Whether records follow each other from one offset to another, a few at the most."""
        for _ in range(_FEW):
            if at >= stop:
                return False
            head = self.heads(np.array([at], np.int64))
            if not head.good[0]:
                return False
            at += int(head.length[0])
            if at == stop:
                return True
        return False

    def _broken(self, here: Offsets, size: int, heads: Heads, why: str) -> Block:
        return Block(here, np.array([size], np.int64), heads, why)

    def _next_record(self, start: int, stop: int) -> int:
        """Offset of the next whole record from ``start`` on, ``stop`` where none begins before it."""
        first, window = start, _FIRST_WINDOW
        while first < stop:
            at = np.arange(first, min(first + window, stop), dtype=np.int64)
            first, window = first + window, min(window * 4, _WINDOW)
            heads = self.heads(at)
            candidates = np.flatnonzero(heads.good)
            used = self._used(at[candidates], _picked(heads, candidates))
            for place, size in zip(candidates.tolist(), used.tolist(), strict=True):
                length = int(heads.length[place])
                if size == length or self._may_follow(int(at[place]) + length):
                    return int(at[place])
        return stop


def _first(heads: Heads, count: int) -> Heads:
    return _picked(heads, slice(0, count))


def _picked(heads: Heads, chosen: Any) -> Heads:
    return Heads(
        heads.length[chosen],
        heads.count[chosen],
        heads.xid[chosen],
        heads.flag[chosen],
        heads.code[chosen],
        heads.table[chosen],
        heads.good[chosen],
        heads.stranger[chosen],
    )
