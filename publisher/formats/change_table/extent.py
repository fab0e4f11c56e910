"""Determines the rows of a live change table that one run reads: rows after the mark, and late rows.

A run ends before an UPDATE or before image that still waits for its partner, to keep the order of changes.
Late rows have a change_seq before the mark of the last run.  A run reads the late rows within a window before
the mark; older late rows are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from publisher.database.ordered_ranges import TableExtent
from publisher.formats.change_table import change_seq
from publisher.formats.change_table.carry_over import (
    Mark,
    PairWait,
    WindowEntry,
    decided_upto,
    next_wait,
)
from publisher.formats.change_table.change_seq import Flags
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.rows import ChangeOperation, ChangeRows, operations_of, rows_of
from publisher.formats.change_table.statements import ChangeTableStatements, Query
from publisher.formats.files.frame import Frame

Ask = Callable[[Query], Sequence[Sequence[Any]]]
"""Queries the database, each time in the same snapshot if the database has snapshots."""


LATE_WINDOW = 10_000
"""Number of rows before the mark of the last run that each run reads again, to find late rows."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows to read: a range, and listed rows inside or outside the range."""

    after: str | None
    """Lower end of the range, exclusive; ``None`` if the range has no lower end."""
    upto: str
    """Upper end of the range, inclusive; empty if no range is read."""
    listed: tuple[tuple[str, int, int, int], ...]
    """change_seq, operation, number of rows to skip, number of rows to read after the skipped ones."""


def select_rows(
    frames: Iterable[Frame], selection: RowSelection, layout: ChangeTableLayout
) -> Iterator[Frame]:
    """Yields the rows to read of frames in the order of change_seq; rows without one are always read."""
    after = None if selection.after is None else change_seq.parts_of(selection.after)
    upto = change_seq.parts_of(selection.upto) if selection.upto else (-1, 0)
    listed = {
        (*change_seq.parts_of(text), operation): range(skip, skip + take)
        for text, operation, skip, take in selection.listed
    }
    passed: Counter[tuple[int, int, int]] = Counter()
    for frame in frames:
        rows = rows_of(frame, layout)
        flags = _are_upto(rows, upto)
        if after is not None:
            flags &= ~_are_upto(rows, after)
        numbered = rows.placed | (rows.high > 0)  # 35 digits, even if the time part is not a time
        flags |= ~numbered
        keys = zip(rows.high.tolist(), rows.low.tolist(), rows.operations.tolist(), strict=True)
        for row, key in enumerate(keys):
            if numbered[row] and key in listed:
                flags[row] = passed[key] in listed[key]
                passed[key] += 1
        chosen = np.flatnonzero(flags)
        yield frame._replace(batch=frame.batch.take(pa.array(chosen)), rows=frame.rows[chosen])


def _are_upto(rows: ChangeRows, bound: tuple[int, int]) -> Flags:
    high, low = bound
    flags: Flags = (rows.high < high) | ((rows.high == high) & (rows.low <= np.int64(low)))
    return flags


@dataclass(frozen=True, slots=True)
class RunExtent:
    """The rows that a run reads, and the mark for the next run."""

    after: str | None
    upto: str
    selection: RowSelection | None
    """``None`` for all rows of the range."""
    mark: Mark
    """The new mark, before masks are interpreted."""
    notes: tuple[str, ...]


