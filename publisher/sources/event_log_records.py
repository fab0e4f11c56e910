"""Event log rows to records, in bulk: what each column must hold, and what a row is rejected for.

Column by column, by the reference (event log columns): record_id is a positive integer, status is
case-sensitive, event_type is 1 to 8, event_time must be there, column_name is used by the per-field
types, old_value by type 2, new_value by types 1 to 3, binary values are Base64.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.change import RECORD_SCHEMA, TALLY, Outcome, Reason
from publisher.lanes import record_lane
from publisher.sources.columns import integers, texts, times
from publisher.sources.event_log_objects import Column, Fault, Key, Names, Target
from publisher.sources.frames import Frame

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]

TEXT_COLUMNS = (
    "table_key",
    "status",
    "perpetrator",
    "table_name",
    "column_name",
    "old_value",
    "new_value",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where records come from and go to."""

    source: int
    split: int
    file: str
    lanes: int

    @property
    def name(self) -> str:
        return os.path.basename(self.file)


@dataclass(slots=True)
class _Rows:
    """The rows of a frame on their way; ``live`` are the numbers of those without fault so far."""

    frame: Frame
    place: Place
    text: dict[str, pa.Array]
    ids: Codes
    has_id: Mask
    live: Codes
    faults: dict[int, Fault] = field(default_factory=dict)
    targets: dict[int, tuple[Target, Key]] = field(default_factory=dict)

    def fault(self, wrong: Mask, make: Any) -> None:
        """Reject the live rows that ``wrong`` marks; ``make`` gives the fault of one."""
        for row in self.live[wrong].tolist():
            self.faults[row] = make(row)
        if wrong.any():
            self.live = self.live[~wrong]

    def raw(self, name: str, row: int) -> object:
        return self.frame.batch.column(name)[row].as_py()


class Normaliser:
    """Turns the frames of one split into batches of ``RECORD_SCHEMA``."""

    def __init__(self, place: Place, names: Names, *, any_status: bool, time_zone: str) -> None:
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
            yield _broken(frame, self._place)
        if not frame.batch.num_rows:
            return
        rows, types = self._start(frame)
        yield from self._ignored(rows)
        moments = self._check(rows, types)
        changes = self._changes(rows, types, moments)
        if changes is not None and changes.num_rows:
            yield changes
        if rows.faults:
            yield _rejected(rows)

    def _start(self, frame: Frame) -> tuple[_Rows, Any]:
        batch = frame.batch
        text, live = {}, np.arange(batch.num_rows)
        unreadable = []
        for name in TEXT_COLUMNS:
            text[name], right = texts(batch.column(name))
            if not right.all():
                unreadable.append((name, right))
        ids, has_id = integers(batch.column("record_id"))
        rows = _Rows(frame, self._place, text, ids, has_id & (ids > 0), live)
        for name, right in unreadable:
            rows.fault(
                ~right[rows.live],
                lambda _, name=name: Fault(Reason.BROKEN_RECORD, f"{name} is no text; export it as UTF-8 text"),
            )
        return rows, integers(batch.column("event_type"))

    def _ignored(self, rows: _Rows) -> Iterator[pa.RecordBatch]:
        """Rows whose status is not ``N``: the driver's query does not read them."""
        if self._any_status:
            return
        status = rows.text["status"]
        new = pc.equal(pc.utf8_rtrim_whitespace(status), "N").fill_null(False)
        other = ~new.to_numpy(zero_copy_only=False)[rows.live]
        if not other.any():
            return
        ignored = rows.live[other]
        rows.live = rows.live[~other]
        count = len(ignored)
        yield _no_changes(
            rows,
            ignored,
            outcome=np.full(count, Outcome.IGNORED, np.int32),
            reason=pa.repeat(pa.scalar(str(Reason.STATUS)), count),
            detail=status.take(pa.array(ignored)).fill_null("NULL"),
        )

    def _check(self, rows: _Rows, types: Any) -> Codes:
        """Reject rows without usable record_id, event_type or event_time; the times are given back."""
        rows.fault(~rows.has_id[rows.live], lambda row: _no_id(rows.raw("record_id", row)))
        values, right = types
        wrong = ~(right & (values >= 1) & (values <= 8))
        rows.fault(wrong[rows.live], lambda row: _no_type(rows.raw("event_type", row)))
        moments, known = times(rows.frame.batch.column("event_time"), self._time_zone)
        rows.fault(~known[rows.live], lambda row: _no_time(rows.raw("event_time", row)))
        for name, reason in (("table_name", Reason.TABLE_NAME), ("table_key", Reason.TABLE_KEY)):
            absent = ~rows.text[name].is_valid().to_numpy(zero_copy_only=False)
            rows.fault(absent[rows.live], lambda _, n=name, r=reason: Fault(r, f"{n} is NULL; mend the trigger"))
        return moments

    def _changes(self, rows: _Rows, types: Any, moments: Codes) -> pa.RecordBatch | None:
        if not len(rows.live):
            return None
        objects = _Objects(self._names, rows)
        objects.resolve()
        if not len(rows.live):
            return None
        columns = _Columns(self._names, rows, objects, types[0])
        columns.resolve()
        if not len(rows.live):
            return None
        return _assemble(rows, objects, columns, types[0], moments)


