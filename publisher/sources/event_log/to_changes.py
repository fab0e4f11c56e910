"""Event log rows to records, in bulk: what each column must hold, and what a row is rejected for.

Column by column, by the reference (event log columns): record_id is a positive integer, status is
case-sensitive, event_type is 1 to 8, event_time must be there, column_name is used by the per-field
types, old_value by type 2, new_value by types 1 to 3, binary values are Base64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Outcome, Reason
from publisher.sources.columns.columns import Integers, integers, texts, times
from publisher.sources.columns.object_names import Fault, Names
from publisher.sources.columns.record_batches import (
    Codes,
    Place,
    as_json,
    batch,
    broken,
    lists,
    nameless,
    record_lanes,
    tally,
)
from publisher.sources.event_log.fingerprints import FINGERPRINTED, fingerprints_of
from publisher.sources.event_log.rows import Columns, Objects, Rows
from publisher.sources.files.frame import Frame

TEXT_COLUMNS = (
    "table_key",
    "status",
    "perpetrator",
    "table_name",
    "column_name",
    "old_value",
    "new_value",
)


class Normaliser:
    """Turns the frames of one split into batches of ``RECORD_SCHEMA``."""

    def __init__(
        self,
        place: Place,
        names: Names,
        *,
        any_status: bool,
        time_zone: str,
        fingerprints: bool = False,
    ) -> None:
        """``fingerprints``: give each record that of its row, by which it is acknowledged."""
        self._fingerprints = fingerprints
        self._place = place
        self._names = names
        self._any_status = any_status
        self._time_zone = time_zone

    def batches(self, frames: Iterable[Frame]) -> Iterator[pa.RecordBatch]:
        """One batch for each frame, and the tally of the split at the end."""
        framed = 0
        for frame in frames:
            framed += frame.batch.num_rows + len(frame.broken)
            yield from self.records(frame)
        yield tally(self._place, framed)

    def records(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        """The records of a frame: changes first, then those that give none."""
        if frame.broken:
            yield broken(frame, self._place)
        if not frame.batch.num_rows:
            return
        rows, types = self._start(frame)
        yield from self._ignored(rows)
        moments = self._check(rows, types)
        changes = self._changes(rows, types, moments)
        if changes is not None and changes.num_rows:
            yield changes
        if rows.faults:
            yield _without_change(rows)

    def _start(self, frame: Frame) -> tuple[Rows, Integers]:
        batch = frame.batch
        text, readable = {}, {}
        for name in TEXT_COLUMNS:
            text[name], readable[name] = texts(batch.column(name))
        ids, has_id = integers(batch.column("record_id"))
        rows = Rows(
            frame, self._place, text, readable, ids, has_id & (ids > 0), np.arange(batch.num_rows)
        )
        if self._fingerprints:
            rows.fingerprints = fingerprints_of([batch.column(name) for name in FINGERPRINTED])
        return rows, integers(batch.column("event_type"))

    def _ignored(self, rows: Rows) -> Iterator[pa.RecordBatch]:
        """Rows whose status is not ``N``: the driver's query does not read them."""
        if self._any_status:
            return
        status = rows.text["status"]
        new = pc.equal(pc.utf8_rtrim_whitespace(status), "N").fill_null(False)
        other = ~new.to_numpy(zero_copy_only=False) & rows.readable["status"]
        if not other.any():
            return
        ignored = np.flatnonzero(other)
        rows.live = np.flatnonzero(~other)
        count = len(ignored)
        yield _no_changes(
            rows,
            ignored,
            outcome=np.full(count, Outcome.IGNORED, np.int32),
            reason=pa.repeat(pa.scalar(str(Reason.STATUS)), count),
            detail=status.take(pa.array(ignored)).fill_null("NULL"),
        )

    def _check(self, rows: Rows, types: Integers) -> Codes:
        """Reject rows without usable record_id, event_type or event_time; the times are given back."""
        for name, right in rows.readable.items():
            if not right.all():
                rows.fault(
                    ~right[rows.live],
                    Fault(Reason.BROKEN_RECORD, f"{name} is no text; export it as UTF-8 text"),
                )
        rows.fault(~rows.has_id[rows.live], lambda row: _no_id(rows.value("record_id", row)))
        values, right = types
        wrong = ~(right & (values >= 1) & (values <= 8))
        rows.fault(wrong[rows.live], lambda row: _no_type(rows.value("event_type", row)))
        moments, known = times(rows.frame.batch.column("event_time"), self._time_zone)
        rows.fault(~known[rows.live], lambda row: _no_time(rows.value("event_time", row)))
        for name, reason in (("table_name", Reason.TABLE_NAME), ("table_key", Reason.TABLE_KEY)):
            absent = ~rows.text[name].is_valid().to_numpy(zero_copy_only=False)
            rows.fault(absent[rows.live], Fault(reason, f"{name} is NULL; mend the trigger"))
        return moments

    def _changes(self, rows: Rows, types: Integers, moments: Codes) -> pa.RecordBatch | None:
        if not len(rows.live):
            return None
        objects = Objects(self._names, rows)
        objects.resolve()
        if not len(rows.live):
            return None
        columns = Columns(rows, objects, types[0])
        columns.resolve()
        if not len(rows.live):
            return None
        return _assemble(rows, objects, columns, types[0], moments)


