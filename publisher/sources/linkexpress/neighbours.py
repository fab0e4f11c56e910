"""Checks whole records after which no record begins, for bytes that were lost or added.

LEN and the items of a damaged record may agree by chance: if the record has lost as many bytes as its
items take from the next record, or if bytes were added after a variable item.  Then no record begins at
its end.  But this is also true of an intact record before a damaged header.  So a record is rejected only
in two cases:

* A header inside it belongs to a record that ends after it.
* The next header is so close that no record fits between, and the record is valid if a sequence of bytes
  that appears twice in it is removed once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from publisher.sources.columns.byte_areas import Bytes
from publisher.sources.linkexpress.headers import HeaderReader
from publisher.sources.linkexpress.items import ItemReader
from publisher.sources.linkexpress.layout import ExtractCode, mark
from publisher.sources.linkexpress.record_starts import RecordStarts
from publisher.xds.escape import FORBIDDEN

_REPAIRED_BYTES = 1 << 20
"""Bytes of the repaired copies of a record that are examined."""


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """A record, or bytes that are not a record."""

    offset: int
    length: int
    why: str | None = None
    """The reason why it is not a record."""


@dataclass(frozen=True, slots=True)
class NeighbourCheck:
    """Checks whole records of one file by the bytes that follow them."""

    headers: HeaderReader
    starts: RecordStarts
    readers: tuple[ItemReader, ...]
    """The readers of items, by table."""

    def find_damage(self, at: int, end: int) -> RecordSpan | None:
        """Returns the bytes to reject instead of a whole record; ``None`` if the record may be intact."""
        if end == self.headers.end or self.starts.at(end) is not None:
            return None
        inner = self._find_crossing(at, end)
        if inner is not None:
            why = f"LEN says {end - at} bytes, but after {inner - at} another record begins and ends later"
            return RecordSpan(at, inner - at, f"{why}: bytes are missing here; extract again")
        extra = self._count_extra(end)
        if extra and self._has_double(at, end + extra, extra):
            why = f"LEN says {end - at} bytes, but {extra} more bytes follow before the next record"
            return RecordSpan(at, end - at + extra, f"{why}: bytes were added here; extract again")
        return None

    @property
    def _few(self) -> int:
        """Minimum bytes of a record, even of a record that has lost bytes."""
        return min(table.least for table in self.headers.tables) // 2

    def _find_crossing(self, at: int, end: int) -> int | None:
        """Finds a header inside a record that belongs to another record, which ends later or is cut off."""
        start = max(at, end - self._few)
        inner = self.starts.find_crossing(start, end)
        if inner is None and self.headers.end - at < 2 * self.headers.lengths[1]:
            offsets = np.arange(start + 1, end, dtype=np.int64)
            cut = np.flatnonzero(self.headers.read(offsets).cut)
            inner = int(offsets[cut[0]]) if len(cut) else None
        return inner

    def _count_extra(self, end: int) -> int:
        """Counts the bytes between two records if they are too few even for a damaged record."""
        limit = self._few
        if ExtractCode.COMMIT in self.headers.form.codes:
            limit = min(limit, self.headers.form.mark_size)
        following = self.starts.between(end + 1, min(end + limit, self.headers.end))
        if len(following):
            extra = int(following[0]) - end
            is_next = self._repeats_next(end, extra) or self._is_damaged_commit(end, extra)
            return 0 if is_next else extra
        extra = self.headers.end - end
        # a single repeated byte is not a sign that it was added
        return extra if 1 < extra < limit and not self._may_begin_record(end, extra) else 0

    def _has_double(self, at: int, end: int, size: int) -> bool:
        """Checks whether the record is valid without ``size`` bytes that appear twice, one after the other.

        Sequences of one byte value or of wide blanks do not count, because padding repeats itself.
        """
        data = self.headers.data[at:end]
        twice = _runs(data[:-size] == data[size:], size)
        equal = _runs(data[:-1] == data[1:], size - 1)[: len(twice)]
        places = np.flatnonzero(twice & ~equal)
        # consecutive places give equal copies
        places = places[np.diff(places, prepend=-2) > 1][: max(1, _REPAIRED_BYTES // len(data))]
        copies = [
            np.delete(data, slice(place, place + size))
            for place in places.tolist()
            if not self._is_padding(data[place : place + size].tobytes())
        ]
        copies = [copy for copy in copies if not np.array_equal(copy, data[:-size])]
        return bool(copies) and self._has_valid_record(np.stack(copies))

    def _is_padding(self, data: bytes) -> bool:
        """Tests for wide blanks, which fill NATIONAL CHARACTER items; they may begin at any byte."""
        codec = self.readers[0].options.national_codec
        aligned = (data, data[1:] + data[:1])
        return any(not text.decode(codec, "replace").strip("\u3000") for text in aligned)

    def _has_valid_record(self, copies: Bytes) -> bool:
        """Checks whether one of the rows is a record with valid values."""
        count, length = copies.shape
        headers = replace(self.headers, data=copies.ravel())
        at = np.arange(count, dtype=np.int64) * length
        heads = headers.read(at)
        matches = heads.good & (heads.length == length)
        matches &= headers.used_lengths(at, heads) == length
        for number, (table, reader) in enumerate(zip(headers.tables, self.readers, strict=True)):
            chosen = at[matches & (heads.table == number)]
            cells = table.cells(headers.data, chosen, chosen + length)
            valid = np.ones(len(chosen), bool)
            for place, item in enumerate(table.items if len(chosen) else ()):
                column = reader.column(headers.data, cells, place, item)
                clean = [not FORBIDDEN.search(text or "") for text in column.texts.to_pylist()]
                valid &= np.array(clean) & ~column.wrong
            if valid.any():
                return True
        return bool((matches & (heads.table < 0)).any())

    def _repeats_next(self, at: int, size: int) -> bool:
        """Checks whether bytes repeat the beginning of the next record; zeros do not count."""
        data = self.headers.data[at : at + 2 * size].tobytes()
        return data[:size] == data[size:] and any(data[:size])

    def _is_damaged_commit(self, at: int, size: int) -> bool:
        """Checks whether bytes are a commit record that has lost consecutive bytes."""
        if ExtractCode.COMMIT not in self.headers.form.codes:
            return False
        commit = mark(self.headers.form, self.headers.order).build(
            {
                "length": self.headers.form.mark_size,
                "count": 1,
                "flag": 0,
                "operation": ExtractCode.COMMIT,
            }
        )
        data = self.headers.data[at : at + size].tobytes()
        return any(
            commit[:cut] == data[:cut] and commit[len(commit) - size + cut :] == data[cut:]
            for cut in range(size + 1)
        ) and 2 * size >= len(commit)

    def _may_begin_record(self, at: int, size: int) -> bool:
        """Checks whether bytes at the end of the file may begin a record that was cut."""
        low, high = self.headers.lengths
        kind = self.headers.word("length")
        data = self.headers.data[at : at + min(size, kind.itemsize)].tobytes()
        missing = kind.itemsize - len(data)
        if kind.str.startswith("<"):
            unit = 1 << 8 * len(data)
            return low + (int.from_bytes(data, "little") - low) % unit <= high
        first = int.from_bytes(data, "big") << 8 * missing
        return first <= high and first + (1 << 8 * missing) > low


def _runs(same: npt.NDArray[np.bool_], size: int) -> npt.NDArray[np.bool_]:
    """Marks each index at which ``size`` consecutive true values begin."""
    counts = np.concatenate([[0], np.cumsum(same)])
    return np.asarray(counts[size:] - counts[: len(counts) - size] == size)
