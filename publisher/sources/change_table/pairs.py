"""Finds pairs of an UPDATE and its before image across all splits, from the header columns alone.

Most pairs are joined by the task that reads both records.  This pass finds the other pairs, and copies:
identical UPDATEs or before images that outnumber their partners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from publisher.errors import FatalError
from publisher.sources.change_table.before_images import find_partners
from publisher.sources.change_table.change_seq import Flags, Integers, Ranking, parts_of, text_of
from publisher.sources.change_table.copies import content_of, find_surplus, is_double
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows
from publisher.sources.columns.columns import LARGEST

HeaderRows = Callable[[int], Iterable[ChangeRows]]
"""Reads the header columns of a split, by its number."""
FullRows = Callable[[int], Iterable[ChangeRows]]
"""Reads all columns of a split."""


@dataclass(slots=True)
class _Unpaired:
    """Rows without a partner so far: change_seq, split, row number, and place in the whole input."""

    high: Integers
    low: Integers
    split: Integers
    row: Integers
    place: Integers
    before: Flags

    @classmethod
    def empty(cls) -> _Unpaired:
        none = np.zeros(0, np.int64)
        return cls(none, none, none, none, none, none.astype(bool))

    def __add__(self, other: _Unpaired) -> _Unpaired:
        return _Unpaired(
            np.concatenate([self.high, other.high]),
            np.concatenate([self.low, other.low]),
            np.concatenate([self.split, other.split]),
            np.concatenate([self.row, other.row]),
            np.concatenate([self.place, other.place]),
            np.concatenate([self.before, other.before]),
        )

    def take(self, which: Integers | Flags) -> _Unpaired:
        return _Unpaired(
            self.high[which],
            self.low[which],
            self.split[which],
            self.row[which],
            self.place[which],
            self.before[which],
        )

    def __len__(self) -> int:
        return len(self.high)


JOIN_ROWS = 100_000
"""Maximum number of records between an UPDATE and its before image that one task joins in memory."""
MAX_STRAYS = 1_000_000
"""Maximum number of before images that are further away from their UPDATE."""


class PairFinder:
    """Finds the pairs that no task can join alone, and the maximum distance of the other pairs."""

    def __init__(self, *, expects_before: bool = False) -> None:
        """``expects_before``: UPDATEs have before images, even if this input contains none."""
        self._expects_before = expects_before
        self._open = _Unpaired.empty()
        self._place = 0
        self._expired: list[_Unpaired] = []
        self._lone = self._members = _Unpaired.empty()
        self.window = 0
        self.any_before = self.any_update = False
        self.youngest: dict[int, tuple[int, int]] = {}
        """The greatest change_seq of each split, as its two integers."""
        self.least, self.greatest = LARGEST, Ranking().least
        """Least and greatest change number, minus 2^63."""
        self.strays: list[tuple[int, int, int, int]] = []
        """Split and row of the UPDATE, split and row of its before image."""
        self.copies: list[tuple[int, int]] = []
        """Split and row of each copy."""
        self.doubles: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = []
        """Splits and rows of the different before images of one UPDATE, and of the UPDATE."""

    def add(self, split: int, rows: ChangeRows) -> None:
        """Adds the next rows of the input."""
        paired = np.flatnonzero(
            rows.placed
            & np.isin(rows.operations, (ChangeOperation.UPDATE, ChangeOperation.BEFORE_IMAGE))
        )
        numbers = rows.low[rows.placed]
        if len(numbers):
            self.least = min(self.least, int(numbers.min()))
            self.greatest = max(self.greatest, int(numbers.max()))
            self._note_youngest(split, rows.high[rows.placed], numbers)
        before = rows.operations[paired] == ChangeOperation.BEFORE_IMAGE
        self.any_before = self.any_before or bool(before.any())
        self.any_update = self.any_update or not before.all()
        new = _Unpaired(
            rows.high[paired],
            rows.low[paired],
            np.full(len(paired), split),
            rows.numbers[paired],
            self._place + paired,
            before,
        )
        self._place += len(rows)
        self._open = self._match(self._open + new)
        expired = ~self._open.before & (self._open.place < self._place - JOIN_ROWS)
        if expired.any():
            self._expire(self._open.take(expired))
            self._open = self._open.take(~expired)
        self._check_limit()

    def _expire(self, updates: _Unpaired) -> None:
        """Remembers UPDATEs that no longer wait for their before image, up to the limit."""
        if sum(map(len, self._expired)) + len(updates) <= MAX_STRAYS:
            self._expired.append(updates)

    def pair_remaining(self, splits: int, headers_of: HeaderRows, all_of: FullRows) -> None:
        """Pairs the rows without a partner in a second pass, if the table has before images."""
        if self.any_before or self._expects_before:
            self._lone = sum(self._expired, start=self._open)
        if not len(self._lone):
            return
        for split in range(splits):
            for rows in headers_of(split):
                self._collect(split, rows)
        self._pair_all(all_of)

    def _collect(self, split: int, rows: ChangeRows) -> None:
        """Collects all rows of each change_seq in which a row lacks its partner."""
        which = np.flatnonzero(
            rows.placed
            & np.isin(rows.operations, (ChangeOperation.UPDATE, ChangeOperation.BEFORE_IMAGE))
            & np.isin(rows.high, self._lone.high)
            & np.isin(rows.low, self._lone.low)
        )
        before = rows.operations[which] == ChangeOperation.BEFORE_IMAGE
        numbers = rows.numbers[which]
        self._members = self._members + _Unpaired(
            rows.high[which], rows.low[which], np.full(len(which), split), numbers, numbers, before
        )

    def _pair_all(self, all_of: FullRows) -> None:
        """Pairs the collected rows after removing copies."""
        members = self._members
        places = set(zip(members.split.tolist(), members.row.tolist(), strict=True))
        self.strays = [stray for stray in self.strays if stray[:2] not in places]
        copies = self._find_copies(members, all_of)
        self.copies = [(int(members.split[at]), int(members.row[at])) for at in sorted(copies)]
        is_original = np.ones(len(members), bool)
        is_original[list(copies)] = False
        for group in _groups(members, np.flatnonzero(is_original)):
            if is_double(members.before[group]):
                is_image = members.before[group].tolist()
                rows = [(int(members.split[at]), int(members.row[at])) for at in group]
                images = sorted(place for place, own in zip(rows, is_image, strict=True) if own)
                updates = [place for place in rows if place not in images]
                self.doubles.append((images, updates))
                is_original[group] = False
        self._open = self._match(members.take(is_original))
        self._check_limit()

    def least_lone(self, after: str | None) -> str | None:
        """The least change_seq after ``after`` of a row without a partner."""
        if not len(self._lone):
            return None
        keys = zip(self._open.high.tolist(), self._open.low.tolist(), strict=True)
        bound = (-1, 0) if after is None else parts_of(after)
        least = min((key for key in keys if key > bound), default=None)
        return None if least is None else text_of(*least)

    def _note_youngest(self, split: int, high: Integers, low: Integers) -> None:
        greatest = high == high.max()
        youngest = (int(high.max()), int(low[greatest].max()))
        self.youngest[split] = max(self.youngest.get(split, youngest), youngest)

    def _find_copies(self, members: _Unpaired, all_of: FullRows) -> set[int]:
        """Indices of the members that are copies."""
        uneven = [
            group
            for group in _groups(members, np.arange(len(members)))
            if 0 < members.before[group].sum() < len(group)
            and 2 * members.before[group].sum() != len(group)
        ]
        contents = _contents(members, [index for group in uneven for index in group], all_of)
        return {
            group[place]
            for group in uneven
            for place in find_surplus(
                members.before[group].tolist(), [contents[index] for index in group]
            )
        }

    def _match(self, rows: _Unpaired) -> _Unpaired:
        """Records the pairs among rows; returns the rows without a partner."""
        partners = find_partners(rows.before, rows.high, rows.low)
        updates = np.flatnonzero((partners >= 0) & ~rows.before)
        befores = partners[updates]
        distance = np.abs(rows.row[updates] - rows.row[befores])
        near = (rows.split[updates] == rows.split[befores]) & (distance <= JOIN_ROWS)
        if near.any():
            self.window = max(self.window, int(distance[near].max()))
        u, b = updates[~near], befores[~near]
        columns = (rows.split[u], rows.row[u], rows.split[b], rows.row[b])
        self.strays += zip(*(column.tolist() for column in columns), strict=True)
        return rows.take(partners < 0)

    def _check_limit(self) -> None:
        if len(self.strays) + int(self._open.before.sum()) > MAX_STRAYS:
            raise FatalError(
                f"more than {MAX_STRAYS:,} before images are far from their UPDATE: sort by change_seq"
            )


def _groups(members: _Unpaired, which: Integers) -> list[list[int]]:
    """Groups the indices of some members by their change_seq."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index in which.tolist():
        groups.setdefault((int(members.high[index]), int(members.low[index])), []).append(index)
    return list(groups.values())


def _contents(members: _Unpaired, which: list[int], all_of: FullRows) -> dict[int, str]:
    """The contents of some members, by their index."""
    by_split: dict[int, dict[int, int]] = {}
    for index in which:
        by_split.setdefault(int(members.split[index]), {})[int(members.row[index])] = index
    contents: dict[int, str] = {}
    for split, wanted in by_split.items():
        for rows in all_of(split):
            for row in np.flatnonzero(np.isin(rows.numbers, list(wanted))).tolist():
                contents[wanted[int(rows.numbers[row])]] = content_of(rows, row)
    return contents
