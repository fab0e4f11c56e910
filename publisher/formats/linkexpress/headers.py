"""The headers of records: the words at an offset of a file, and whether they may begin a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from publisher.formats.columns.byte_areas import Bytes, Mask, Offsets, numbers_at
from publisher.formats.linkexpress.item_offsets import TableLayout
from publisher.formats.linkexpress.layout import (
    ExtractCode,
    RecordForm,
    word_offsets,
    word_type,
)
from publisher.formats.linkexpress.options import ByteOrder


class NoTable(IntEnum):
    """Values of ``HeaderBatch.table`` that are not numbers of tables."""

    UNKNOWN = -1
    """A table that the settings do not describe."""
    MARK = -2
    """A commit record."""
    NO_ROWS = -3
    """The record of a full extract without rows."""


Numbers = npt.NDArray[np.int64]

# NumPy compares with an enum several times more slowly
_UNKNOWN, _MARK, _NO_ROWS = map(int, (NoTable.UNKNOWN, NoTable.MARK, NoTable.NO_ROWS))
_COMMIT, _EMPTY = map(int, (ExtractCode.COMMIT, ExtractCode.NO_ROWS))


@dataclass(frozen=True, slots=True)
class HeaderBatch:
    """The headers at some offsets."""

    length: Numbers
    count: Numbers
    xid: Numbers
    flag: Numbers
    code: Numbers
    table: Numbers
    """Number of the table, or a value of ``NoTable``."""
    good: Mask
    """Marks headers that fit the settings and whose record ends inside the file; a record of an unknown
    table needs a possible length only."""


@dataclass(frozen=True)
class HeaderReader:
    """Reads the headers of one file."""

    data: Bytes
    form: RecordForm
    tables: tuple[TableLayout, ...]
    xids: Mapping[int, int]
    """Number of a table by its extraction identifier."""
    order: ByteOrder
    _words: dict[str, np.dtype[Any]] = field(init=False, repr=False)
    _limits: npt.NDArray[np.int64] = field(init=False, repr=False)
    """Minimum and maximum length, number of items; by table."""
    _places: Mapping[str, int] = field(init=False, repr=False)
    """Offsets of the words of a header."""
    _mark_places: Mapping[str, int] = field(init=False, repr=False)
    """Offsets of the words of a commit record."""
    _codes: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        words = {word: word_type(word, self.order) for word in self.form.words}
        limits = [(each.least, each.greatest, len(each.items)) for each in self.tables]
        object.__setattr__(self, "_words", words)
        object.__setattr__(self, "_limits", np.array(limits, np.int64).T)
        object.__setattr__(self, "_places", word_offsets(self.form.words))
        object.__setattr__(self, "_mark_places", word_offsets(self.form.mark_words))
        object.__setattr__(self, "_codes", tuple(map(int, self.form.codes)))

    @property
    def end(self) -> int:
        """Number of bytes of the file."""
        return len(self.data)

    def word(self, name: str) -> np.dtype[Any]:
        """Returns the NumPy type of a word of the header."""
        return self._words[name]

    def read(self, at: Offsets) -> HeaderBatch:
        """Reads the headers at offsets; a header that crosses the end of the file is not good."""
        places, mark_size = self._places, self.form.mark_size
        inside = at + mark_size <= self.end
        safe = np.where(inside, at, 0)
        zeros = np.zeros(len(at), np.int64)
        if self.end < mark_size:  # too short for any header
            unknown = np.full(len(at), _UNKNOWN, np.int64)
            return HeaderBatch(zeros, zeros, zeros, zeros, zeros, unknown, inside & False)
        words = dict.fromkeys(("length", "count", "xid", "flag", "operation"), zeros)
        for word in ("length", "count"):
            if word in places:
                words[word] = self._read(word, safe + places[word])
        is_mark = (words["count"] == 1) if _COMMIT in self._codes else inside & False
        complete = inside & (is_mark | (at + self.form.size <= self.end))
        safe = np.where(complete, at, 0)
        for word in ("xid", "flag", "operation"):
            if word in places:
                place = np.where(is_mark & complete, self._mark_places.get(word, 0), places[word])
                words[word] = self._read(word, safe + place)
        return self._judge(at, words, is_mark & complete, complete)

    def _read(self, word: str, at: Offsets) -> Numbers:
        kind = self._words[word]
        # a header that is cut is not good, whatever is read in its place
        at = np.minimum(at, self.end - kind.itemsize)
        return numbers_at(self.data, at, kind).astype(np.int64)

    def _judge(
        self, at: Offsets, words: dict[str, Numbers], is_mark: Mask, complete: Mask
    ) -> HeaderBatch:
        """Finds the table of each header, and marks headers that may begin a record."""
        form, size = self.form, len(at)
        length, count, code = words["length"], words["count"], words["operation"]
        is_commit = code == _COMMIT
        no_rows = ~is_mark & (code == _EMPTY)
        table = np.full(size, _UNKNOWN, np.int64)
        for xid, number in self.xids.items():
            table[words["xid"] == xid] = number
        least, greatest, items = self._limits[:, table]
        known = table != _UNKNOWN
        if form.has_length:
            fits = (length >= np.where(known, least, form.size)) & (~known | (length <= greatest))
            empty = length == form.size
        else:  # without LEN, FFFF is a file of its own
            fits, empty = complete, np.zeros(size, bool)
            length = np.full(size, self.tables[0].greatest, np.int64)
        if form.extra:
            right_count = np.where(known, count == items + form.extra, count > form.extra)
            empty &= (count == form.extra) | right_count
            fits &= right_count
        mark = (length == form.mark_size) & is_commit
        legal = complete & (words["flag"] == 0) & self._have_legal_code(code)
        good = legal & np.where(is_mark, mark, np.where(no_rows, empty, fits & ~is_commit))
        if form.has_length:
            good &= at + length <= self.end
        table = np.where(is_mark, _MARK, np.where(no_rows & empty, _NO_ROWS, table))
        return HeaderBatch(length, count, words["xid"], words["flag"], code, table, good)

    def _have_legal_code(self, codes: Numbers) -> Mask:
        """Marks operation codes that records of this form may have."""
        legal: Mask = codes == self._codes[0]
        for code in self._codes[1:]:
            legal |= codes == code
        return legal
