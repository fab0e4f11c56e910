"""The offsets of a file where records may begin, found by examining every byte.

After damage, the framer searches for the next record, and repeatedly asks whether a record begins inside
another.  Each stretch of the file is examined once and remembered, so the time of a search grows linearly
with the number of bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from publisher.sources.columns.byte_areas import Mask, Offsets, numbers_at
from publisher.sources.linkexpress.headers import HeaderReader, Numbers

_STRETCH = 1 << 14
"""Bytes that are examined together."""
_REMEMBERED = 512
"""Number of remembered stretches."""
REACH = _STRETCH * (_REMEMBERED - 2)
"""Number of bytes at the end of a record that are searched for the beginning of another record."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The good headers that begin in one stretch of a file."""

    offsets: Offsets
    lengths: Numbers
    used: Numbers
    """Length of each record by its items."""
    followed: Mask
    """Marks records that end at another good header, or at the end of the file."""
    sound: Mask
    """Marks records with valid NULL areas: values may look like a header, but seldom like NULL areas, too."""
    last: int
    """Largest end of a linked record."""

    @property
    def whole(self) -> Mask:
        """Marks records whose items fill the length."""
        return np.equal(self.used, self.lengths)

    @property
    def linked(self) -> Mask:
        """Marks records that are certainly intact."""
        return self.followed & self.whole & self.sound


@dataclass(frozen=True, slots=True)
class RecordStart:
    """The record of a good header."""

    length: int
    used: int
    followed: bool

    @property
    def whole(self) -> bool:
        """True if the items fill the length."""
        return self.used == self.length


class RecordStarts:
    """Offsets where records may begin, by their headers, their items and the bytes after them."""

    def __init__(self, headers: HeaderReader) -> None:
        self._headers = headers
        self._stretches: OrderedDict[int, Stretch] = OrderedDict()
        self._least, self._greatest = headers.lengths
        self._empty = (0, 0)
        """Range of offsets in which no record begins."""

    def at(self, offset: int) -> RecordStart | None:
        """Returns the record of the good header at an offset, or ``None``."""
        if not 0 <= offset < self._headers.end:
            return None
        stretch = self._stretch(offset // _STRETCH)
        place = int(np.searchsorted(stretch.offsets, offset))
        if place == len(stretch.offsets) or stretch.offsets[place] != offset:
            return None
        return RecordStart(
            int(stretch.lengths[place]), int(stretch.used[place]), bool(stretch.followed[place])
        )

    def next(self, start: int, stop: int) -> int:
        """Finds the offset of the next record from ``start`` on; ``stop`` if none begins before it.

        A record counts if another one follows it, or if it is whole and no linked record crosses its end.
        """
        first, last = self._empty
        at = last if first <= start < last else start
        while at < stop:
            number = at // _STRETCH
            offset = self._first(self._stretch(number), at)
            at = (number + 1) * _STRETCH if offset is None else offset
            if offset is not None:
                break
        if not first <= start <= last:
            first = start
        self._empty = (first, min(at, stop))
        return min(at, stop)

    def _first(self, stretch: Stretch, start: int) -> int | None:
        begin = int(np.searchsorted(stretch.offsets, start))
        likely = stretch.sound & (stretch.followed | stretch.whole)
        candidates = np.flatnonzero(likely[begin:]) + begin
        for place in candidates.tolist():
            at, length = int(stretch.offsets[place]), int(stretch.lengths[place])
            if stretch.followed[place] or not self.is_crossed(at, at + length):
                return at
        return None

    def between(self, start: int, stop: int) -> Offsets:
        """Returns the offsets of all good headers from ``start`` up to ``stop``."""
        if stop <= start:
            return np.zeros(0, np.int64)
        numbers = range(start // _STRETCH, -(-stop // _STRETCH))
        offsets = np.concatenate([self._stretch(number).offsets for number in numbers])
        return offsets[(offsets >= start) & (offsets < stop)]

    def is_crossed(self, start: int, end: int) -> bool:
        """Returns whether a linked record begins between two offsets and ends beyond the second.

        Then no record begins at the first offset and ends at the second.
        """
        for stretch, chosen in self._inside(start, end):
            ends = (stretch.offsets + stretch.lengths)[chosen]
            if stretch.last > end and (stretch.linked[chosen] & (ends > end)).any():
                return True
        return False

    def find_crossing(self, start: int, end: int) -> int | None:
        """Finds the first good header between two offsets whose record ends beyond the second.

        In full extracts headers are zeros, so a header counts only if valid NULL areas follow it.
        """
        form = self._headers.form
        is_distinct = form.extra > 0 or 0 not in form.codes
        for stretch, chosen in self._inside(start, end):
            ends = (stretch.offsets + stretch.lengths)[chosen]
            hits = np.flatnonzero((ends > end) & (stretch.sound[chosen] | is_distinct))
            if len(hits):
                return int(stretch.offsets[chosen][hits[0]])
        return None

    def is_touched(self, start: int, end: int) -> bool:
        """Returns whether a good record begins between two offsets and ends at the second."""
        return any(
            bool(((stretch.offsets + stretch.lengths)[chosen] == end).any())
            for stretch, chosen in self._inside(start, end)
        )

    def _inside(self, start: int, end: int) -> list[tuple[Stretch, slice]]:
        reach = min(self._greatest, REACH)
        first = max(start + 1, end - reach)
        if first >= end:
            return []
        parts = []
        for number in range(first // _STRETCH, (end - 1) // _STRETCH + 1):
            stretch = self._stretch(number)
            begin, stop = np.searchsorted(stretch.offsets, [first, end])
            if begin < stop:
                parts.append((stretch, slice(int(begin), int(stop))))
        return parts

    def _stretch(self, number: int) -> Stretch:
        stretch = self._stretches.get(number)
        if stretch is None:
            stretch = self._stretches[number] = self._examine(number * _STRETCH)
            if len(self._stretches) > _REMEMBERED:
                self._stretches.popitem(last=False)
        else:
            self._stretches.move_to_end(number)
        return stretch

    def _examine(self, start: int) -> Stretch:
        headers = self._headers
        kind = headers.word("length")
        at = np.arange(start, min(start + _STRETCH, headers.end - kind.itemsize + 1))
        lengths = numbers_at(headers.data, at, kind)
        at = at[(lengths >= self._least) & (lengths <= self._greatest)]
        heads = headers.read(at)
        at, heads = at[heads.good], heads.take(heads.good)
        ends = at + heads.length
        followed = (ends == headers.end) | headers.read(ends).good
        used = headers.used_lengths(at, heads)
        sound = headers.have_valid_nulls(at, heads)
        linked = ends[followed & sound & (used == heads.length)]
        return Stretch(at, heads.length, used, followed, sound, int(linked.max(initial=0)))
