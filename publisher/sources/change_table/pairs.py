"""Pairs of an UPDATE and its before image over all splits, by the header columns alone.

Most pairs meet in the task that reads them.  Here the others are found, and what stands in the input
more often than its partner: copies of an UPDATE or of a before image, of which one is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from publisher.errors import FatalError
from publisher.sources.change_table.before_images import partners
from publisher.sources.change_table.change_seq import Flags, Integers, Ranking, parts_of, text_of
from publisher.sources.change_table.copies import content_of, surplus
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows
from publisher.sources.columns.columns import LARGEST

HeaderRows = Callable[[int], Iterable[ChangeRows]]
"""The header columns of a split, by its number."""
FullRows = Callable[[int], Iterable[ChangeRows]]
"""All columns of a split."""


@dataclass(slots=True)
class _Unpaired:
    """Rows without partner so far: sequence, split and row, and their place in the whole input."""

    high: Integers
    low: Integers
    split: Integers
    row: Integers
    place: Integers
    before: Flags

    @classmethod
    def none(cls) -> _Unpaired:
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty, empty, empty, empty.astype(bool))

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


class PairFinder:
    """Finds the pairs that a split cannot join by itself, and the window of those that it can."""

    def __init__(self, options: ChangeTableOptions, *, expects_before: bool = False) -> None:
        """``expects_before``: UPDATEs have before images, though the input may show none."""
        self._expects_before = expects_before
        self._most = options.join_rows
        self._limit = options.join_strays
        self._open = _Unpaired.none()
        self._place = 0
        self._passed: list[_Unpaired] = []
        self._lone = self._members = _Unpaired.none()
        self.window = 0
        self.any_before = self.any_update = False
        self.youngest: dict[int, tuple[int, int]] = {}
        """The greatest change_seq of each split, as its two integers."""
        self.least, self.greatest = LARGEST, Ranking().least
        """Of the change numbers, less 2^63."""
        self.strays: list[tuple[int, int, int, int]] = []
        """Split and row of the UPDATE, split and row of its before image."""
        self.copies: list[tuple[int, int]] = []
        """Split and row."""

    def add(self, split: int, rows: ChangeRows) -> None:
        """Takes the next rows of the input."""
        which = np.flatnonzero(
            rows.placed
            & np.isin(rows.operations, (ChangeOperation.UPDATE, ChangeOperation.BEFORE_IMAGE))
        )
        numbers = rows.low[rows.placed]
        if len(numbers):
            self.least = min(self.least, int(numbers.min()))
            self.greatest = max(self.greatest, int(numbers.max()))
            self._note_youngest(split, rows.high[rows.placed], numbers)
        before = rows.operations[which] == ChangeOperation.BEFORE_IMAGE
        self.any_before = self.any_before or bool(before.any())
        self.any_update = self.any_update or not before.all()
        new = _Unpaired(
            rows.high[which],
            rows.low[which],
            np.full(len(which), split),
            rows.numbers[which],
            self._place + which,
            before,
        )
        self._place += len(rows)
        self._open = self._matched(self._open + new)
        old = ~self._open.before & (self._open.place < self._place - self._most)
        if old.any():
            self._pass(self._open.take(old))
            self._open = self._open.take(~old)
        self._check()

    def _pass(self, updates: _Unpaired) -> None:
        """Remembers UPDATEs whose before image is not waited for, as long as they are not too many."""
        if sum(map(len, self._passed)) + len(updates) <= self._limit:
            self._passed.append(updates)

    def has_lone(self) -> bool:
        """Whether something stands without partner in a table that has before images."""
        if self.any_before or self._expects_before:
            self._lone = sum(self._passed, start=self._open)
        return len(self._lone) > 0

    def look_again(self, split: int, rows: ChangeRows) -> None:
        """Collects all rows of the sequences of which something stands without partner."""
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

    def settle(self, all_of: FullRows) -> None:
        """Pairs the collected rows, without copies."""
        members = self._members
        places = set(zip(members.split.tolist(), members.row.tolist(), strict=True))
        self.strays = [one for one in self.strays if one[:2] not in places]
        copies = self._copies(members, all_of)
        self.copies = [(int(members.split[at]), int(members.row[at])) for at in sorted(copies)]
        kept = np.ones(len(members), bool)
        kept[list(copies)] = False
        self._open = self._matched(members.take(kept))
        self._check()

    def least_lone(self, after: str | None) -> str | None:
        """The least change_seq, behind another, of a row that found no partner."""
        if not len(self._lone):
            return None
        keys = zip(self._open.high.tolist(), self._open.low.tolist(), strict=True)
        behind = (-1, 0) if after is None else parts_of(after)
        least = min((key for key in keys if key > behind), default=None)
        return None if least is None else text_of(*least)

    def _note_youngest(self, split: int, high: Integers, low: Integers) -> None:
        greatest = high == high.max()
        found = (int(high.max()), int(low[greatest].max()))
        self.youngest[split] = max(self.youngest.get(split, found), found)

    def _copies(self, members: _Unpaired, all_of: FullRows) -> set[int]:
        """Indices of the members that are copies."""
        groups: dict[tuple[int, int], list[int]] = {}
        keys = zip(members.high.tolist(), members.low.tolist(), strict=True)
        for at, key in enumerate(keys):
            groups.setdefault(key, []).append(at)
        uneven = [
            group
            for group in groups.values()
            if 0 < members.before[group].sum() < len(group)
            and 2 * members.before[group].sum() != len(group)
        ]
        contents = _contents(members, [at for group in uneven for at in group], all_of)
        return {
            group[place]
            for group in uneven
            for place in surplus(members.before[group].tolist(), [contents[at] for at in group])
        }

    def _matched(self, rows: _Unpaired) -> _Unpaired:
        found = partners(rows.before, rows.high, rows.low)
        updates = np.flatnonzero((found >= 0) & ~rows.before)
        befores = found[updates]
        distance = np.abs(rows.row[updates] - rows.row[befores])
        near = (rows.split[updates] == rows.split[befores]) & (distance <= self._most)
        if near.any():
            self.window = max(self.window, int(distance[near].max()))
        u, b = updates[~near], befores[~near]
        columns = (rows.split[u], rows.row[u], rows.split[b], rows.row[b])
        self.strays += zip(*(column.tolist() for column in columns), strict=True)
        return rows.take(found < 0)

    def _check(self) -> None:
        if len(self.strays) + int(self._open.before.sum()) > self._limit:
            raise FatalError(
                f"more than {self._limit:,} before images lie far from their UPDATE; sort the input by"
                " change_seq, or raise join_strays (32 bytes of memory each) or join_rows"
            )


def _contents(members: _Unpaired, which: list[int], all_of: FullRows) -> dict[int, str]:
    """The whole records of some members."""
    by_split: dict[int, dict[int, int]] = {}
    for at in which:
        by_split.setdefault(int(members.split[at]), {})[int(members.row[at])] = at
    found: dict[int, str] = {}
    for split, wanted in by_split.items():
        for rows in all_of(split):
            for row in np.flatnonzero(np.isin(rows.numbers, list(wanted))).tolist():
                found[wanted[int(rows.numbers[row])]] = content_of(rows, row)
    return found