# --- objects ------------------------------------------------------------------------------------


def _encoded(array: pa.Array) -> tuple[Codes, list[str | None]]:
    """Codes of the values, and the distinct values; null has a code as well."""
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


class _Objects:
    """Table and key of each row of a frame, each distinct pair looked at once."""

    def __init__(self, names: Names, rows: _Rows) -> None:
        self._names = names
        self._rows = rows
        self.tables, self.table_names = _encoded(rows.text["table_name"])
        self.codes: Codes = np.empty(0, np.int64)
        self.targets: list[Target] = []
        self.keys: list[str] = []
        self.lanes: list[int] = []

    def resolve(self) -> None:
        """Fill ``targets``, ``keys``, ``lanes`` by code; reject rows whose object is not understood."""
        rows = self._rows
        keys, key_texts = _encoded(rows.text["table_key"])
        pairs = self.tables * len(key_texts) + keys
        encoded = pa.array(pairs[rows.live]).dictionary_encode()
        self.codes = np.full(len(pairs), -1)
        self.codes[rows.live] = encoded.indices.to_numpy()
        faults: dict[int, Fault] = {}
        find, size, tables = self._names.key, len(key_texts), self.table_names
        targets = {code: self._names.target(name) for code, name in enumerate(tables) if name is not None}
        for code, pair in enumerate(encoded.dictionary.to_pylist()):
            table, key = divmod(pair, size)
            target = targets[table]
            found = target if isinstance(target, Fault) else find(target, key_texts[key])  # type: ignore[arg-type]
            if isinstance(found, Fault):
                faults[code] = found
                found = Key("", 0)
            self.targets.append(target)  # type: ignore[arg-type]
            self.keys.append(found.text)
            self.lanes.append(found.lane)
        if faults:
            wrong = np.isin(self.codes[rows.live], list(faults))
            rows.fault(wrong, lambda row: faults[int(self.codes[row])])

    def of(self, row: int) -> tuple[Target, Key]:
        """Table and key of a row that has them."""
        code = int(self.codes[row])
        return self.targets[code], Key(self.keys[code], self.lanes[code])


# --- columns ------------------------------------------------------------------------------------


class _Columns:
    """Column name and values of the rows of per-field types."""

    def __init__(self, names: Names, rows: _Rows, objects: _Objects, types: Codes) -> None:
        self._names = names
        self._rows = rows
        self._objects = objects
        self._types = types
        self.names: pa.Array = pa.nulls(len(types), pa.string())
        self.old = rows.text["old_value"]
        self.new = rows.text["new_value"]

    def resolve(self) -> None:
        """Fill ``names``; reject rows whose column is not known or whose binary value is not right."""
        rows, objects = self._rows, self._objects
        columns, column_texts = _encoded(rows.text["column_name"])
        pairs = objects.tables * len(column_texts) + columns
        per_field = np.isin(self._types, (1, 2, 3, 7, 8))
        spelled: dict[int, str] = {}
        octets, faults = [], {}
        for pair in np.unique(pairs[rows.live][per_field[rows.live]]).tolist():
            table, column = divmod(pair, len(column_texts))
            found = self._find(objects.table_names[table] or "", column_texts[column])
            if isinstance(found, Fault):
                faults[pair] = found
                continue
            spelled[pair] = found.name
            if found.octet:
                octets.append(pair)
        if faults:
            wrong = (np.isin(pairs, list(faults)) & per_field)[rows.live]
            self._reject(wrong, lambda row: faults[int(pairs[row])])
        order = {pair: i for i, pair in enumerate(spelled)}
        places = _mapped(pairs, order)
        self.names = pa.array(list(spelled.values()), pa.string()).take(pa.array(places, mask=places < 0))
        if octets:
            self._decode(np.isin(pairs, octets))

    def _find(self, table: str, column: str | None) -> Column | Fault:
        target = self._names.target(table)
        assert isinstance(target, Target)  # rows of tables that are not known are rejected by now
        return self._names.column(table, target, column or "")

    def _reject(self, wrong: Mask, make: Any) -> None:
        for row in self._rows.live[wrong].tolist():
            self._rows.targets[row] = self._objects.of(row)
        self._rows.fault(wrong, make)

    def _decode(self, octet: Mask) -> None:
        live = np.zeros(len(octet), bool)
        live[self._rows.live] = True
        self.old, bad_old = _base64(self.old, octet & live & (self._types == 2))
        self.new, bad_new = _base64(self.new, octet & live & (self._types <= 3))
        self._reject(
            (bad_old | bad_new)[self._rows.live],
            lambda row: Fault(
                Reason.VALUE,
                f"{'old' if bad_old[row] else 'new'}_value is no Base64 for the binary column"
                f" {self.names[row].as_py()}; mend the trigger or the column's kind",
            ),
        )


