"""The headers of records: the words at an offset of a file, and whether they may begin a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from publisher.sources.columns.byte_areas import Bytes, Mask, Offsets, numbers_at
from publisher.sources.linkexpress.item_offsets import TableLayout
from publisher.sources.linkexpress.layout import (
    FLAG,
    NOT_NULL,
    NULL,
    ExtractCode,
    RecordForm,
    word_offsets,
    word_type,
)
from publisher.sources.linkexpress.options import GREATEST_XID, ByteOrder


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
    """Marks headers that may begin a record."""
    cut: Mask
    """Marks headers that might begin a record if the file were longer."""
    odd: Mask
    """Marks headers that might begin a record under other settings: the table is unknown, or has another
    number of items or another length."""

    def take(self, chosen: Any) -> HeaderBatch:
        """Returns the headers at some of the offsets."""
        return HeaderBatch(
            self.length[chosen],
            self.count[chosen],
            self.xid[chosen],
            self.flag[chosen],
            self.code[chosen],
            self.table[chosen],
            self.good[chosen],
            self.cut[chosen],
            self.odd[chosen],
        )


_NO_NUMBERS, _NO_MARKS = np.zeros(0, np.int64), np.zeros(0, np.bool_)
_NO_HEADERS = HeaderBatch(
    *(_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS),
    *(_NO_MARKS, _NO_MARKS, _NO_MARKS),
)

_REMEMBERED = 1024
"""Maximum number of headers that a reader remembers."""


@dataclass(frozen=True)
class HeaderReader:
    """Reads the headers of one file."""

    data: Bytes
    form: RecordForm
    tables: tuple[TableLayout, ...]
    xids: Mapping[int, int]
    """Number of a table by its extraction identifier."""
    order: ByteOrder
    strict: bool = True
    """NULL areas may only hold 0000 and FFFF."""
    _words: dict[str, np.dtype[Any]] = field(init=False, repr=False)
    _limits: npt.NDArray[np.int64] = field(init=False, repr=False)
    """Minimum and maximum length, number of items; by table."""
    _places: Mapping[str, int] = field(init=False, repr=False)
    """Offsets of the words of a header."""
    _mark_places: Mapping[str, int] = field(init=False, repr=False)
    """Offsets of the words of a commit record."""
    _codes: tuple[int, ...] = field(init=False, repr=False)
    _singles: dict[int, HeaderBatch] = field(init=False, repr=False, default_factory=dict)
    """The headers that were read one at a time, by offset: damaged records are looked at several times."""

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

    @property
    def lengths(self) -> tuple[int, int]:
        """Minimum and maximum length of a record by the settings."""
        least = [each.least for each in self.tables]
        if ExtractCode.COMMIT in self.form.codes:
            least.append(self.form.mark_size)
        if ExtractCode.NO_ROWS in self.form.codes:
            least.append(self.form.size)
        return min(least), max(each.greatest for each in self.tables)

    def word(self, name: str) -> np.dtype[Any]:
        """Returns the NumPy type of a word of the header."""
        return self._words[name]

    def read_one(self, at: int) -> HeaderBatch:
        """Reads the header at one offset."""
        head = self._singles.get(at)
        if head is None:
            if len(self._singles) >= _REMEMBERED:
                self._singles.clear()
            head = self._singles[at] = self.read(np.array([at], np.int64))
        return head

    def read(self, at: Offsets) -> HeaderBatch:
        """Reads the headers at offsets; a header that crosses the end of the file is not good."""
        if not len(at):
            return _NO_HEADERS
        places, mark_size = self._places, self.form.mark_size
        inside = at + mark_size <= self.end
        safe = np.where(inside, at, 0)
        zeros = np.zeros(len(at), np.int64)
        if self.end < mark_size:  # too short for any header
            unknown = np.full(len(at), _UNKNOWN, np.int64)
            false = inside & False
            return HeaderBatch(zeros, zeros, zeros, zeros, zeros, unknown, false, false, false)
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
        data = (table != _UNKNOWN) & ~is_commit
        if form.has_length:
            empty = length == form.size
            data &= (length >= least) & (length <= greatest)
        else:  # without LEN, FFFF is a file of its own
            empty = np.zeros(size, bool)
            length = np.full(size, self.tables[0].greatest, np.int64)
            data &= complete
        if form.extra:
            right_count = count == items + form.extra
            empty &= (count == form.extra) | right_count
            data &= right_count
        mark = (length == form.mark_size) & is_commit
        legal = complete & (words["flag"] == 0) & self._have_legal_code(code)
        good = legal & np.where(is_mark, mark, np.where(no_rows, empty, data))
        inside = (at + length <= self.end) if form.has_length else complete
        cut = good & ~inside
        good &= inside
        odd = legal & ~good & ~is_mark & ~no_rows & ~is_commit
        if odd.any():
            odd &= self._are_plausible(at, words, table)
        table = np.where(is_mark, _MARK, np.where(no_rows & empty, _NO_ROWS, table))
        return HeaderBatch(length, count, words["xid"], words["flag"], code, table, good, cut, odd)

    def _have_legal_code(self, codes: Numbers) -> Mask:
        """Marks operation codes that records of this form may have."""
        legal: Mask = codes == self._codes[0]
        for code in self._codes[1:]:
            legal |= codes == code
        return legal

    def _are_plausible(self, at: Offsets, words: dict[str, Numbers], table: Numbers) -> Mask:
        """Marks headers that may begin records of tables that the settings do not describe."""
        if not self.form.has_length:
            return np.zeros(len(at), bool)
        length, items = words["length"], np.ones(len(at), np.int64)
        possible = table != _UNKNOWN
        if "xid" in self.form.words:
            possible |= (words["xid"] > 0) & (words["xid"] <= GREATEST_XID)
        if self.form.extra:
            items = words["count"] - self.form.extra
        least = self.form.size + items * (FLAG if self.form.nulls else 1)
        inside = (length >= least) & (at + length <= self.end)
        return np.asarray(possible & inside & (items > 0))

    def used_lengths(self, at: Offsets, heads: HeaderBatch) -> Numbers:
        """Computes the lengths of records from their items, whatever LEN says.

        A length is 0 if the table is unknown or an item does not fit.
        """
        used = np.where(heads.table == _MARK, self.form.mark_size, 0)
        used[heads.table == _NO_ROWS] = self.form.size
        for number, table in enumerate(self.tables):
            chosen = np.flatnonzero((heads.table == number) & (at + table.least <= self.end))
            if not len(chosen):
                continue
            if table.fixed is not None:
                used[chosen] = table.fixed
                continue
            records = at[chosen]
            cells = table.cells(self.data, records, np.full(len(records), self.end, np.int64))
            used[chosen] = np.where(cells.fault < 0, cells.ends - records, 0)
        return used

    def have_valid_nulls(self, at: Offsets, heads: HeaderBatch) -> Mask:
        """Marks records with valid NULL areas; records of unknown tables, or too close to the end of the
        file, count as valid."""
        valid = np.ones(len(at), bool)
        if not (self.strict and self.form.nulls):
            return valid
        for number, table in enumerate(self.tables):
            chosen = np.flatnonzero((heads.table == number) & (at + table.greatest <= self.end))
            if not len(chosen):
                continue
            cells = table.cells(self.data, at[chosen], np.full(len(chosen), self.end, np.int64))
            for flags in cells.flags:
                valid[chosen] &= (flags == NOT_NULL) | (flags == NULL)
        return valid
