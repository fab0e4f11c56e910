"""Turns rows of an event log into records, in bulk, and rejects invalid rows.

Rules of the columns: record_id is a positive integer, status is case-sensitive, event_type is 1 to 8,
event_time is required, column_name is used by the per-field types, old_value by type 2, new_value by types 1
to 3, and binary values are Base64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Outcome, Reason
from publisher.model.classes import ChildRowEvents
from publisher.sources.columns.columns import Integers, integers, texts, times
from publisher.sources.columns.object_names import Names, RecordFault
from publisher.sources.columns.record_batches import (
    Codes,
    Place,
    as_json,
    batch,
    broken,
    children_of,
    lists,
    nameless,
    record_lanes,
    tally,
)
from publisher.sources.event_log.fingerprints import FINGERPRINTED, fingerprints_of
from publisher.sources.event_log.key_changes import EventKeyChanges
from publisher.sources.event_log.options import KeyChangePolicy
from publisher.sources.event_log.rows import EventColumns, EventObjects, EventRows
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


class EventLogChangeBuilder:
    """Turns the frames of one split into batches of ``RECORD_SCHEMA``."""

    def __init__(
        self,
        place: Place,
        names: Names,
        *,
        any_status: bool,
        time_zone: str,
        key_change: KeyChangePolicy,
        child_row_events: ChildRowEvents = "reject",
        fingerprints: bool = False,
    ) -> None:
        """``fingerprints``: add the fingerprint of each row, for its acknowledgement."""
        self._fingerprints = fingerprints
        self._place = place
        self._names = names
        self._any_status = any_status
        self._time_zone = time_zone
        self._child_row_events = child_row_events
        self._key_change = key_change

    def batches(self, frames: Iterable[Frame]) -> Iterator[pa.RecordBatch]:
        """Yields the records of all frames, and the tally of the split at the end."""
        record_count = 0
        for frame in frames:
            record_count += frame.batch.num_rows + len(frame.broken)
            yield from self.records(frame)
        yield tally(self._place, record_count)

    def records(self, frame: Frame) -> Iterator[pa.RecordBatch]:
        """Yields the records of a frame: ignored rows, changes, then rejected rows."""
        if frame.broken:
            yield broken(frame, self._place)
        if not frame.batch.num_rows:
            return
        rows, types = self._read_columns(frame)
        yield from self._ignore_other_statuses(rows)
        moments = self._check(rows, types)
        changes = self._changes(rows, types, moments)
        if changes is not None and changes.num_rows:
            yield changes
        if rows.faults:
            yield _faulty_records(rows)

    def _read_columns(self, frame: Frame) -> tuple[EventRows, Integers]:
        batch = frame.batch
        text, readable = {}, {}
        for name in TEXT_COLUMNS:
            text[name], readable[name] = texts(batch.column(name))
        ids, has_id = integers(batch.column("record_id"))
        rows = EventRows(
            frame, self._place, text, readable, ids, has_id & (ids > 0), np.arange(batch.num_rows)
        )
        if self._fingerprints:
            rows.fingerprints = fingerprints_of([batch.column(name) for name in FINGERPRINTED])
        return rows, integers(batch.column("event_type"))

    def _ignore_other_statuses(self, rows: EventRows) -> Iterator[pa.RecordBatch]:
        """Ignores rows whose status is not ``N``, which the driver's query does not read."""
        if self._any_status:
            return
        status = rows.text["status"]
        is_new = pc.equal(pc.utf8_rtrim_whitespace(status), "N").fill_null(False)
        is_other = ~is_new.to_numpy(zero_copy_only=False) & rows.readable["status"]
        if not is_other.any():
            return
        ignored = np.flatnonzero(is_other)
        rows.live = np.flatnonzero(~is_other)
        count = len(ignored)
        yield _build_records(
            rows,
            ignored,
            outcome=np.full(count, Outcome.IGNORED, np.int32),
            reason=pa.repeat(pa.scalar(str(Reason.STATUS)), count),
            detail=status.take(pa.array(ignored)).fill_null("NULL"),
        )

    def _check(self, rows: EventRows, types: Integers) -> Codes:
        """Rejects rows without usable record_id, event_type or event_time; returns the times."""
        for name, valid in rows.readable.items():
            if not valid.all():
                rows.reject(
                    ~valid[rows.live],
                    RecordFault(
                        Reason.BROKEN_RECORD, f"{name} is not text; export it as UTF-8 text"
                    ),
                )
        rows.reject(~rows.has_id[rows.live], lambda row: _no_id(rows.value("record_id", row)))
        values, valid = types
        wrong = ~(valid & (values >= 1) & (values <= 8))
        rows.reject(wrong[rows.live], lambda row: _no_type(rows.value("event_type", row)))
        moments, has_time = times(rows.frame.batch.column("event_time"), self._time_zone)
        rows.reject(~has_time[rows.live], lambda row: _no_time(rows.value("event_time", row)))
        for name, reason in (("table_name", Reason.TABLE_NAME), ("table_key", Reason.TABLE_KEY)):
            absent = ~rows.text[name].is_valid().to_numpy(zero_copy_only=False)
            rows.reject(absent[rows.live], RecordFault(reason, f"{name} is NULL; fix the trigger"))
        return moments

    def _changes(self, rows: EventRows, types: Integers, moments: Codes) -> pa.RecordBatch | None:
        if not len(rows.live):
            return None
        objects = EventObjects(self._names, rows)
        objects.resolve()
        if not len(rows.live):
            return None
        columns = EventColumns(rows, objects, types[0])
        columns.resolve()
        columns.resolve_row_events(self._child_row_events)
        if not len(rows.live):
            return None
        changes = EventKeyChanges(rows, objects, columns, self._key_change)
        changes.resolve()
        if not len(rows.live):
            return None
        return _build_changes(rows, objects, changes, moments)


