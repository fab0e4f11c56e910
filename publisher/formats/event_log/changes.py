"""Turns decoded rows of an event log into records: changes, and the outcomes of all other rows.

column_name is used by the per-field types, old_value by type 2, new_value by types 1 to 3; binary values are
Base64.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.object_names import Names
from publisher.formats.columns.record_batches import (
    Codes,
    as_json,
    batch,
    children_of,
    lists,
    nameless,
    record_lanes,
)
from publisher.formats.contract import Context
from publisher.formats.event_log.decode import EventRows
from publisher.formats.event_log.key_changes import EventKeyChanges
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.event_log.resolve import EventColumns, EventObjects
from publisher.model.change import Outcome, Reason


def changes(
    rows: EventRows, names: Names, ctx: Context, options: EventLogOptions
) -> Iterator[pa.RecordBatch]:
    """Yields the records of decoded rows: ignored rows, changes, then rejected rows."""
    if len(rows.others):
        yield _ignored(rows)
    if (built := _changes(rows, names, ctx, options)) is not None:
        yield built
    if rows.faults:
        yield _faulty_records(rows)


def _ignored(rows: EventRows) -> pa.RecordBatch:
    """Builds the records of rows whose status is not ``N``."""
    count = len(rows.others)
    return _build_records(
        rows,
        rows.others,
        outcome=np.full(count, Outcome.IGNORED, np.int32),
        reason=pa.repeat(pa.scalar(str(Reason.STATUS)), count),
        detail=rows.text["status"].take(pa.array(rows.others)).fill_null("NULL"),
    )


def _changes(
    rows: EventRows, names: Names, ctx: Context, options: EventLogOptions
) -> pa.RecordBatch | None:
    """Resolves objects, columns and changes of keys; each step rejects rows."""
    if not len(rows.live):
        return None
    objects = EventObjects(names, rows)
    objects.resolve()
    if not len(rows.live):
        return None
    columns = EventColumns(rows, objects)
    columns.resolve()
    columns.resolve_row_events(ctx.classes.child_row_events)
    if not len(rows.live):
        return None
    key_changes = EventKeyChanges(rows, objects, columns, options.key_change)
    key_changes.resolve()
    return _build_changes(rows, objects, key_changes) if len(rows.live) else None


def _build_changes(
    rows: EventRows, objects: EventObjects, changes: EventKeyChanges
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
        event_time=rows.moments[live],
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
