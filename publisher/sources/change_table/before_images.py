"""An UPDATE and its before image share one ``change_seq``; nothing says that they lie side by side.

(Manual, change_seq; in real files an UPDATE came some hundred records before its before image.)  The
i-th UPDATE of a change_seq belongs to the i-th before image of it, in the order of the input, so that
a record that stands there twice keeps its own partner.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.change import Reason
from publisher.sources.change_table.change_seq import Flags, Integers
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows, joined
from publisher.sources.columns.object_names import Fault

ALONE = Fault(
    Reason.BEFORE_IMAGE_ALONE,
    "a before image without its UPDATE: no UPDATE in the input has its change_seq; add the file with it",
)


class PairedRows(NamedTuple):
    """Operations with what was there before, where that is known."""

    after: ChangeRows
    before: pa.RecordBatch
    """Row by row the before image, all NULL where there is none."""
    has_before: Flags
    splits: Integers
    numbers: Integers
    """Split of each before image, counted from that of the reader, and its number there."""
    apart: bool = True
    """Whether before images are records of their own."""

    @property
    def records(self) -> Integers:
        """How many records each operation stands for."""
        return 1 + self.has_before if self.apart else np.ones(len(self.after), np.int64)


@dataclass(frozen=True, slots=True)
class Strays:
    """Pairs of a split whose halves do not meet by themselves."""

    given: Integers
    """Numbers of before images whose UPDATE another part of the input takes."""
    taking: Integers
    """Numbers of UPDATE rows whose before image was fetched."""
    fetched: pa.RecordBatch | None
    """Those before images, in the same order."""
    splits: Integers
    numbers: Integers
    """As those of ``PairedRows``."""


def partners(before: Flags, high: Integers, low: Integers) -> Integers:
    """Index of the partner of each row, -1 where it has none; ``before`` marks before images."""
    count = len(high)
    found: Integers = np.full(count, -1)
    if count < 2 or not before.any() or before.all():
        return found
    order = np.lexsort((np.arange(count), before, low, high))
    kind, h, l_ = before[order], high[order], low[order]
    new = np.ones(count, bool)
    new[1:] = (h[1:] != h[:-1]) | (l_[1:] != l_[:-1]) | (kind[1:] != kind[:-1])
    starts = np.flatnonzero(new)
    occurrence = np.arange(count) - np.repeat(starts, np.diff(np.append(starts, count)))
    again = np.lexsort((kind, occurrence, l_, h))
    rows = order[again]
    same = (
        (h[again][1:] == h[again][:-1])
        & (l_[again][1:] == l_[again][:-1])
        & (occurrence[again][1:] == occurrence[again][:-1])
    )
    at = np.flatnonzero(same)
    found[rows[at]] = rows[at + 1]
    found[rows[at + 1]] = rows[at]
    return found


class PairJoiner:
    """Joins the rows of one split, holding those that wait for their partner."""

    def __init__(self, window: int, strays: Strays | None = None) -> None:
        """``window``: distance in row numbers at which a partner may come."""
        self._window = window
        self._strays = strays
        self._waiting: ChangeRows | None = None

    def add(self, rows: ChangeRows) -> Iterator[PairedRows]:
        """Takes rows without fault, gives operations that are complete.

        Before images that stay alone come out as rows of ``after`` that are none.
        """
        if not len(rows):
            return
        last = int(rows.numbers[-1])
        pairs = np.isin(rows.operations, (ChangeOperation.UPDATE, ChangeOperation.BEFORE_IMAGE))
        yield from _single(rows, np.flatnonzero(~pairs))
        rest = rows.take(np.flatnonzero(pairs)) if not pairs.all() else rows
        if self._strays is not None:
            rest = yield from self._without_strays(rest, self._strays)
        if self._waiting is not None and len(self._waiting):
            rest = joined(self._waiting, rest)
        self._waiting = None
        if not len(rest):
            return
        found = partners(rest.operations == ChangeOperation.BEFORE_IMAGE, rest.high, rest.low)
        yield from _pairs(rest, found)
        alone = np.flatnonzero(found < 0)
        waits = (
            rest.numbers[alone] >= last - self._window
            if self._window
            else np.zeros(len(alone), bool)
        )
        self._waiting = rest.take(alone[waits])
        yield from _single(rest, alone[~waits])

    def rest(self) -> Iterator[PairedRows]:
        """What still waits at the end."""
        if self._waiting is not None:
            yield from _single(self._waiting, np.arange(len(self._waiting)))
            self._waiting = None

    def _without_strays(
        self, rows: ChangeRows, strays: Strays
    ) -> Generator[PairedRows, None, ChangeRows]:
        taking = np.isin(rows.numbers, strays.taking)
        if taking.any() and strays.fetched is not None:
            which = np.flatnonzero(taking)
            ranks = np.argsort(strays.taking)
            at = ranks[np.searchsorted(strays.taking[ranks], rows.numbers[which])]
            before = strays.fetched.take(pa.array(at))
            with_before = np.ones(len(which), bool)
            yield PairedRows(
                rows.take(which), before, with_before, strays.splits[at], strays.numbers[at]
            )
        left = ~taking & ~np.isin(rows.numbers, strays.given)
        return rows if left.all() else rows.take(np.flatnonzero(left))


def _single(rows: ChangeRows, which: Integers) -> Iterator[PairedRows]:
    if len(which):
        after = rows.take(which)
        nothing = [pa.nulls(len(which), field.type) for field in after.batch.schema]
        before = pa.RecordBatch.from_arrays(nothing, schema=after.batch.schema)
        none = np.zeros(len(which), np.int64)
        yield PairedRows(after, before, np.zeros(len(which), bool), none, none)


def _pairs(rows: ChangeRows, found: Integers) -> Iterator[PairedRows]:
    which = np.flatnonzero((found >= 0) & (rows.operations == ChangeOperation.UPDATE))
    if len(which):
        before = rows.batch.take(pa.array(found[which]))
        here = np.zeros(len(which), np.int64)
        with_before = np.ones(len(which), bool)
        yield PairedRows(rows.take(which), before, with_before, here, rows.numbers[found[which]])