def _build_changes(
    rows: EventRows, objects: EventObjects, changes: EventKeyChanges, moments: Codes
) -> pa.RecordBatch:
    live, place = rows.live, rows.place
    is_whole = len(live) == rows.frame.batch.num_rows
    take = pa.array(live)
    codes = pa.array(objects.codes[live])
    tables = pa.array(objects.tables[live])
    kinds = changes.types[live]
    ids = pa.array(rows.ids[live])
    columns = _columns_of(rows, changes)

    def pick(array: pa.Array) -> pa.Array:
        return array if is_whole else array.take(take)

    return batch(
        len(live),
        source=place.source,
        lane=pa.array(objects.lanes, pa.int32()).take(codes),
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
        key=objects.keys.take(codes),
        event_type=kinds.astype(np.int32),
        columns=columns,
        old=lists(pick(changes.old), has_old := np.isin(kinds, (2, 9)), ~has_old),
        new=lists(pick(changes.new), has_new := np.isin(kinds, (1, 2, 3, 9)), ~has_new),
        event_time=moments[live],
        perpetrator=pc.utf8_rtrim(pick(rows.text["perpetrator"]), " "),
        **_class_columns(rows, objects, changes, columns),
        fingerprint=None if rows.fingerprints is None else rows.fingerprints[live],
    )


def _columns_of(rows: EventRows, changes: EventKeyChanges) -> pa.Array:
    """The columns of each live row."""
    live = rows.live
    names = changes.names.take(pa.array(live))
    columns = lists(names, np.isin(changes.types[live], (1, 2, 3, 7, 8, 9)), None)
    for which, attributes in changes.row_reads:
        columns = pc.if_else(which[live], pa.scalar(attributes, columns.type), columns)
    return columns


def _class_columns(
    rows: EventRows, objects: EventObjects, changes: EventKeyChanges, columns: pa.ListArray
) -> dict[str, pa.Array | None]:
    """The columns of ``RECORD_SCHEMA`` that describe the classes of the live rows."""
    live, tables = pa.array(rows.live), pa.array(objects.tables[rows.live])
    children = _take(changes.children, live)
    return {
        "is_view": _take(objects.view_flags(), tables),
        "logged_table": _take(objects.child_names(), tables),
        "logged_column": _take(changes.logged, live),
        "children": None if children is None else children_of(columns, children),
    }


def _take(values: pa.Array | None, places: pa.Array) -> pa.Array | None:
    return None if values is None else values.take(places)


def _of_tables(objects: EventObjects, name: str) -> pa.Array:
    return pa.array([getattr(target, name, None) for target in objects.targets], pa.string())


def _build_records(rows: EventRows, which: Codes, **columns: object) -> pa.RecordBatch:
    """Builds records that do not become changes, at their record_id or else at their place in the file."""
    place, numbers, has_id = rows.place, rows.frame.rows[which], rows.has_id[which]
    position = np.where(has_id, rows.ids[which], numbers)
    where = {
        "part": pa.array(np.where(has_id, "", place.name), pa.string()),
        "rank": position,
        "high": position,
        "fingerprint": None if rows.fingerprints is None else rows.fingerprints[which],
    }
    return nameless(place, numbers, **where | columns)


def _faulty_records(rows: EventRows) -> pa.RecordBatch:
    """Builds the records of rejected and excluded rows; values of excluded rows are not stored."""
    which = np.array(sorted(rows.faults), np.int64)
    faults = [rows.faults[row] for row in which.tolist()]
    known = [rows.objects.get(row) for row in which.tolist()]
    lanes = record_lanes(rows.place, rows.frame.rows[which]).tolist()
    records = rows.frame.batch.take(pa.array(which)).to_pylist()
    return _build_records(
        rows,
        which,
        lane=pa.array(
            [k[1].lane if k else lane for k, lane in zip(known, lanes, strict=True)], pa.int32()
        ),
        schema=pa.array([k[0].schema if k else None for k in known], pa.string()),
        table=pa.array([k[0].table if k else None for k in known], pa.string()),
        key=pa.array([k[1].text if k else None for k in known], pa.string()),
        is_view=pa.array([(k and k[0].is_view) or None for k in known], pa.bool_()),
        logged_table=pa.array(
            [
                rows.text["table_name"][row].as_py() if k and k[0].child else None
                for row, k in zip(which.tolist(), known, strict=True)
            ],
            pa.string(),
        ),
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


def _no_id(value: object) -> RecordFault:
    if value is None:
        return RecordFault(Reason.RECORD_ID, "record_id is NULL; number the records")
    return RecordFault(
        Reason.RECORD_ID,
        f"record_id {str(value)[:60]!r} is not a positive integer of 64 bits; fix the record",
    )


def _no_type(value: object) -> RecordFault:
    return RecordFault(
        Reason.EVENT_TYPE, f"event_type {str(value)[:60]!r} is not 1 to 8; fix the trigger"
    )


def _no_time(value: object) -> RecordFault:
    if value is None:
        return RecordFault(Reason.EVENT_TIME, "event_time is NULL, but required; fix the trigger")
    return RecordFault(
        Reason.EVENT_TIME,
        f"event_time {str(value)[:60]!r} is not a time; write yyyy-mm-dd hh:mm:ss[.fffffffff] [zone]",
    )
