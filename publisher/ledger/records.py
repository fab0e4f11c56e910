"""The records of a lane: its changes in the order of arrival, each with its outcome.

Decisions arrive in another order, since some wait for a look-up.  A window over the arrivals collects them,
and advances when its oldest batch is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import InternalError
from publisher.ledger.table_writer import ROWS_TO_WRITE, TableWriter
from publisher.ledger.tables import ARRIVAL_COLUMNS, RECORDS
from publisher.model.change import Outcome, Position
from publisher.model.outcomes import REASONS, Outcomes

PositionText = Callable[[Position], str]

SplitCounts = dict[tuple[int, int, int, str | None], int]
"""Numbers of records by source, split, outcome and reason."""
_NONE = -1
_REASONS = pa.array([reason.value for reason in REASONS])
_OUTCOMES, _REASON_COUNT = max(Outcome) + 1, len(REASONS) + 1
_DECIDED = np.dtype([("outcome", "i1"), ("reason", "i1"), ("by", "i8"), ("document", "i8")])
"""The decision on an arrival: the reason by its number, outcome 0 until it is decided."""
_UNDECIDED = np.array((0, _NONE, _NONE, _NONE), _DECIDED)


class RecordLog:
    """Collects the records of one lane in a table; counts them by outcome."""

    def __init__(self, table: TableWriter, position_texts: Sequence[PositionText]) -> None:
        """``position_texts`` formats the positions of each source, for rejects."""
        self._position_texts = position_texts
        self._table = table
        self._batches: deque[pa.RecordBatch] = deque()
        self._ready: list[pa.Table] = []
        self._base = 0
        self._window = np.zeros(0, _DECIDED)
        self._texts: dict[int, tuple[str | None, str | None]] = {}
        self.counts: SplitCounts = {}
        self.published: dict[tuple[int, str], tuple[int, int]] = {}
        """The least and greatest ``high`` of published records, by source and ``part``."""
        self.span: tuple[int, int] | None = None
        """The least and greatest ``high`` of all records."""

    def add_arrivals(self, batch: pa.RecordBatch) -> int:
        """Adds the next arrivals; returns the row number of the first."""
        first = self._base + len(self._window)
        # the other columns need not stay in memory
        self._batches.append(batch.select(ARRIVAL_COLUMNS))
        undecided = np.full(batch.num_rows, _UNDECIDED, _DECIDED)
        self._window = np.concatenate([self._window, undecided])
        return first

    def decide(self, outcomes: Outcomes) -> None:
        """Records the outcomes of changes that no document publishes."""
        at = outcomes.row - self._base
        _refuse_repeats(self._window["outcome"], at, self._base)
        self._window["outcome"][at] = outcomes.outcome
        self._window["reason"][at] = outcomes.reason - 1
        self._window["by"][at] = outcomes.by
        self._texts.update(outcomes.texts)

    def publish(self, published: pa.RecordBatch, first: int) -> None:
        """Records the changes of documents as published; ``first`` is the number of the first document."""
        rows = published.column("rows")
        at = rows.flatten().to_numpy() - self._base
        _refuse_repeats(self._window["outcome"], at, self._base)
        numbers = np.arange(first, first + published.num_rows)
        self._window["outcome"][at] = Outcome.PUBLISHED
        self._window["document"][at] = np.repeat(numbers, pc.list_value_length(rows).to_numpy())

    def advance(self) -> None:
        """Adds the decided batches before the first undecided change to the table."""
        while self._batches:
            count = self._batches[0].num_rows
            if not self._window["outcome"][:count].all():
                break
            self._ready.append(self._build_table(self._batches.popleft(), count))
        if sum(table.num_rows for table in self._ready) >= ROWS_TO_WRITE:
            self._write()

    def close(self) -> None:
        """Adds the remaining records to the table.

        Raises:
            InternalError: A change has no decision.
        """
        self.advance()
        if self._batches:
            missing = self._base + int(np.flatnonzero(self._window["outcome"] == 0)[0])
            raise InternalError(f"change {missing} of a lane has no decision: report this")
        self._write()

    def _build_table(self, batch: pa.RecordBatch, count: int) -> pa.Table:
        decided, self._window = self._window[:count], self._window[count:]
        details, raws = self._texts_of(count)
        self._count(batch, decided)
        columns = [
            *batch.columns,
            pa.array(np.arange(self._base, self._base + count)),
            pa.array(np.ascontiguousarray(decided["outcome"])),
            _REASONS.take(pa.array(decided["reason"], mask=decided["reason"] == _NONE)),
            pa.array(np.ascontiguousarray(decided["by"])),
            pa.array(np.ascontiguousarray(decided["document"])),
            details,
            raws,
            self._positions(batch, decided),
        ]
        self._base += count
        return pa.Table.from_arrays(columns, schema=RECORDS.schema)

    def _positions(self, batch: pa.RecordBatch, decided: np.ndarray) -> pa.Array:
        """The positions of rejected records."""
        texts: list[str | None] = [None] * len(decided)
        for row in np.flatnonzero(decided["outcome"] == Outcome.REJECTED).tolist():
            position = Position(*(batch[name][row].as_py() for name in Position._fields))
            texts[row] = self._position_texts[batch["source"][row].as_py()](position)
        return pa.array(texts, pa.string())

    def _texts_of(self, count: int) -> tuple[pa.Array, pa.Array]:
        """Removes and returns details and raw records of the next ``count`` arrivals."""
        if not self._texts or not count:  # a batch may hold no change
            return pa.nulls(count, pa.string()), pa.nulls(count, pa.string())
        rows = range(self._base, self._base + count)
        texts = [self._texts.pop(row, (None, None)) for row in rows]
        details, raws = zip(*texts, strict=True)
        return pa.array(details, pa.string()), pa.array(raws, pa.string())

    def _count(self, batch: pa.RecordBatch, decided: np.ndarray) -> None:
        """Counts the records of decided arrivals by split, outcome and reason."""
        codes = batch.column("split").to_numpy().astype(np.int64) * _OUTCOMES + decided["outcome"]
        codes = codes * _REASON_COUNT + decided["reason"] + 1
        kinds, firsts, places = np.unique(codes, return_index=True, return_inverse=True)
        sums = np.bincount(places, batch.column("records").to_numpy(), len(kinds))
        sources = batch.column("source").to_numpy()[firsts]
        for code, source, records in zip(
            kinds.tolist(), sources.tolist(), sums.astype(np.int64).tolist(), strict=True
        ):
            rest, reason = divmod(code, _REASON_COUNT)
            split, outcome = divmod(rest, _OUTCOMES)
            kind = (source, split, outcome, _REASONS[reason - 1].as_py() if reason else None)
            self.counts[kind] = self.counts.get(kind, 0) + records

    def _write(self) -> None:
        if self._ready:
            rows = pa.concat_tables(self._ready)
            self._table.add(rows)
            self._note_published(rows)
            self._extend_span(rows)
            self._ready.clear()

    def _extend_span(self, rows: pa.Table) -> None:
        if rows.num_rows:
            least, greatest = pc.min_max(rows["high"]).as_py().values()
            before = self.span or (least, greatest)
            self.span = min(before[0], least), max(before[1], greatest)

    def _note_published(self, rows: pa.Table) -> None:
        """Extends the bounds of published positions."""
        published = rows.filter(pc.equal(rows["outcome"], int(Outcome.PUBLISHED)))
        bounds = published.select(["source", "part", "high"]).group_by(["source", "part"])
        for entry in bounds.aggregate([("high", "min"), ("high", "max")]).to_pylist():
            place = entry["source"], entry["part"] or ""
            least, greatest = self.published.get(place, (entry["high_min"], entry["high_max"]))
            self.published[place] = min(least, entry["high_min"]), max(greatest, entry["high_max"])


def _refuse_repeats(outcomes: np.ndarray, at: np.ndarray, base: int) -> None:
    """Raises ``InternalError`` for a change that is decided already, or twice in ``at``."""
    flags = np.zeros(len(outcomes), np.bool_)
    if len(at) and at.min() >= 0:
        flags[at] = True
        if np.count_nonzero(flags) == len(at) and not outcomes[at].any():
            return
    if len(at):
        places, counts = np.unique(at, return_counts=True)
        repeated = (counts > 1) | (places < 0)
        repeated[~repeated] = outcomes[places[~repeated]] != 0
        raise _double_decision(int(places[repeated][0]) + base)


def _double_decision(row: int) -> InternalError:
    return InternalError(f"change {row} of a lane was decided twice: report this")
