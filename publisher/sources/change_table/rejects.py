"""Records of a change table that give no change: rejected, copies of others, held.

Each stands for itself: of a rejected pair there are two rejects, with the text of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from publisher.model.change import Outcome, Reason
from publisher.sources.change_table.before_images import PairedRows
from publisher.sources.change_table.change_seq import Integers, Ranking
from publisher.sources.change_table.rows import RAW, ChangeRows
from publisher.sources.columns.object_names import Target
from publisher.sources.columns.record_batches import Place, as_json, nameless


class RejectBuilder:
    """Makes rejects of the records of one split."""

    def __init__(self, place: Place, target: Target, ranking: Ranking) -> None:
        self._place = place
        self._target = target
        self._ranking = ranking

    def of(self, joined: PairedRows) -> Iterator[pa.RecordBatch]:
        """The operations with a fault, then their before images."""
        rows = joined.after
        yield self.of_rows(rows)
        which = [row for row in sorted(rows.faults) if joined.has_before[row] and joined.apart]
        if not which:
            return
        at = np.array(which, np.int64)
        images = joined.before.take(pa.array(at))
        before = replace(rows.take(at), batch=images, numbers=joined.numbers[at])
        for place, row in enumerate(which):
            fault = rows.faults[row]
            detail = f"before image of record {rows.numbers[row]}: {fault.detail}"
            before.faults[place] = fault._replace(detail=detail)
        yield self.of_rows(before, self._place.split + joined.splits[at])

    def of_rows(self, rows: ChangeRows, splits: Integers | None = None) -> pa.RecordBatch:
        """The rows with a fault; ``splits`` are theirs where they are of other splits."""
        which = np.array(sorted(rows.faults), np.int64)
        faults = [rows.faults[row] for row in which.tolist()]
        return self._outcomes(
            rows,
            which,
            splits,
            outcome=Outcome.REJECTED.value,
            reason=pa.array([str(fault.reason) for fault in faults]),
            detail=pa.array([fault.detail for fault in faults]),
            raw=_raw(rows.batch.take(pa.array(which))),
        )

    def copies(self, rows: ChangeRows) -> pa.RecordBatch:
        """Rows that repeat others word by word."""
        outcome, reason = Outcome.IGNORED.value, str(Reason.DUPLICATE)
        return self._outcomes(rows, np.arange(len(rows)), outcome=outcome, reason=reason)

    def held(self, rows: ChangeRows, cut: str) -> pa.RecordBatch:
        """Rows that wait for one of them to find its partner."""
        return self._outcomes(
            rows,
            np.arange(len(rows)),
            outcome=Outcome.HELD.value,
            reason=str(Reason.OPEN_PAIR),
            detail=f"the UPDATE or before image of change_seq {cut} is missing so far; this record waits"
            " with it, so that the order of changes stays",
        )

    def _outcomes(
        self, rows: ChangeRows, which: Integers, splits: Integers | None = None, **said: object
    ) -> pa.RecordBatch:
        """Some of the rows, which gave no change, at their places."""
        placed, numbers = rows.placed[which], rows.numbers[which]
        high = np.where(placed, rows.high[which], numbers)
        return nameless(
            self._place,
            numbers,
            part=pa.array(np.where(placed, "", self._place.name), pa.string()),
            rank=np.where(placed, self._ranking.ranks(high, rows.low[which]), numbers),
            high=high,
            low=np.where(placed, rows.low[which], 0),
            split=self._place.split if splits is None else splits[which].astype(np.int32),
            schema=self._target.schema,
            table=self._target.table,
            **said,
        )


def _raw(records: pa.RecordBatch) -> pa.Array:
    """The records as JSON text."""
    if RAW in records.schema.names:
        return records.column(RAW)
    return pa.array([as_json(record) for record in records.to_pylist()], pa.string())
