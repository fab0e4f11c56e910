"""Pairs of an UPDATE and its before image, which share one ``change_seq``.

The two records need not be adjacent (manual, change_seq): in real files, some UPDATEs precede their before
image by several hundred records.  The i-th UPDATE of a change_seq belongs to its i-th before image, in the
order of the input, so each copy of a repeated record has a partner of its own.
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
    """The split of each before image, as an offset from the reader's split, and its row number there."""
    before_is_record: bool = True
    """Whether each before image is a record of its own; in messages it is a part of the UPDATE."""

    @property
    def records(self) -> Integers:
        """Number of records of each operation."""
        if not self.before_is_record:
            return np.ones(len(self.after), np.int64)
        return 1 + self.has_before


@dataclass(frozen=True, slots=True)
class Strays:
    """Halves of pairs in this split whose partner is in another split, or too far away."""

    used_elsewhere: Integers
    """Row numbers of before images that are read with their UPDATE."""
    updates: Integers
    """Row numbers of UPDATEs whose before image was fetched."""
    fetched: pa.RecordBatch | None
    """The fetched before images, in the order of ``updates``."""
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
    by_occurrence = np.lexsort((kind, occurrence, l_, h))
    rows = order[by_occurrence]
    is_pair = (
        (h[by_occurrence][1:] == h[by_occurrence][:-1])
        & (l_[by_occurrence][1:] == l_[by_occurrence][:-1])
        & (occurrence[by_occurrence][1:] == occurrence[by_occurrence][:-1])
    )
    firsts = np.flatnonzero(is_pair)
    partners[rows[firsts]] = rows[firsts + 1]
    partners[rows[firsts + 1]] = rows[firsts]
    return partners


class PairJoiner:
    """Joins the rows of one split into pairs; holds back rows that wait for their partner."""

    def __init__(self, window: int, strays: Strays | None = None) -> None:
        """``window`` is the maximum distance, in row numbers, between a row and its partner."""
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
        is_paired = np.isin(rows.operations, (ChangeOperation.UPDATE, ChangeOperation.BEFORE_IMAGE))
        yield from _single(rows, np.flatnonzero(~is_paired))
        open_rows = rows.take(np.flatnonzero(is_paired)) if not is_paired.all() else rows
        if self._strays is not None:
            open_rows = yield from self._join_strays(open_rows, self._strays)
        if self._waiting is not None and len(self._waiting):
            open_rows = concat_rows(self._waiting, open_rows)
        self._waiting = None
        if not len(open_rows):
            return
        is_before = open_rows.operations == ChangeOperation.BEFORE_IMAGE
        partners = find_partners(is_before, open_rows.high, open_rows.low)
        yield from _pairs(open_rows, partners)
        alone = np.flatnonzero(partners < 0)
        is_waiting = (
            open_rows.numbers[alone] >= last - self._window
            if self._window
            else np.zeros(len(alone), bool)
        )
        self._waiting = open_rows.take(alone[is_waiting])
        yield from _single(open_rows, alone[~is_waiting])

    def finish(self) -> Iterator[PairedRows]:
        """Yields the rows that still wait at the end of the split."""
        if self._waiting is not None:
            yield from _single(self._waiting, np.arange(len(self._waiting)))
            self._waiting = None

    def _join_strays(
        self, rows: ChangeRows, strays: Strays
    ) -> Generator[PairedRows, None, ChangeRows]:
        is_update = np.isin(rows.numbers, strays.updates)
        if is_update.any() and strays.fetched is not None:
            updates = np.flatnonzero(is_update)
            ranks = np.argsort(strays.updates)
            at = ranks[np.searchsorted(strays.updates[ranks], rows.numbers[updates])]
            before = strays.fetched.take(pa.array(at))
            with_before = np.ones(len(updates), bool)
            yield PairedRows(
                rows.take(updates), before, with_before, strays.splits[at], strays.numbers[at]
            )
        others = ~is_update & ~np.isin(rows.numbers, strays.used_elsewhere)
        return rows if others.all() else rows.take(np.flatnonzero(others))


def _single(rows: ChangeRows, places: Integers) -> Iterator[PairedRows]:
    if len(places):
        after = rows.take(places)
        nulls = [pa.nulls(len(places), field.type) for field in after.batch.schema]
        before = pa.RecordBatch.from_arrays(nulls, schema=after.batch.schema)
        zeros = np.zeros(len(places), np.int64)
        yield PairedRows(after, before, np.zeros(len(places), bool), zeros, zeros)


def _pairs(rows: ChangeRows, partners: Integers) -> Iterator[PairedRows]:
    updates = np.flatnonzero((partners >= 0) & (rows.operations == ChangeOperation.UPDATE))
    if len(updates):
        before = rows.batch.take(pa.array(partners[updates]))
        offsets = np.zeros(len(updates), np.int64)
        with_before = np.ones(len(updates), bool)
        numbers = rows.numbers[partners[updates]]
        yield PairedRows(rows.take(updates), before, with_before, offsets, numbers)
