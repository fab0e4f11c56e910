"""Finds copies: identical records that repeat an UPDATE or before image of a complete pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from publisher.model.change import Reason
from publisher.sources.change_table.change_seq import Flags, Integers
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows, concat_rows
from publisher.sources.columns.byte_areas import begins_run
from publisher.sources.columns.object_names import RecordFault
from publisher.sources.columns.record_batches import as_json


def find_surplus(before: Sequence[bool], contents: Sequence[str]) -> list[int]:
    """Finds the copies that no pair needs among the UPDATEs and before images of one change_seq.

    ``before`` marks before images.  Returns the indices of the copies.
    """
    befores = sum(before)
    extra = abs(len(before) - 2 * befores)
    more_befores = befores > len(before) - befores
    seen: set[str] = set()
    copies = []
    for place, content in enumerate(contents):
        if before[place] == more_befores:
            if content in seen:
                copies.append(place)
            seen.add(content)
    return copies[len(copies) - extra :] if len(copies) > extra else copies


def is_double(before: Flags) -> bool:
    """Returns whether the rows of one change_seq, without copies, are an UPDATE with several before images.

    Nobody knows which of them has the old values.
    """
    return bool(not before.all() and 2 * before.sum() > len(before))


def double_fault(images: Sequence[str]) -> RecordFault:
    """Describes the different before images of one UPDATE by their places."""
    return RecordFault(
        Reason.DOUBLE_RECORD,
        f"{' and '.join(images)} are different before images of one UPDATE: remove the wrong one",
    )


def content_of(rows: ChangeRows, row: int) -> str:
    """Returns the text of a whole record."""
    return as_json(rows.batch.slice(row, 1).to_pylist()[0])


class CopyFinder:
    """Finds copies among batches in the order of change_seq."""

    def __init__(self) -> None:
        self._last: ChangeRows | None = None
        """Rows of the last change_seq, which may continue in the next batch."""

    def add(self, rows: ChangeRows) -> tuple[ChangeRows, Flags]:
        """Adds rows; returns those whose change_seq is complete, with a mark on each copy."""
        if self._last is not None:
            rows = concat_rows(self._last, rows)
        if not len(rows):
            return rows, np.zeros(0, bool)
        is_open = (rows.high == rows.high[-1]) & (rows.low == rows.low[-1])
        self._last = rows.take(np.flatnonzero(is_open))
        return _mark_copies(rows.take(np.flatnonzero(~is_open)))

    def finish(self) -> tuple[ChangeRows, Flags] | None:
        """Returns the last rows, with a mark on each copy; ``None`` if no rows were added."""
        return None if self._last is None else _mark_copies(self._last)


def _mark_copies(rows: ChangeRows) -> tuple[ChangeRows, Flags]:
    copies = np.zeros(len(rows), bool)
    before = rows.operations == ChangeOperation.BEFORE_IMAGE
    paired = np.flatnonzero(before | (rows.operations == ChangeOperation.UPDATE))
    for group in _uneven_groups(rows, paired, before):
        contents = [content_of(rows, row) for row in group.tolist()]
        copies[group[find_surplus(before[group].tolist(), contents)]] = True
        originals = group[~copies[group]]
        if is_double(before[originals]):
            images = rows.numbers[originals[before[originals]]].tolist()
            fault = double_fault([f"record {number}" for number in images])
            rows.faults |= dict.fromkeys(originals.tolist(), fault)
    return rows, copies


def _uneven_groups(rows: ChangeRows, paired: Integers, before: Flags) -> list[Integers]:
    """Groups UPDATEs and before images by change_seq; only groups with unequal numbers of both."""
    if len(paired) < 3:
        return []
    high, low = rows.high[paired], rows.low[paired]
    starts = np.flatnonzero(begins_run(high, low))
    sizes = np.diff(np.append(starts, len(paired)))
    befores = np.add.reduceat(before[paired].astype(np.int64), starts)
    uneven = np.flatnonzero((befores > 0) & (befores < sizes) & (2 * befores != sizes))
    return [paired[starts[at] : starts[at] + sizes[at]] for at in uneven.tolist()]


def copies_by_number(rows: ChangeRows, numbers: Sequence[int]) -> Flags:
    """Marks the rows with these numbers."""
    flags: Flags = np.isin(rows.numbers, np.array(numbers, np.int64))
    return flags
