"""Converts operations to records: changes, and the outcomes of all other operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.formats.columns.object_names import RecordFault
from publisher.formats.columns.record_batches import Place, batch, nameless, record_lanes, tally
from publisher.formats.dispatch_queue.as_json import raw_of
from publisher.formats.dispatch_queue.child_rows import builder_class
from publisher.formats.dispatch_queue.images.by_table import BLOCK, DecodedTable, decode_tables
from publisher.formats.dispatch_queue.object_names import QueueNames
from publisher.formats.dispatch_queue.oper_date import event_times
from publisher.formats.dispatch_queue.operations import (
    Operations,
    OperationUse,
    RowKind,
)
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows.rows import Codes
from publisher.formats.dispatch_queue.transactions.facts import address_text, signed_addresses
from publisher.formats.dispatch_queue.transactions.fates import Fate, Fates
from publisher.model.change import Outcome, Reason

NO_ROW = -1
"""The ``ordinal`` of broken pieces, which are not rows; their ``high`` is the number of the piece."""


@dataclass(frozen=True, slots=True)
class _Ending:
    """The outcome of an operation that gives no change."""

    outcome: Outcome
    reason: Reason
    detail: str | None


class _RowName(NamedTuple):
    """The object and the lane of an operation that gives no change, and the child table of its row."""

    schema: str | None
    table: str
    key: str
    lane: int
    child: str | None


_NOT_CHOSEN = _Ending(
    Outcome.IGNORED,
    Reason.NOT_CHOSEN,
    "the settings choose another database or destination (nodes, destination)",
)
_DONE = _Ending(Outcome.IGNORED, Reason.DUPLICATE, "an earlier run has read this whole transaction")
_UNCHANGED = _Ending(
    Outcome.IGNORED,
    Reason.NOTHING_TO_PUBLISH,
    "the images differ in no published column",
)
_WOULD_IGNORE = f"; with a COMMIT it would be ignored: {_UNCHANGED.detail}"
_BLOB = _Ending(
    Outcome.IGNORED,
    Reason.NOTHING_TO_PUBLISH,
    "the setting blobs excludes operations on BLOBs",
)
_COPIED = _Ending(
    Outcome.IGNORED, Reason.DUPLICATE, "the same operation exists for another destination"
)


@dataclass(slots=True, eq=False)
class DispatchQueueRecordBuilder:
    """Builds batches of ``RECORD_SCHEMA`` from the operations of one split."""

    place: Place
    options: DispatchQueueOptions
    operations: Operations
    names: QueueNames
    fates: Fates
    _span: Codes = field(init=False)
    _fate: Codes = field(init=False)

    def __post_init__(self) -> None:
        self._span = self.fates.spans_of(self.operations)
        ended = self._span >= 0
        self._fate = np.full(len(self.operations), Fate.OPEN, np.int64)
        self._fate[ended] = self.fates.fate[self._span[ended]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields batches for each block of operations, then the tally of the split."""
        operations = self.operations
        for start in range(0, len(operations), BLOCK):
            yield from self._block(np.arange(start, min(start + BLOCK, len(operations))))
        if operations.repeated:
            yield self._repetitions()
        rows = operations.rows
        if rows.broken:
            yield self._broken()
        yield tally(self.place, len(rows) + len(rows.broken))

    def _block(self, numbers: Codes) -> Iterator[pa.RecordBatch]:
        operations = self.operations
        ends: dict[int, _Ending] = {}
        objects: dict[int, _RowName] = {}
        with_changes: set[int] = set()
        for group in decode_tables(operations, numbers, self.names):
            for place, fault in group.faults.items():
                operations.faults.setdefault(int(group.numbers[place]), fault)
            yield from self._changes(group, with_changes, ends, objects)
        remaining = [number for number in numbers.tolist() if number not in with_changes]
        if remaining:
            yield self._endings(remaining, ends, objects)

    def _changes(
        self,
        group: DecodedTable,
        with_changes: set[int],
        ends: dict[int, _Ending],
        objects: dict[int, _RowName],
    ) -> Iterator[pa.RecordBatch]:
        lanes = group.names.lanes(group.keys, self.place.lanes)
        live = (self._fate[group.numbers] == Fate.PUBLISH) & ~np.isin(
            np.arange(len(group.numbers)), list(group.faults)
        )
        chosen = np.flatnonzero(live)
        builder = builder_class(group.names)(
            self.records, self.operations, self.options, group, chosen, lanes
        )
        unchanged = chosen[builder.unchanged]
        for place in [*np.flatnonzero(~live).tolist(), *unchanged.tolist()]:
            key = group.keys[place].as_py()
            if key is not None:
                names, number = group.names, int(group.numbers[place])
                objects[number] = _RowName(
                    names.schema, names.table, key, lanes[place].as_py(), names.child
                )
        ends |= dict.fromkeys(group.numbers[unchanged].tolist(), _UNCHANGED)
        with_changes.update(group.numbers[chosen[~builder.unchanged]].tolist())
        yield from builder.batches()
        yield from self._held_changes(group, with_changes, lanes)

    def _held_changes(
        self, group: DecodedTable, with_changes: set[int], lanes: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Yields held operations with the values that their COMMIT would publish."""
        is_held = np.isin(self._fate[group.numbers], [Fate.OPEN, Fate.HOLD])
        faulty = [
            place
            for place, number in enumerate(group.numbers.tolist())
            if number in self.operations.faults
        ]
        is_held[faulty] = False
        chosen = np.flatnonzero(is_held)
        if not len(chosen):
            return
        unchanged: set[int] = set()
        records = partial(self._held_records, unchanged)
        builder = builder_class(group.names)(
            records, self.operations, self.options, group, chosen, lanes
        )
        unchanged.update(group.numbers[chosen[builder.unchanged]].tolist())
        with_changes.update(group.numbers[chosen].tolist())
        yield from builder.held_batches()

    def _held_records(
        self, unchanged: set[int], numbers: Codes, **columns: object
    ) -> pa.RecordBatch:
        """Builds a batch of held operations."""
        details = [
            self._held_detail(number) + (_WOULD_IGNORE if number in unchanged else "")
            for number in numbers.tolist()
        ]
        return self.records(
            numbers,
            outcome=Outcome.HELD.value,
            reason=str(Reason.OPEN_TRANSACTION),
            detail=pa.array(details, pa.string()),
            **columns,
        )

    def records(self, numbers: Codes, **columns: object) -> pa.RecordBatch:
        """Builds a batch of some operations."""
        operations = self.operations
        span = self._span[numbers]
        address = operations.address[numbers]
        high = address
        if len(self.fates.marks):
            high = np.where(span >= 0, self.fates.marks[span], address)
        rank = operations.rows.numbers[operations.first[numbers]]
        published = self._fate[numbers] == Fate.PUBLISH
        if published.any():
            rank = rank.copy()
            rank[published] = self.fates.ranks(span[published], address[published])
        nodes = pa.array(operations.rows.nodes, pa.string())
        common: dict[str, object] = {
            "source": self.place.source,
            "part": nodes.take(pa.array(operations.node[numbers])),
            "rank": rank,
            "high": signed_addresses(high),
            "low": signed_addresses(address),
            "ordinal": 0,
            "split": self.place.split,
            "row": operations.rows.numbers[operations.first[numbers]],
            "records": operations.parts[numbers],
            "event_time": event_times(
                operations.rows, operations.first[numbers], self.options.time_zone
            ),
            "transaction": pa.array(operations.column("TRANSACT_ID")[numbers]).cast(pa.string()),
        }
        return batch(len(numbers), **(common | columns))

    def _endings(
        self,
        remaining: list[int],
        ends: dict[int, _Ending],
        objects: dict[int, _RowName],
    ) -> pa.RecordBatch:
        """Builds a batch of operations without changes."""
        endings = [ends.get(number) or self._ending(number) for number in remaining]
        numbers = np.array(remaining, np.int64)
        rows = self.operations.rows.numbers[self.operations.first[numbers]]
        lanes = record_lanes(self.place, rows).tolist()
        named = [objects.get(number) for number in remaining]
        raws = [
            raw_of(self.operations, number) if _needs_raw(end, number in objects) else None
            for number, end in zip(remaining, endings, strict=True)
        ]
        return self.records(
            numbers,
            lane=pa.array([o.lane if o else lane for o, lane in zip(named, lanes, strict=True)]),
            schema=pa.array([o and o.schema for o in named], pa.string()),
            table=pa.array([o and o.table for o in named], pa.string()),
            key=pa.array([o and o.key for o in named], pa.string()),
            logged_table=pa.array([o and o.child for o in named], pa.string()),
            outcome=pa.array([end.outcome.value for end in endings]),
            reason=pa.array([str(end.reason) for end in endings]),
            detail=pa.array([end.detail for end in endings], pa.string()),
            raw=pa.array(raws, pa.string()),
        )

    def _ending(self, number: int) -> _Ending:
        """Returns the outcome of an operation without changes."""
        operations, use = self.operations, int(self.operations.use[number])
        fate, span = int(self._fate[number]), int(self._span[number])
        if use == OperationUse.EXCLUDED or fate == Fate.DONE:
            return _NOT_CHOSEN if use == OperationUse.EXCLUDED else _DONE
        if operations.kind[number] != RowKind.OPERATION:
            return self._ending_of_mark(number)
        if fate == Fate.DROP:
            mark = address_text(int(self.fates.marks[span]))
            return _Ending(Outcome.IGNORED, Reason.ROLLBACK, f"ROLLBACK at {mark}")
        fault = operations.faults.get(number)
        is_broken = fault is not None and fault.reason is Reason.BROKEN_RECORD
        if fate in (Fate.OPEN, Fate.HOLD) and not is_broken:
            return _Ending(Outcome.HELD, Reason.OPEN_TRANSACTION, self._held_detail(number))
        if use == OperationUse.COPY and fault is None:
            return _COPIED
        why = f"its whole transaction is rejected: {self.fates.why.get(span, '')}"
        fault = fault or RecordFault(Reason.HELD_BACK, why)
        is_blob = operations.ignored[number] and fate == Fate.PUBLISH
        return _BLOB if is_blob else _Ending(Outcome.REJECTED, fault.reason, fault.detail)

    def _held_detail(self, number: int) -> str:
        span = int(self._span[number])
        if span >= 0:
            return self.fates.why.get(span, "")
        fault = self.operations.faults.get(number)
        also = "" if fault is None else f"; with a COMMIT it would be rejected: {fault.detail}"
        operations = self.operations
        node = operations.rows.nodes[int(operations.node[number])]
        last = self.fates.last_mark(node, int(operations.column("TRANSACT_ID")[number]))
        earlier = (
            ""
            if last is None
            else f"; the last COMMIT or ROLLBACK of its transaction number is at {address_text(last)}"
        )
        return f"no COMMIT or ROLLBACK follows in the input{earlier}{also}"

    def _ending_of_mark(self, number: int) -> _Ending:
        """Returns the outcome of a COMMIT or ROLLBACK."""
        kind, span = int(self.operations.kind[number]), int(self._span[number])
        why = self.fates.why.get(span)
        if kind == RowKind.CLOSING:
            return _Ending(Outcome.HELD, Reason.OPEN_TRANSACTION, why)
        if span >= 0 and self.fates.empty[span]:
            detail = "it closes no operation" + (f": {why}" if why else "")
            return _Ending(Outcome.IGNORED, Reason.NOTHING_TO_COMMIT, detail)
        if kind == RowKind.ROLLBACK:
            detail = "it ends a transaction that is not published"
            return _Ending(Outcome.IGNORED, Reason.ROLLBACK, detail)
        assert kind == RowKind.COMMIT
        blob = int(self.operations.column("BLOBATR")[number]) & 0xFFFF
        if blob:  # not documented to be 0
            doubt = f"its BLOBATR is {blob}, but it counts as a COMMIT because it has no DATA"
            why = f"{why}; {doubt}" if why else doubt
        return _Ending(Outcome.IGNORED, Reason.COMMIT, why)

    def _repetitions(self) -> pa.RecordBatch:
        """Builds a batch of exact repetitions of rows."""
        operations, places = self.operations, np.array(sorted(self.operations.repeated), np.int64)
        numbers, address = (
            operations.rows.numbers[places],
            signed_addresses(operations.rows.address[places]),
        )
        return nameless(
            self.place,
            numbers,
            part=pa.array(operations.rows.nodes, pa.string()).take(
                pa.array(operations.rows.node[places])
            ),
            high=address,
            low=address,
            outcome=Outcome.IGNORED.value,
            reason=str(Reason.DUPLICATE),
        )

    def _broken(self) -> pa.RecordBatch:
        pieces = self.operations.rows.broken
        return nameless(
            self.place,
            np.array([piece.row for piece in pieces], np.int64),
            ordinal=NO_ROW,
            outcome=Outcome.REJECTED.value,
            reason=str(Reason.BROKEN_RECORD),
            detail=[piece.reason for piece in pieces],
            raw=[piece.raw for piece in pieces],
        )


def _needs_raw(end: _Ending, has_object: bool) -> bool:
    """Tests whether the ledger needs the raw record: it is rejected, or held and its object is unknown."""
    return end.outcome is Outcome.REJECTED or (end.outcome is Outcome.HELD and not has_object)


def faults_of(operations: Operations, names: QueueNames) -> dict[int, str]:
    """Decodes all operations and returns the faults of counted ones by number."""
    for start in range(0, len(operations), BLOCK):
        numbers = np.arange(start, min(start + BLOCK, len(operations)))
        for group in decode_tables(operations, numbers, names):
            for place, fault in group.faults.items():
                operations.faults.setdefault(int(group.numbers[place]), fault)
    use = operations.use
    return {
        n: fault.detail for n, fault in operations.faults.items() if use[n] == OperationUse.COUNTED
    }