class ExtentFinder:
    """Finds the rows of one table that a run reads."""

    def __init__(
        self, table: str, statements: ChangeTableStatements, ask: Ask, options: ChangeTableOptions
    ) -> None:
        self._table = table
        self._statements = statements
        self._ask = ask
        self._options = options

    def find_extent(
        self, mark: Mark, extent: TableExtent, clock: int, *, one_moment: bool
    ) -> RunExtent:
        """Finds the extent of a run.

        ``extent.before`` counts the rows up to the floor of ``mark``.  Without ``one_moment``, rows may be
        added between this call and the reading.
        """
        greatest = _latest(mark.change_seq, extent.greatest)
        if greatest is None:
            return RunExtent(None, "", None, Mark(others=extent.others), ())
        blocked = self.find_blocking_seq(mark, greatest, clock)
        rows, upto = extent.rows, greatest
        if blocked is not None:
            ((rows, _, before),) = self._ask(self._statements.rows_before(blocked))
            upto = _latest(mark.change_seq, _text(before)) or ""
        late, waiting = self._late(mark, clock)
        floor = _latest(mark.floor, self._floor(mark, upto))
        new = self._count_by_kind(_latest(mark.change_seq, floor), upto)
        floor, window = self._window(floor, [*late, *new])
        wait = self._wait(mark, greatest, clock, blocked, waiting)
        next_mark = Mark(
            upto or None,
            floor,
            max(0, rows - waiting - sum(entry.rows for entry in window)),
            window,
            extent.others,
            wait,
        )
        return RunExtent(
            mark.floor if _has_additions(late, mark) else mark.change_seq,
            upto,
            self._select(mark, late, new, floor, upto, one_moment=one_moment),
            next_mark,
            tuple(self._notes(mark, extent, late, wait, blocked)),
        )

    def find_blocking_seq(self, mark: Mark, greatest: str, clock: int) -> str | None:
        """Finds the least change_seq whose UPDATE or before image must wait for its partner, if any."""
        wait = self._options.pair_wait
        if not wait:
            return None
        decided = decided_upto(mark.wait, greatest, wait, clock)
        youngest = _latest(mark.change_seq, decided)
        ((befores,),) = self._ask(self._statements.before_images(mark.change_seq, greatest))
        if not befores and not self._had_before_images(mark):
            return None  # the task stores no before images
        ((lone,),) = self._ask(self._statements.lone(youngest, greatest))
        return _text(lone)

    def count_pending(self, mark: Mark, clock: int) -> tuple[int, str | None]:
        """Counts the rows that a run would read now; also returns the least change_seq after the mark."""
        ((rows, least, greatest),) = self._ask(self._statements.rows(mark.change_seq, None))
        blocked = None
        if rows and mark.wait is not None:
            blocked = self.find_blocking_seq(mark, str(_text(greatest)), clock)
        if blocked is not None:
            ((before, _, _),) = self._ask(self._statements.rows_before(blocked))
            ((read, _, _),) = self._ask(self._statements.rows(None, mark.change_seq))
            rows = max(0, before - read) if mark.change_seq is not None else before
        return rows + self._count_late(mark, clock), _text(least)

    def _count_late(self, mark: Mark, clock: int) -> int:
        if mark.change_seq is None:
            return 0
        ((rows, _, _),) = self._ask(self._statements.rows(mark.floor, mark.change_seq))
        waiting = mark.wait.late if mark.wait and not self._is_wait_over(mark, clock) else 0
        return int(max(0, rows - mark.rows_in_window - waiting))

    def _is_wait_over(self, mark: Mark, clock: int) -> bool:
        return mark.wait is not None and mark.wait.is_over(self._options.pair_wait, clock)

    def _had_before_images(self, mark: Mark) -> bool:
        return any(entry.operation == ChangeOperation.BEFORE_IMAGE for entry in mark.window)

    def _late(self, mark: Mark, clock: int) -> tuple[list[WindowEntry], int]:
        """Returns the present rows of the window, and the number of late rows that wait for a partner."""
        if mark.change_seq is None:
            return [], 0
        entries = self._count_by_kind(mark.floor, mark.change_seq)
        if self._is_wait_over(mark, clock) or not self._options.pair_wait:
            return entries, 0
        known = {entry.change_seq for entry in mark.window}
        kinds: dict[str, set[int]] = {}
        for entry in entries:
            kinds.setdefault(entry.change_seq, set()).add(entry.operation)
        paired = self._had_before_images(mark)
        lone = {
            text
            for text, operations in kinds.items()
            if text not in known
            and (
                operations == {ChangeOperation.BEFORE_IMAGE}
                or (paired and operations == {ChangeOperation.UPDATE})
            )
        }
        waiting = sum(entry.rows for entry in entries if entry.change_seq in lone)
        return [entry for entry in entries if entry.change_seq not in lone], waiting

    def _floor(self, mark: Mark, upto: str) -> str | None:
        """Returns the change_seq after which the next window begins, judged by the new rows only."""
        if not upto:
            return None
        answer = self._ask(self._statements.from_the_end(mark.change_seq, upto, LATE_WINDOW))
        return _text(answer[0][0]) if answer else None

    def _count_by_kind(self, after: str | None, upto: str) -> list[WindowEntry]:
        """Counts the rows of a range by change_seq and operation, in their order."""
        if not upto:
            return []
        answer = self._ask(self._statements.by_kind(after, upto))
        names = [known for known, _ in self._statements.kinds]
        columns = {
            name: pa.array([_text(row[2 + at]) for row in answer], pa.string())
            for at, name in enumerate(names)
        }
        batch = pa.RecordBatch.from_pydict(columns)
        rows: Counter[tuple[str, int]] = Counter()
        operations = operations_of(batch, {name: name for name in names}).tolist()
        for row, operation in zip(answer, operations, strict=True):
            rows[str(_text(row[0])), operation] += row[1]
        return [WindowEntry(*key, count) for key, count in sorted(rows.items())]

    def _window(
        self, floor: str | None, entries: list[WindowEntry]
    ) -> tuple[str | None, tuple[WindowEntry, ...]]:
        """Returns the floor of the next window, at least ``floor``, and its rows by whole change_seqs."""
        rows: Counter[str] = Counter()
        for entry in entries:
            if floor is None or entry.change_seq > floor:
                rows[entry.change_seq] += entry.rows
        total = 0
        for text in sorted(rows, reverse=True):
            total += rows[text]
            if total > LATE_WINDOW:
                floor = text
                break
        window = (entry for entry in entries if floor is None or entry.change_seq > floor)
        return floor, tuple(sorted(window))

    def _select(
        self,
        mark: Mark,
        late: list[WindowEntry],
        new: list[WindowEntry],
        floor: str | None,
        upto: str,
        *,
        one_moment: bool,
    ) -> RowSelection | None:
        """Selects the rows to read; ``None`` for all rows of the range."""
        listed = list(_additions(late, mark))
        if one_moment:
            return RowSelection(mark.change_seq, upto, tuple(listed)) if listed else None
        # the next run recognises and reads rows that are added between this call and the reading
        whole = _latest(mark.change_seq, floor)
        recent = (entry for entry in new if whole is None or entry.change_seq > whole)
        listed += [(text, kind, 0, rows) for text, kind, rows in recent]
        return RowSelection(mark.change_seq, whole or "", tuple(listed))

    def _wait(
        self, mark: Mark, greatest: str, clock: int, blocked: str | None, late: int
    ) -> PairWait | None:
        if blocked is None and not late:
            return None
        seconds = self._options.pair_wait
        return next_wait(mark.wait, greatest, blocked or "", seconds, clock, late)

    def _notes(
        self,
        mark: Mark,
        extent: TableExtent,
        late: list[WindowEntry],
        wait: PairWait | None,
        blocked: str | None,
    ) -> Iterable[str]:
        read = sum(take for *_, take in _additions(late, mark))
        if read:
            yield (
                f"late: {read:,} row(s) of table {self._table} have a change_seq that an earlier run"
                " had passed; they are published now, after later changes"
            )
        older = mark.count_late(extent.before)
        if older:
            yield (
                f"late: {older:,} row(s) of table {self._table} have a change_seq up to {mark.floor},"
                " before the window that is read again: they are not published; export them to a file and"
                " publish the file"
            )
        if blocked is not None:
            yield (
                f"waiting: the row(s) of table {self._table} from change_seq {blocked} on, because the UPDATE"
                f" or before image of this change_seq is missing; for {self._options.pair_wait:g} s at most"
                " (pair_wait)"
            )
        if wait is not None and wait.late:
            yield f"waiting: {wait.late:,} late row(s) of table {self._table}, until their partner arrives"


def _additions(entries: list[WindowEntry], mark: Mark) -> Iterable[tuple[str, int, int, int]]:
    """Yields change_seq, operation, old and new rows of each entry with more rows than the mark has."""
    if mark.change_seq is None:
        return
    known = {(text, kind): rows for text, kind, rows in mark.window}
    for text, kind, rows in entries:
        before = known.get((text, kind), 0)
        if rows > before:
            yield text, kind, before, rows - before


def _has_additions(late: list[WindowEntry], mark: Mark) -> bool:
    return any(True for _ in _additions(late, mark))


def _latest(*sequences: str | None) -> str | None:
    return max(filter(None, sequences), default=None)


def _text(value: object) -> str | None:
    return None if value is None else str(value).rstrip()
