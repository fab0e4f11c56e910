"""Outcomes of records of a change table that do not become changes: rejected, ignored as copies, held.

A rejected pair causes two rejects, each with the text of its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from publisher.formats.change_table.change_seq import Integers, Ranking
from publisher.formats.change_table.pairs import PairedRows
from publisher.formats.change_table.rows import RAW, ChangeRows
from publisher.formats.columns.object_names import TargetTable
from publisher.formats.columns.record_batches import Place, as_json, nameless
from publisher.model.change import Outcome, Reason


class RejectBuilder:
    """Builds the outcomes of records that do not become changes."""

    def __init__(self, place: Place, target: TargetTable, ranking: Ranking) -> None:
        self._place = place
        self._target = target
        self._ranking = ranking

    def reject_pairs(self, pairs: PairedRows) -> Iterator[pa.RecordBatch]:
        """Rejects the operations with a fault, then their before images."""
        rows = pairs.after
        yield self.reject_rows(rows)
        which = [row for row in sorted(rows.faults) if pairs.has_before[row]]
        if not which or not pairs.before_is_record:
            return
        at = np.array(which, np.int64)
        images = pairs.before.take(pa.array(at))
        before = replace(
            rows.take(at), batch=images, splits=pairs.splits[at], numbers=pairs.numbers[at]
        )
        for place, row in enumerate(which):
            fault = rows.faults[row]
            detail = f"before image of record {rows.numbers[row]}: {fault.detail}"
            before.faults[place] = fault._replace(detail=detail)
        yield self.reject_rows(before)

    def reject_rows(self, rows: ChangeRows) -> pa.RecordBatch:
        """Rejects the rows with a fault."""
        which = np.array(sorted(rows.faults), np.int64)
        faults = [rows.faults[row] for row in which.tolist()]
        return self._outcomes(
            rows,
            which,
            outcome=Outcome.REJECTED.value,
            reason=pa.array([str(fault.reason) for fault in faults]),
            detail=pa.array([fault.detail for fault in faults]),
            raw=_raw(rows.batch.take(pa.array(which))),
        )

    def ignore_copies(self, rows: ChangeRows) -> pa.RecordBatch:
        """Ignores rows that repeat another row with the same content."""
        indices, reason = np.arange(len(rows)), str(Reason.DUPLICATE)
        return self._outcomes(rows, indices, outcome=Outcome.IGNORED.value, reason=reason)

    def hold(self, rows: ChangeRows, cut: str) -> pa.RecordBatch:
        """Holds rows until a run reads the partner of the row with change_seq ``cut``."""
        return self._outcomes(
            rows,
            np.arange(len(rows)),
            outcome=Outcome.HELD.value,
            reason=str(Reason.OPEN_PAIR),
            detail=f"the UPDATE or before image of change_seq {cut} has not been read yet; this record"
            " waits as well, to keep the order of changes",
        )

    def _outcomes(self, rows: ChangeRows, which: Integers, **outcome: object) -> pa.RecordBatch:
        """Outcomes of some of the rows, at their positions."""
        placed, numbers = rows.placed[which], rows.numbers[which]
        high = np.where(placed, rows.high[which], numbers)
        return nameless(
            self._place,
            numbers,
            part=pa.array(np.where(placed, "", self._place.name), pa.string()),
            rank=np.where(placed, self._ranking.ranks(high, rows.low[which]), numbers),
            high=high,
            low=np.where(placed, rows.low[which], 0),
            split=rows.splits[which].astype(np.int32),
            schema=self._target.schema,
            table=self._target.table,
            logged_table=self._target.child,
            **outcome,
        )


def _raw(records: pa.RecordBatch) -> pa.Array:
    """The records as JSON text."""
    if RAW in records.schema.names:
        return records.column(RAW)
    return pa.array([as_json(record) for record in records.to_pylist()], pa.string())
