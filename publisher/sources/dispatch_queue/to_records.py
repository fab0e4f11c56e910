"""Operations to records: changes, and all else with its outcome, by the fate of its transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from publisher.model.change import Outcome, Reason
from publisher.sources.columns.record_batches import Place, batch, nameless, record_lanes, tally
from publisher.sources.dispatch_queue.as_json import raw_of
from publisher.sources.dispatch_queue.images.by_table import BLOCK, Decoded, decoded
from publisher.sources.dispatch_queue.object_names import AllNames
from publisher.sources.dispatch_queue.oper_date import event_times
from publisher.sources.dispatch_queue.operations import (
    ALONE,
    CLOSING,
    COMMIT,
    COPY,
    EXCLUDED,
    OPERATION,
    ROLLBACK,
    Fault,
    Operations,
)
from publisher.sources.dispatch_queue.options import Options
from publisher.sources.dispatch_queue.rows.rows import Codes
from publisher.sources.dispatch_queue.to_changes import Changes
from publisher.sources.dispatch_queue.transactions.facts import address_text, as_stored
from publisher.sources.dispatch_queue.transactions.fates import (
    DONE,
    DROP,
    HOLD,
    OPEN,
    PUBLISH,
    Fates,
)

NO_ROW = -1
"""``ordinal`` of a piece that is no row; ``high`` is its number."""


@dataclass(frozen=True, slots=True)
class _Preset:
    """Where an operation ends that gives no change."""

    outcome: Outcome
    reason: Reason
    detail: str | None


_NOT_CHOSEN = _Preset(
    Outcome.IGNORED,
    Reason.NOT_CHOSEN,
    "another database or destination than those of the settings (nodes, destination)",
)
_DONE = _Preset(
    Outcome.IGNORED, Reason.DUPLICATE, "an earlier run has read this transaction to its end"
)
_UNCHANGED = _Preset(
    Outcome.IGNORED,
    Reason.NOTHING_TO_PUBLISH,
    "the images do not differ in a published column",
)
_WOULD_IGNORE = f"; with a COMMIT it would be ignored: {_UNCHANGED.detail}"
_BLOB = _Preset(
    Outcome.IGNORED,
    Reason.NOTHING_TO_PUBLISH,
    "operations on BLOBs are not published (blobs)",
)
_COPIED = _Preset(
    Outcome.IGNORED, Reason.DUPLICATE, "the same operation stands there for another destination"
)


@dataclass(slots=True, eq=False)
class Meaning:
    """Turns the operations of one split into batches of ``RECORD_SCHEMA``."""

    place: Place
    options: Options
    operations: Operations
    names: AllNames
    fates: Fates
    _span: Codes = field(init=False)
    _fate: Codes = field(init=False)

    def __post_init__(self) -> None:
        made = self.operations
        self._span = self.fates.span(
            made.rows.nodes, made.node, made.column("TRANSACT_ID"), made.address
        )
        known = self._span >= 0
        self._fate = np.full(len(made), OPEN, np.int64)
        self._fate[known] = self.fates.fate[self._span[known]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """One or some for each block of operations, and the tally of the split."""
        made = self.operations
        for start in range(0, len(made), BLOCK):
            yield from self._block(np.arange(start, min(start + BLOCK, len(made))))
        if made.again:
            yield self._again()
        rows = made.rows
        if rows.broken:
            yield self._broken()
        yield tally(self.place, len(rows) + len(rows.broken))

    def _block(self, numbers: Codes) -> Iterator[pa.RecordBatch]:
        made = self.operations
        ends: dict[int, _Preset] = {}
        objects: dict[int, tuple[str | None, str, str, int]] = {}
        done: set[int] = set()
        for group in decoded(made, numbers, self.names):
            for place, fault in group.faults.items():
                made.faults.setdefault(int(group.numbers[place]), fault)
            yield from self._changes(group, done, ends, objects)
        left = [number for number in numbers.tolist() if number not in done]
        if left:
            yield self._presets(left, ends, objects)

    def _changes(
        self,
        group: Decoded,
        done: set[int],
        ends: dict[int, _Preset],
        objects: dict[int, tuple[str | None, str, str, int]],
    ) -> Iterator[pa.RecordBatch]:
        lanes = group.names.lanes(group.keys, self.place.lanes)
        live = (self._fate[group.numbers] == PUBLISH) & ~np.isin(
            np.arange(len(group.numbers)), list(group.faults)
        )
        kept = group.keys[: len(group.numbers)].to_pylist() if not live.all() else []
        for place in np.flatnonzero(~live).tolist():
            if kept[place] is not None:
                named = (group.names.schema, group.names.table, kept[place], lanes[place].as_py())
                objects[int(group.numbers[place])] = named
        chosen = np.flatnonzero(live)
        step = Changes(self.records, self.operations, self.options, group, chosen, lanes)
        idle = chosen[step.idle]
        for place in idle.tolist():
            number = int(group.numbers[place])
            ends[number] = _UNCHANGED
            key = group.keys[place].as_py()
            objects[number] = (group.names.schema, group.names.table, key, lanes[place].as_py())
        done.update(group.numbers[chosen[~step.idle]].tolist())
        yield from step.batches()
        yield from self._held_changes(group, done, lanes)

    def _held_changes(
        self, group: Decoded, done: set[int], lanes: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        """Operations that are held, with the values that their COMMIT would publish."""
        held = np.isin(self._fate[group.numbers], [OPEN, HOLD])
        faulty = [
            place
            for place, number in enumerate(group.numbers.tolist())
            if number in self.operations.faults
        ]
        held[faulty] = False
        chosen = np.flatnonzero(held)
        if not len(chosen):
            return
        idle: set[int] = set()
        records = partial(self._held_records, idle)
        step = Changes(records, self.operations, self.options, group, chosen, lanes)
        idle.update(group.numbers[chosen[step.idle]].tolist())
        done.update(group.numbers[chosen].tolist())
        yield from step.held_batches()

    def _held_records(self, idle: set[int], numbers: Codes, **columns: object) -> pa.RecordBatch:
        """A batch of held operations; ``idle`` ones change nothing."""
        details = [
            self._held(number) + (_WOULD_IGNORE if number in idle else "")
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
        """A batch of some operations."""
        made = self.operations
        span = self._span[numbers]
        address = made.address[numbers]
        high = address
        if len(self.fates.marks):
            high = np.where(span >= 0, self.fates.marks[span], address)
        rank = made.rows.numbers[made.first[numbers]]
        published = self._fate[numbers] == PUBLISH
        if published.any():
            rank = rank.copy()
            rank[published] = self.fates.ranks(span[published], address[published])
        nodes = pa.array(made.rows.nodes, pa.string())
        common: dict[str, object] = {
            "source": self.place.source,
            "part": nodes.take(pa.array(made.node[numbers])),
            "rank": rank,
            "high": as_stored(high),
            "low": as_stored(address),
            "ordinal": 0,
            "split": self.place.split,
            "row": made.rows.numbers[made.first[numbers]],
            "records": made.parts[numbers],
            "event_time": event_times(made.rows, made.first[numbers], self.options.time_zone),
            "transaction": pa.array(made.column("TRANSACT_ID")[numbers]).cast(pa.string()),
        }
        return batch(len(numbers), **(common | columns))

    def _presets(
        self,
        left: list[int],
        ends: dict[int, _Preset],
        objects: dict[int, tuple[str | None, str, str, int]],
    ) -> pa.RecordBatch:
        found = [ends.get(number) or self._end(number) for number in left]
        numbers = np.array(left, np.int64)
        rows = self.operations.rows.numbers[self.operations.first[numbers]]
        lanes = record_lanes(self.place, rows).tolist()
        known = [objects.get(number) for number in left]
        raws = [
            raw_of(self.operations, number) if _is_shown(end, number in objects) else None
            for number, end in zip(left, found, strict=True)
        ]
        return self.records(
            numbers,
            lane=pa.array([o[3] if o else lane for o, lane in zip(known, lanes, strict=True)]),
            schema=pa.array([o and o[0] for o in known], pa.string()),
            table=pa.array([o and o[1] for o in known], pa.string()),
            key=pa.array([o and o[2] for o in known], pa.string()),
            outcome=pa.array([end.outcome.value for end in found]),
            reason=pa.array([str(end.reason) for end in found]),
            detail=pa.array([end.detail for end in found], pa.string()),
            raw=pa.array(raws, pa.string()),
        )

    def _end(self, number: int) -> _Preset:
        """Why an operation gives no change."""
        made, counted = self.operations, int(self.operations.counted[number])
        fate, span = int(self._fate[number]), int(self._span[number])
        if counted == EXCLUDED or fate == DONE:
            return _NOT_CHOSEN if counted == EXCLUDED else _DONE
        if made.kind[number] != OPERATION:
            return self._end_of_mark(number)
        if fate == DROP:
            mark = address_text(int(self.fates.marks[span]))
            return _Preset(Outcome.IGNORED, Reason.ROLLBACK, f"ROLLBACK at {mark}")
        if fate in (OPEN, HOLD):
            return _Preset(Outcome.HELD, Reason.OPEN_TRANSACTION, self._held(number))
        if counted == COPY and number not in made.faults:
            return _COPIED
        why = f"its transaction is rejected as one: {self.fates.why.get(span, '')}"
        fault = made.faults.get(number, Fault(Reason.HELD_BACK, why))
        is_blob = made.ignored[number] and fate == PUBLISH
        return _BLOB if is_blob else _Preset(Outcome.REJECTED, fault.reason, fault.detail)

    def _held(self, number: int) -> str:
        span = int(self._span[number])
        if span >= 0:
            return self.fates.why.get(span, "")
        fault = self.operations.faults.get(number)
        also = "" if fault is None else f"; with a COMMIT it would be rejected: {fault.detail}"
        made = self.operations
        node = made.rows.nodes[int(made.node[number])]
        last = self.fates.last_mark(node, int(made.column("TRANSACT_ID")[number]))
        below = "" if last is None else f"; the last one of its number is at {address_text(last)}"
        return f"no COMMIT or ROLLBACK follows in the input{below}{also}"

    def _end_of_mark(self, number: int) -> _Preset:
        kind, span = int(self.operations.kind[number]), int(self._span[number])
        why = self.fates.why.get(span)
        if kind == CLOSING:
            return _Preset(Outcome.HELD, Reason.OPEN_TRANSACTION, why)
        if span >= 0 and self.fates.empty[span]:
            what = "it closes no operation" + (f": {why}" if why else "")
            return _Preset(Outcome.IGNORED, Reason.NOTHING_TO_COMMIT, what)
        if kind == ROLLBACK:
            what = "it ends a transaction, nothing of which is published"
            return _Preset(Outcome.IGNORED, Reason.ROLLBACK, what)
        assert kind == COMMIT
        blob = int(self.operations.column("BLOBATR")[number]) & 0xFFFF
        if blob:  # nothing says that it is 0
            said = f"its BLOBATR is {blob}; without DATA it is taken for COMMIT all the same"
            why = f"{why}; {said}" if why else said
        return _Preset(Outcome.IGNORED, Reason.COMMIT, why)

    def _again(self) -> pa.RecordBatch:
        """Rows that stand there again, with the same content."""
        made, places = self.operations, np.array(sorted(self.operations.again), np.int64)
        numbers, address = made.rows.numbers[places], as_stored(made.rows.address[places])
        return nameless(
            self.place,
            numbers,
            part=pa.array(made.rows.nodes, pa.string()).take(pa.array(made.rows.node[places])),
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


def _is_shown(end: _Preset, known: bool) -> bool:
    """Whether the record is kept as it is: where it is rejected, or held and nothing else says it."""
    return end.outcome is Outcome.REJECTED or (end.outcome is Outcome.HELD and not known)


def faults_of(operations: Operations, names: AllNames) -> dict[int, str]:
    """What is wrong with operations, by place: with their rows, or with their images."""
    for start in range(0, len(operations), BLOCK):
        numbers = np.arange(start, min(start + BLOCK, len(operations)))
        for group in decoded(operations, numbers, names):
            for place, fault in group.faults.items():
                operations.faults.setdefault(int(group.numbers[place]), fault)
    counted = operations.counted
    return {n: fault.detail for n, fault in operations.faults.items() if counted[n] == ALONE}