def _assemble(
    rows: Rows, objects: Objects, columns: Columns, types: Codes, moments: Codes
) -> pa.RecordBatch:
    live, place = rows.live, rows.place
    whole = len(live) == rows.frame.batch.num_rows
    take = pa.array(live)
    codes = pa.array(objects.codes[live])
    tables = pa.array(objects.tables[live])
    kinds = types[live]
    ids = pa.array(rows.ids[live])

    def picked(array: pa.Array) -> pa.Array:
        return array if whole else array.take(take)

    return batch(
        len(live),
        source=place.source,
        lane=pa.array([key.lane for key in objects.keys], pa.int32()).take(codes),
        part="",
        rank=ids,
        high=ids,
        low=0,
        ordinal=0,
        split=place.split,
        row=rows.frame.rows[live],
        records=1,
        schema=_of_tables(objects, "schema").take(tables),
        table=_of_tables(objects, "table").take(tables),
        key=pa.array([key.text for key in objects.keys], pa.string()).take(codes),
        event_type=kinds.astype(np.int32),
        columns=lists(picked(columns.names), np.isin(kinds, (1, 2, 3, 7, 8)), None),
        old=lists(picked(columns.old), kinds == 2, kinds != 2),
        new=lists(picked(columns.new), kinds <= 3, kinds > 3),
        event_time=moments[live],
        perpetrator=pc.utf8_rtrim(picked(rows.text["perpetrator"]), " "),
        fingerprint=None if rows.fingerprints is None else rows.fingerprints[live],
    )


def _of_tables(objects: Objects, name: str) -> pa.Array:
    return pa.array([getattr(target, name, None) for target in objects.targets], pa.string())


def _no_changes(rows: Rows, which: Codes, **columns: object) -> pa.RecordBatch:
    """Records of a frame that give no change, at their record_id, else at their place in the file."""
    place, numbers, has_id = rows.place, rows.frame.rows[which], rows.has_id[which]
    position = np.where(has_id, rows.ids[which], numbers)
    where = {
        "part": pa.array(np.where(has_id, "", place.name), pa.string()),
        "rank": position,
        "high": position,
        "fingerprint": None if rows.fingerprints is None else rows.fingerprints[which],
    }
    return nameless(place, numbers, **where | columns)


def _without_change(rows: Rows) -> pa.RecordBatch:
    """Rejected and excluded rows; of excluded ones no value is kept."""
    which = np.array(sorted(rows.faults), np.int64)
    faults = [rows.faults[row] for row in which.tolist()]
    known = [rows.objects.get(row) for row in which.tolist()]
    lanes = record_lanes(rows.place, rows.frame.rows[which]).tolist()
    records = rows.frame.batch.take(pa.array(which)).to_pylist()
    return _no_changes(
        rows,
        which,
        lane=pa.array(
            [k[1].lane if k else lane for k, lane in zip(known, lanes, strict=True)], pa.int32()
        ),
        schema=pa.array([k[0].schema if k else None for k in known], pa.string()),
        table=pa.array([k[0].table if k else None for k in known], pa.string()),
        key=pa.array([k[1].text if k else None for k in known], pa.string()),
        outcome=pa.array([fault.outcome.value for fault in faults], pa.int32()),
        reason=pa.array([str(fault.reason) for fault in faults]),
        detail=pa.array([fault.detail for fault in faults]),
        raw=pa.array(
            [
                as_json(record) if fault.outcome is Outcome.REJECTED else None
                for fault, record in zip(faults, records, strict=True)
            ],
            pa.string(),
        ),
    )


def _no_id(value: object) -> Fault:
    if value is None:
        return Fault(Reason.RECORD_ID, "record_id is NULL; number the records")
    return Fault(
        Reason.RECORD_ID,
        f"record_id {str(value)[:60]!r} is no positive integer of 64 bits; mend it",
    )


def _no_type(value: object) -> Fault:
    return Fault(
        Reason.EVENT_TYPE, f"event_type {str(value)[:60]!r} is not 1 to 8; mend the trigger"
    )


def _no_time(value: object) -> Fault:
    if value is None:
        return Fault(Reason.EVENT_TIME, "event_time is NULL; it must be there, mend the trigger")
    return Fault(
        Reason.EVENT_TIME,
        f"event_time {str(value)[:60]!r} is no time; write yyyy-mm-dd hh:mm:ss[.fffffffff] [zone]",
    )
