"""Pairs of an UPDATE and its before image, which share one ``change_seq``.

They need not be neighbours (manual, change_seq; in real files an UPDATE came some hundred records before
its before image).  The i-th UPDATE of a change_seq belongs to its i-th before image, in the order of the
input, so that a record that appears twice keeps its own partner.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.change import Reason
from publisher.sources.change_table.change_seq import Flags, Integers
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows, concat_rows
from publisher.sources.columns.byte_areas import begins_run
from publisher.sources.columns.object_names import RecordFault

ALONE = RecordFault(
    Reason.BEFORE_IMAGE_ALONE,
    "a before image without UPDATE: no UPDATE in the input has its change_seq; add the file that has it",
)


class PairedRows(NamedTuple):
    """Operations with their before images, if these are known."""

    after: ChangeRows
    before: pa.RecordBatch
    """The before image of each row, all NULL if it has none."""
    has_before: Flags
    splits: Integers
    numbers: Integers
    """Split of each before image, relative to that of the reader, and its row number there."""
    apart: bool = True
    """Whether before images are records of their own."""

    @property
    def records(self) -> Integers:
        """Number of records of each operation."""
        return 1 + self.has_before if self.apart else np.ones(len(self.after), np.int64)


@dataclass(frozen=True, slots=True)
class Strays:
    """Pairs with one half in this split that the joiner cannot join alone."""

    given: Integers
    """Numbers of before images that another part of the input takes for its UPDATEs."""
    taking: Integers
    """Numbers of UPDATEs whose before image was fetched."""
    fetched: pa.RecordBatch | None
    """The fetched before images, in the same order."""
    splits: Integers
    numbers: Integers
    """As in ``PairedRows``."""


def find_partners(before: Flags, high: Integers, low: Integers) -> Integers:
    """Finds the index of the partner of each row, -1 if it has none; ``before`` marks before images."""
    count = len(high)
    partners: Integers = np.full(count, -1)
    if count < 2 or not before.any() or before.all():
        return partners
    order = np.lexsort((np.arange(count), before, low, high))
    kind, h, l_ = before[order], high[order], low[order]
    starts = np.flatnonzero(begins_run(h, l_, kind))
    occurrence = np.arange(count) - np.repeat(starts, np.diff(np.append(starts, count)))
    again = np.lexsort((kind, occurrence, l_, h))
    rows = order[again]
    same = (
        (h[again][1:] == h[again][:-1])
        & (l_[again][1:] == l_[again][:-1])
        & (occurrence[again][1:] == occurrence[again][:-1])
    )
    at = np.flatnonzero(same)
    partners[rows[at]] = rows[at + 1]
    partners[rows[at + 1]] = rows[at]
    return partners


class PairJoiner:
    """Joins the rows of one split into pairs; holds back rows that wait for their partner."""

    def __init__(self, window: int, strays: Strays | None = None) -> None:
        """``window`` is the distance in row numbers at which a partner may come."""
        self._window = window
        self._strays = strays
        self._waiting: ChangeRows | None = None

    def add(self, rows: ChangeRows) -> Iterator[PairedRows]:
        """Adds rows without fault; yields the operations that are complete.

        A before image without UPDATE is yielded as a row of ``after``.
        """
        if not len(rows):
            return
        last = int(rows.numbers[-1])
        pairs = np.isin(rows.operations, (ChangeOperation.UPDATE, ChangeOperation.BEFORE_IMAGE))
        yield from _single(rows, np.flatnonzero(~pairs))
        rest = rows.take(np.flatnonzero(pairs)) if not pairs.all() else rows
        if self._strays is not None:
            rest = yield from self._join_strays(rest, self._strays)
        if self._waiting is not None and len(self._waiting):
            rest = concat_rows(self._waiting, rest)
        self._waiting = None
        if not len(rest):
            return
        is_before = rest.operations == ChangeOperation.BEFORE_IMAGE
        partners = find_partners(is_before, rest.high, rest.low)
        yield from _pairs(rest, partners)
        alone = np.flatnonzero(partners < 0)
        waits = (
            rest.numbers[alone] >= last - self._window
            if self._window
            else np.zeros(len(alone), bool)
        )
        self._waiting = rest.take(alone[waits])
        yield from _single(rest, alone[~waits])

    def rest(self) -> Iterator[PairedRows]:
        """Yields the rows that still wait at the end."""
        if self._waiting is not None:
            yield from _single(self._waiting, np.arange(len(self._waiting)))
            self._waiting = None

    def _join_strays(
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
        others = ~taking & ~np.isin(rows.numbers, strays.given)
        return rows if others.all() else rows.take(np.flatnonzero(others))


def _single(rows: ChangeRows, which: Integers) -> Iterator[PairedRows]:
    if len(which):
        after = rows.take(which)
        nothing = [pa.nulls(len(which), field.type) for field in after.batch.schema]
        before = pa.RecordBatch.from_arrays(nothing, schema=after.batch.schema)
        none = np.zeros(len(which), np.int64)
        yield PairedRows(after, before, np.zeros(len(which), bool), none, none)


def _pairs(rows: ChangeRows, partners: Integers) -> Iterator[PairedRows]:
    which = np.flatnonzero((partners >= 0) & (rows.operations == ChangeOperation.UPDATE))
    if len(which):
        before = rows.batch.take(pa.array(partners[which]))
        here = np.zeros(len(which), np.int64)
        with_before = np.ones(len(which), bool)
        numbers = rows.numbers[partners[which]]
        yield PairedRows(rows.take(which), before, with_before, here, numbers)
