"""Which rows of a live change table a run reads, where it reads again in a window below the mark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from publisher.sources.change_table import change_seq
from publisher.sources.change_table.change_seq import Flags
from publisher.sources.change_table.rows import ChangeRows


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows to read.  Plain values: goes through JSON."""

    after: str | None
    upto: str
    """All rows of this range (``after`` excluded) that are not listed."""
    listed: tuple[tuple[str, int, int, int], ...]
    """change_seq, operation, rows to leave out, rows to read after those."""


class RowSelector:
    """Finds the rows to read among those that come, in the order of change_seq."""

    def __init__(self, chosen: RowSelection) -> None:
        self._after = None if chosen.after is None else change_seq.parts_of(chosen.after)
        self._upto = change_seq.parts_of(chosen.upto) if chosen.upto else (-1, 0)
        self._listed = {
            (*change_seq.parts_of(text), operation): range(skip, skip + take)
            for text, operation, skip, take in chosen.listed
        }
        self._passed: Counter[tuple[int, int, int]] = Counter()

    def flags(self, rows: ChangeRows) -> Flags:
        """The rows to read; those without a change_seq are always."""
        inside = _at_most(rows, self._upto)
        if self._after is not None:
            inside &= ~_at_most(rows, self._after)
        keys = zip(rows.high.tolist(), rows.low.tolist(), rows.operations.tolist(), strict=True)
        numbered = rows.placed | (rows.high > 0)  # of 35 digits, though the time may be none
        flags = inside | ~numbered
        for row, key in enumerate(keys):
            wanted = self._listed.get(key)
            if wanted is not None and numbered[row]:
                flags[row] = self._passed[key] in wanted
                self._passed[key] += 1
        return flags


def _at_most(rows: ChangeRows, bound: tuple[int, int]) -> Flags:
    high, low = bound
    found: Flags = (rows.high < high) | ((rows.high == high) & (rows.low <= np.int64(low)))
    return found
