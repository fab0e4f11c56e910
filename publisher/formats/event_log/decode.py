"""Decodes rows of an event log: text, numbers and times, and the fault of each row that cannot be used.

Rules of the columns: record_id is a positive integer, status is case-sensitive, event_type is 1 to 8,
event_time, table_name and table_key are required.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.columns import integers, texts, times
from publisher.formats.columns.object_names import Key, RecordFault, TargetTable
from publisher.formats.columns.record_batches import Codes, Mask, Place
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.files.frame import Frame
from publisher.model.change import Reason

MakeFault = Callable[[int], RecordFault]
"""Makes the fault of a row from its number in the frame."""

TEXT_COLUMNS = (
    "table_key",
    "status",
    "perpetrator",
    "table_name",
    "column_name",
    "old_value",
    "new_value",
)


def _no_codes() -> Codes:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class EventRows:
    """The decoded rows of a frame; ``live`` are the numbers of the rows without fault so far."""

    frame: Frame
    place: Place
    text: dict[str, pa.Array]
    readable: dict[str, Mask]
    """Marks of the values in the columns of ``text`` that are valid text."""
    ids: Codes
    has_id: Mask
    live: Codes
    faults: dict[int, RecordFault] = field(default_factory=dict)
    objects: dict[int, tuple[TargetTable, Key]] = field(default_factory=dict)
    """Table and key of faulty rows, if known."""
    fingerprints: Codes | None = None
    """Fingerprints of rows that are acknowledged later."""
    types: Codes = field(default_factory=_no_codes)
    """Event type of each row; that of faulty rows has no meaning."""
    moments: Codes = field(default_factory=_no_codes)
    """Event time of each row in microseconds since 1970-01-01 UTC."""
    others: Codes = field(default_factory=_no_codes)
    """Numbers of the rows whose status is not ``N``."""

    def reject(self, wrong: Mask, fault: MakeFault | RecordFault) -> None:
        """Rejects the live rows that ``wrong`` marks."""
        if not wrong.any():
            return
        for row in self.live[wrong].tolist():
            self.faults[row] = fault if isinstance(fault, RecordFault) else fault(row)
        self.live = self.live[~wrong]

    def value(self, name: str, row: int) -> object:
        """Returns the value of a column in a row, as it was read."""
        return self.frame.batch.column(name)[row].as_py()


def decode(
    frame: Frame, place: Place, options: EventLogOptions, fingerprints: Codes | None
) -> EventRows:
    """Decodes the rows of a frame, which has the documented columns."""
    batch = frame.batch
    text, readable = {}, {}
    for name in TEXT_COLUMNS:
        text[name], readable[name] = texts(batch.column(name))
    ids, has_id = integers(batch.column("record_id"))
    all_rows = np.arange(batch.num_rows)
    rows = EventRows(frame, place, text, readable, ids, has_id & (ids > 0), all_rows)
    rows.fingerprints = fingerprints
    if options.status != "any":
        _leave_out_other_statuses(rows)
    _check(rows, options)
    return rows


def _leave_out_other_statuses(rows: EventRows) -> None:
    """Leaves out rows whose status is not ``N``, which the driver's query does not read."""
    is_new = pc.equal(pc.utf8_rtrim_whitespace(rows.text["status"]), "N").fill_null(False)
    is_other = ~is_new.to_numpy(zero_copy_only=False) & rows.readable["status"]
    rows.others, rows.live = np.flatnonzero(is_other), np.flatnonzero(~is_other)


def _check(rows: EventRows, options: EventLogOptions) -> None:
    """Rejects rows without usable text, record_id, event_type, event_time, table_name or table_key."""
    for name, valid in rows.readable.items():
        if not valid.all():
            rows.reject(
                ~valid[rows.live],
                RecordFault(Reason.BROKEN_RECORD, f"{name} is not text; export it as UTF-8 text"),
            )
    rows.reject(~rows.has_id[rows.live], lambda row: _no_id(rows.value("record_id", row)))
    rows.types, valid = integers(rows.frame.batch.column("event_type"))
    wrong = ~(valid & (rows.types >= 1) & (rows.types <= 8))
    rows.reject(wrong[rows.live], lambda row: _no_type(rows.value("event_type", row)))
    rows.moments, has_time = times(rows.frame.batch.column("event_time"), options.time_zone)
    rows.reject(~has_time[rows.live], lambda row: _no_time(rows.value("event_time", row)))
    for name, reason in (("table_name", Reason.TABLE_NAME), ("table_key", Reason.TABLE_KEY)):
        absent = ~rows.text[name].is_valid().to_numpy(zero_copy_only=False)
        rows.reject(absent[rows.live], RecordFault(reason, f"{name} is NULL; fix the trigger"))


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
