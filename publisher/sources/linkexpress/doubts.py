"""Whole records that lead nowhere, and whose neighbourhood shows that bytes are missing or too many.

LEN and the items of a damaged record may agree by chance: where it has lost as many bytes as its items
take from the next record, or where bytes were added behind a variable item.  Then no record begins at
its end.  The same is true of an intact record before a damaged header, so a record is rejected only if
another header crosses its end, or stands so close behind it that no record fits between and bytes of
the record appear twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from publisher.sources.linkexpress.headers import HeaderReader
from publisher.sources.linkexpress.layout import COMMIT, mark
from publisher.sources.linkexpress.record_starts import RecordStarts


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """A record, or bytes that are none."""

    offset: int
    length: int
    why: str | None = None
    """Why it is no record."""


@dataclass(frozen=True, slots=True)
class NeighbourCheck:
    """Judges whole records of one file by what follows them."""

    headers: HeaderReader
    places: RecordStarts

    def of(self, at: int, end: int) -> RecordSpan | None:
        """The piece to reject in place of a whole record; ``None`` where nothing speaks against it."""
        if end == self.headers.end or self.places.at(end) is not None:
            return None
        inner = self._reaching(at, end)
        if inner is not None:
            why = f"LEN says {end - at} bytes, but a record that reaches beyond begins after {inner - at}"
            return RecordSpan(at, inner - at, f"{why}: bytes are missing here; extract again")
        extra = self._extra(end)
        if extra and self._has_double(at, end + extra, extra):
            why = f"LEN says {end - at} bytes, and {extra} that belong to no record follow"
            return RecordSpan(at, end - at + extra, f"{why}: bytes were added here; extract again")
        return None

    @property
    def _few(self) -> int:
        """Bytes that are too few for a record, though it has lost some."""
        return min(table.least for table in self.headers.tables) // 2

    def _reaching(self, at: int, end: int) -> int | None:
        """Offset of a header inside a record that reaches beyond it, or beyond the file."""
        start = max(at, end - self._few)
        inner = self.places.reaching(start, end)
        if inner is None and self.headers.end - at < 2 * self.headers.lengths[1]:
            offsets = np.arange(start + 1, end, dtype=np.int64)
            cut = np.flatnonzero(self.headers.read(offsets).cut)
            inner = int(offsets[cut[0]]) if len(cut) else None
        return inner

    def _extra(self, end: int) -> int:
        """Bytes behind a record that are too few for a damaged one."""
        limit = self._few
        if COMMIT in self.headers.form.codes:
            limit = min(limit, self.headers.form.mark_size)
        following = self.places.between(end + 1, min(end + limit, self.headers.end))
        if len(following):
            extra = int(following[0]) - end
            is_next = self._is_doubled(end, extra) or self._is_damaged_mark(end, extra)
            return 0 if is_next else extra
        extra = self.headers.end - end
        # two equal bytes somewhere are no sign that one of them was added
        return extra if 1 < extra < limit and not self._is_begin(end, extra) else 0

    def _has_double(self, at: int, end: int, size: int) -> bool:
        """Whether so many bytes in a row appear twice, one after the other.

        Bytes that are all equal tell nothing: padding repeats itself.
        """
        data = self.headers.data[at:end]
        twice = _runs(data[:-size] == data[size:], size)
        equal = _runs(data[:-1] == data[1:], size - 1)[: len(twice)]
        return bool((twice & ~equal).any())

    def _is_doubled(self, at: int, size: int) -> bool:
        """Whether bytes are the begin of the record behind them, which appears twice; zeros tell nothing."""
        data = self.headers.data[at : at + 2 * size].tobytes()
        return data[:size] == data[size:] and any(data[:size])

    def _is_damaged_mark(self, at: int, size: int) -> bool:
        """Whether bytes are those of a commit record without some in a row."""
        if COMMIT not in self.headers.form.codes:
            return False
        whole = mark(self.headers.form, self.headers.order).build(
            {"length": self.headers.form.mark_size, "count": 1, "flag": 0, "operation": COMMIT}
        )
        data = self.headers.data[at : at + size].tobytes()
        return any(
            whole[:cut] == data[:cut] and whole[len(whole) - size + cut :] == data[cut:]
            for cut in range(size + 1)
        ) and 2 * size >= len(whole)

    def _is_begin(self, at: int, size: int) -> bool:
        """Whether bytes at the end of the file may be the begin of a record that was cut."""
        low, high = self.headers.lengths
        kind = self.headers.word("length")
        data = self.headers.data[at : at + min(size, kind.itemsize)].tobytes()
        rest = kind.itemsize - len(data)
        if kind.str.startswith("<"):
            unit = 1 << 8 * len(data)
            return low + (int.from_bytes(data, "little") - low) % unit <= high
        first = int.from_bytes(data, "big") << 8 * rest
        return first <= high and first + (1 << 8 * rest) > low


def _runs(same: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Whether so many in a row are true, by the place of the first."""
    counts = np.concatenate([[0], np.cumsum(same)])
    return np.asarray(counts[size:] - counts[: len(counts) - size] == size)