def _mapped(values: Codes, order: dict[int, int]) -> Codes:
    """``order`` of each value, -1 for values that have none."""
    places = np.full(len(values), -1)
    if order:
        known = np.fromiter(order, np.int64, len(order))
        ranks = np.argsort(known)
        at = np.minimum(np.searchsorted(known[ranks], values), len(known) - 1)
        hit = known[ranks][at] == values
        places[hit] = ranks[at][hit]
    return places


def _base64(array: pa.Array, rows: Mask) -> tuple[pa.Array, Mask]:
    """The values with white space taken out of the Base64 of ``rows``, and which are no Base64.

    Some databases break Base64 into lines.
    """
    bad = np.zeros(len(array), bool)
    changed: dict[int, str] = {}
    for row in np.flatnonzero(rows).tolist():
        value = array[row].as_py()
        if value is None:
            continue
        plain = "".join(value.split())
        try:
            base64.b64decode(plain.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            bad[row] = True
        else:
            if plain != value:
                changed[row] = plain
    if changed:
        mask = np.zeros(len(array), bool)
        mask[list(changed)] = True
        array = pc.replace_with_mask(array, pa.array(mask), pa.array(changed.values(), pa.string()))
    return array, bad


# --- batches of RECORD_SCHEMA -------------------------------------------------------------------


def _batch(count: int, **columns: Any) -> pa.RecordBatch:
    """A batch of ``RECORD_SCHEMA``; columns not given are null."""
    arrays = []
    for item in RECORD_SCHEMA:
        value = columns.pop(item.name, None)
        if value is None:
            value = pa.nulls(count, item.type)
        elif not isinstance(value, pa.Array):
            is_one = isinstance(value, int | str)
            value = pa.repeat(pa.scalar(value, item.type), count) if is_one else pa.array(value, item.type)
        arrays.append(value.cast(item.type) if value.type != item.type else value)
    assert not columns
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def _assemble(
    rows: _Rows, objects: _Objects, columns: _Columns, types: Codes, moments: Codes
) -> pa.RecordBatch:
    live, place = rows.live, rows.place
    whole = len(live) == rows.frame.batch.num_rows
    take = pa.array(live)
    codes = pa.array(objects.codes[live])
    kinds = types[live]
    ids = pa.array(rows.ids[live])

    def picked(array: pa.Array) -> pa.Array:
        return array if whole else array.take(take)

    return _batch(
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
        schema=_by_target(objects, codes, "schema"),
        table=_by_target(objects, codes, "table"),
        key=pa.array(objects.keys, pa.string()).take(codes),
        event_type=kinds.astype(np.int32),
        columns=_lists(picked(columns.names), np.isin(kinds, (1, 2, 3, 7, 8)), None),
        old=_lists(picked(columns.old), kinds == 2, kinds != 2),
        new=_lists(picked(columns.new), kinds <= 3, kinds > 3),
        event_time=moments[live],
        perpetrator=picked(rows.text["perpetrator"]),
    )


def _by_target(objects: _Objects, codes: pa.Array, name: str) -> pa.Array:
    """Schema or table of each row; few distinct ones, so they go by a dictionary."""
    distinct = [getattr(target, name, None) for target in objects.targets]
    return pa.array(distinct, pa.string()).take(codes)


def _lists(values: pa.Array, filled: Mask, absent: Mask | None) -> pa.Array:
    """Lists of one value where ``filled``, null where ``absent``, else empty."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(filled, out=offsets[1:])
    if not filled.all():
        values = values.filter(pa.array(filled))
    mask = None if absent is None or not absent.any() else pa.array(absent)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _no_changes(rows: _Rows, which: Codes, **columns: Any) -> pa.RecordBatch:
    """Records of a frame that give no change, at their record_id, else at their place in the file."""
    place, numbers, has_id = rows.place, rows.frame.rows[which], rows.has_id[which]
    position = np.where(has_id, rows.ids[which], numbers)
    return _batch(
        len(which),
        source=place.source,
        **({"lane": _record_lanes(place, numbers)} | columns),
        part=pa.array(np.where(has_id, "", place.name), pa.string()),
        rank=position,
        high=position,
        low=0,
        ordinal=0,
        split=place.split,
        row=numbers,
        records=1,
    )


def _record_lanes(place: Place, numbers: Codes) -> Codes:
    return (record_lane(place.name, 0, 1 << 32) + numbers) % place.lanes


def _rejected(rows: _Rows) -> pa.RecordBatch:
    which = np.array(sorted(rows.faults), np.int64)
    faults = [rows.faults[row] for row in which.tolist()]
    known = [rows.targets.get(row) for row in which.tolist()]
    lanes = _record_lanes(rows.place, rows.frame.rows[which]).tolist()
    records = rows.frame.batch.take(pa.array(which)).to_pylist()
    return _no_changes(
        rows,
        which,
        lane=pa.array([k[1].lane if k else lane for k, lane in zip(known, lanes, strict=True)], pa.int32()),
        schema=pa.array([k[0].schema if k else None for k in known], pa.string()),
        table=pa.array([k[0].table if k else None for k in known], pa.string()),
        key=pa.array([k[1].text if k else None for k in known], pa.string()),
        outcome=Outcome.REJECTED.value,
        reason=pa.array([str(fault.reason) for fault in faults]),
        detail=pa.array([fault.detail for fault in faults]),
        raw=pa.array([as_json(record) for record in records]),
    )


def _broken(frame: Frame, place: Place) -> pa.RecordBatch:
    numbers = np.array([item.row for item in frame.broken], np.int64)
    return _batch(
        len(numbers),
        source=place.source,
        lane=_record_lanes(place, numbers),
        part=place.name,
        rank=numbers,
        high=numbers,
        low=0,
        ordinal=0,
        split=place.split,
        row=numbers,
        records=1,
        outcome=Outcome.REJECTED.value,
        reason=str(Reason.BROKEN_RECORD),
        detail=[item.reason for item in frame.broken],
        raw=[as_json(item.raw) for item in frame.broken],
    )


def tally(place: Place, framed: int) -> pa.RecordBatch:
    """The row that says how many records a split had, counted where they were framed."""
    return _batch(
        1,
        source=place.source,
        lane=place.split % place.lanes,
        part="",
        rank=0,
        high=0,
        low=0,
        ordinal=0,
        split=place.split,
        row=framed,
        records=0,
        outcome=TALLY,
    )


def as_json(record: object) -> str:
    """A record as JSON text; what JSON has no form for as text."""
    return json.dumps(record, ensure_ascii=False, default=_json_text)


def _json_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


# --- what is wrong ------------------------------------------------------------------------------


def _no_id(value: object) -> Fault:
    if value is None:
        return Fault(Reason.RECORD_ID, "record_id is NULL; number the records")
    return Fault(Reason.RECORD_ID, f"record_id {str(value)[:60]!r} is no positive integer of 64 bits; mend it")


def _no_type(value: object) -> Fault:
    return Fault(Reason.EVENT_TYPE, f"event_type {str(value)[:60]!r} is not 1 to 8; mend the trigger")


def _no_time(value: object) -> Fault:
    if value is None:
        return Fault(Reason.EVENT_TIME, "event_time is NULL; it must be there, mend the trigger")
    return Fault(
        Reason.EVENT_TIME,
        f"event_time {str(value)[:60]!r} is no time; write yyyy-mm-dd hh:mm:ss with fraction and zone as wanted",
    )
