"""The places of a file where records may begin, found by looking at every byte.

Damage makes the reader search.  It asks for the next place again and again, and whether a record begins
inside another; so the places are looked for once for each stretch of the file and remembered, and the
time that a search takes grows with the bytes and not with their square.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from publisher.sources.columns.byte_areas import Mask, Offsets, numbers_at
from publisher.sources.linkexpress.headers import HeaderReader, Numbers

_STRETCH = 1 << 14
"""Bytes that are looked at together."""
_REMEMBERED = 512
"""Stretches that are remembered."""
REACH = _STRETCH * (_REMEMBERED - 2)
"""Bytes before the end of a record in which another may begin that reaches beyond it."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The good headers that begin in one stretch of a file."""

    offsets: Offsets
    lengths: Numbers
    used: Numbers
    """Bytes by the items."""
    followed: Mask
    """Whether another good header, or the end of the file, is where the length leads."""
    sound: Mask
    """Whether the NULL areas can be such: values may look like a header, seldom like a record."""
    last: int
    """Where the farthest of the linked ones ends."""

    @property
    def whole(self) -> Mask:
        """Whether the items use up the length."""
        return np.equal(self.used, self.lengths)

    @property
    def linked(self) -> Mask:
        """Which are records beyond doubt."""
        return self.followed & self.whole & self.sound


@dataclass(frozen=True, slots=True)
class RecordStart:
    """A good header."""

    length: int
    used: int
    followed: bool

    @property
    def whole(self) -> bool:
        """Whether the items use up the length."""
        return self.used == self.length


class RecordStarts:
    """Where records may begin, by their headers, their items and what follows them."""

    def __init__(self, headers: HeaderReader) -> None:
        self._headers = headers
        self._stretches: OrderedDict[int, Stretch] = OrderedDict()
        self._least, self._greatest = headers.lengths
        self._empty = (0, 0)
        """From and up to where no record is known to begin."""

    def at(self, offset: int) -> RecordStart | None:
        """The good header at an offset."""
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
        """Offset of the next record from ``start`` on, ``stop`` where none begins before it.

        A record is followed by another, or whole; then no better one may begin inside it."""
        first, last = self._empty
        at = last if first <= start < last else start
        while at < stop:
            number = at // _STRETCH
            found = self._first(self._stretch(number), at)
            at = (number + 1) * _STRETCH if found is None else found
            if found is not None:
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
        """Offsets of all good headers from ``start`` up to ``stop``."""
        numbers = range(start // _STRETCH, -(-stop // _STRETCH))
        found = np.concatenate([self._stretch(number).offsets for number in numbers])
        return found[(found >= start) & (found < stop)]

    def is_crossed(self, start: int, end: int) -> bool:
        """Whether a whole record that another follows begins between two offsets and reaches beyond the
        second: then no record goes from the one to the other."""
        for stretch, chosen in self._inside(start, end):
            ends = (stretch.offsets + stretch.lengths)[chosen]
            if stretch.last > end and (stretch.linked[chosen] & (ends > end)).any():
                return True
        return False

    def reaching(self, start: int, end: int) -> int | None:
        """Offset of the first good header between two offsets whose record reaches beyond the second.

        A header of zeros, as full extracts have it, is counted only with sound NULL areas behind it."""
        form = self._headers.form
        is_telling = form.extra > 0 or 0 not in form.codes
        for stretch, chosen in self._inside(start, end):
            ends = (stretch.offsets + stretch.lengths)[chosen]
            hits = np.flatnonzero((ends > end) & (stretch.sound[chosen] | is_telling))
            if len(hits):
                return int(stretch.offsets[chosen][hits[0]])
        return None

    def is_touched(self, start: int, end: int) -> bool:
        """Whether a good record begins between two offsets and ends at the second."""
        return any(
            bool(((stretch.offsets + stretch.lengths)[chosen] == end).any())
            for stretch, chosen in self._inside(start, end)
        )

    def _inside(self, start: int, end: int) -> list[tuple[Stretch, slice]]:
        reach = min(self._greatest, REACH)
        first = max(start + 1, end - reach)
        if first >= end:
            return []
        found = []
        for number in range(first // _STRETCH, (end - 1) // _STRETCH + 1):
            stretch = self._stretch(number)
            begin, stop = np.searchsorted(stretch.offsets, [first, end])
            if begin < stop:
                found.append((stretch, slice(int(begin), int(stop))))
        return found

    def _stretch(self, number: int) -> Stretch:
        found = self._stretches.get(number)
        if found is None:
            found = self._stretches[number] = self._look(number * _STRETCH)
            if len(self._stretches) > _REMEMBERED:
                self._stretches.popitem(last=False)
        else:
            self._stretches.move_to_end(number)
        return found

    def _look(self, start: int) -> Stretch:
        headers = self._headers
        kind = headers.word("length")
        at = np.arange(start, min(start + _STRETCH, headers.end - kind.itemsize + 1))
        lengths = numbers_at(headers.data, at, kind)
        at = at[(lengths >= self._least) & (lengths <= self._greatest)]
        heads = headers.read(at)
        at, heads = at[heads.good], heads.taken(heads.good)
        ends = at + heads.length
        followed = (ends == headers.end) | headers.read(ends).good
        used = headers.used(at, heads)
        sound = headers.sound(at, heads)
        linked = ends[followed & sound & (used == heads.length)]
        return Stretch(at, heads.length, used, followed, sound, int(linked.max(initial=0)))
