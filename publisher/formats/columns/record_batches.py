"""Builds batches of ``RECORD_SCHEMA``: changes, rejected pieces, tallies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.files.frame import Frame
from publisher.model.change import TALLY, Outcome, Reason
from publisher.model.lanes import record_lane
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.model.repeated_values import repeat_value

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Place:
    """The source, split and file of records, and the number of lanes."""

    source: int
    split: int
    file: str
    lanes: int

    @property
    def name(self) -> str:
        """Name of the file without its directory: the same wherever the snapshot is."""
        return PurePath(self.file).name


def batch(count: int, **columns: object) -> pa.RecordBatch:
    """Builds a batch of ``RECORD_SCHEMA``; columns not given are null."""
    return batch_of(RECORD_SCHEMA, count, **columns)


def batch_of(schema: pa.Schema, count: int, /, **columns: object) -> pa.RecordBatch:
    """Builds a batch from columns; an integer or string is the value of all rows, absent columns are null."""
    arrays = []
    for item in schema:
        value = columns.pop(item.name, None)
        if value is None or isinstance(value, int | str):
            value = repeat_value(value, item.type, count)
        elif not isinstance(value, pa.Array):
            value = pa.array(value, item.type)
        arrays.append(value.cast(item.type) if value.type != item.type else value)
    assert not columns
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def lists(values: pa.Array, filled: Mask, absent: Mask | None) -> pa.Array:
    """Builds lists of one value where ``filled``, null where ``absent``, else empty lists."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(filled, out=offsets[1:])
    if not filled.all():
        values = values.filter(pa.array(filled))
    mask = None if absent is None or not absent.any() else pa.array(absent)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


def child_columns(
    child: str | None, columns: pa.ListArray, logged: str | None = None
) -> dict[str, object]:
    """Returns the columns of ``RECORD_SCHEMA`` that describe changes of the rows of a child table.

    ``columns`` are the columns of the changes, ``logged`` is the name of the child table in the source.  Rows
    of a class's own table need none."""
    if child is None:
        return {}
    children = children_of(columns, pa.repeat(pa.scalar(child), len(columns)))
    return {"logged_table": logged or child, "children": children}


def children_of(columns: pa.ListArray, children: pa.Array) -> pa.ListArray:
    """Repeats the child table of each row for each of its columns; rows of no child table become null."""
    lengths = pc.fill_null(pc.list_value_length(columns), 0).to_numpy(zero_copy_only=False)
    rows = pa.array(np.repeat(np.arange(len(lengths)), lengths))
    return lists_like(columns, children.take(rows), children.is_null())


def lists_like(columns: pa.ListArray, values: pa.Array, absent: pa.Array) -> pa.ListArray:
    """Divides values into lists of the lengths of ``columns``, null where ``absent``."""
    lengths = pc.fill_null(pc.list_value_length(columns), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=absent)


def record_lanes(place: Place, numbers: Codes) -> Codes:
    """Computes lanes for records that name no object, from their numbers in the file."""
    return (record_lane(place.name, 0, 1 << 32) + numbers) % place.lanes


def nameless(place: Place, numbers: Codes, **columns: object) -> pa.RecordBatch:
    """Builds records that name no object; their position is their number, unless ``columns`` override it."""
    at_numbers = {
        "source": place.source,
        "lane": record_lanes(place, numbers),
        "part": place.name,
        "rank": numbers,
        "high": numbers,
        "low": 0,
        "ordinal": 0,
        "split": place.split,
        "row": numbers,
        "records": 1,
    }
    return batch(len(numbers), **at_numbers | columns)


def broken(frame: Frame, place: Place) -> pa.RecordBatch:
    """Builds rejects of the pieces of a frame that are not records."""
    return nameless(
        place,
        np.array([item.row for item in frame.broken], np.int64),
        outcome=Outcome.REJECTED.value,
        reason=str(Reason.BROKEN_RECORD),
        detail=[item.reason for item in frame.broken],
        raw=[as_json(item.raw) for item in frame.broken],
    )


def tally(place: Place, framed: int) -> pa.RecordBatch:
    """Builds the row with the number of records of a split, counted by framing."""
    return batch(
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


def find_records(
    frames: Iterable[Frame],
    rows: frozenset[int],
    form: Callable[[Frame], pa.RecordBatch] = lambda frame: frame.batch,
) -> Iterator[tuple[int, str]]:
    """Finds the records with some numbers, as JSON text; ``form`` turns a frame into the columns to show."""
    wanted = np.array(sorted(rows), np.int64)
    for frame in frames:
        if not len(wanted) or (len(frame.rows) and frame.rows[0] > wanted[-1]):
            return
        found = [(piece.row, as_json(piece.raw)) for piece in frame.broken if piece.row in rows]
        hits = np.flatnonzero(np.isin(frame.rows, wanted))
        if len(hits):
            chosen = Frame(frame.batch.take(pa.array(hits)), frame.rows[hits])
            records = map(as_json, form(chosen).to_pylist())
            found += zip(chosen.rows.tolist(), records, strict=True)
        wanted = wanted[~np.isin(wanted, [row for row, _ in found])]
        yield from found


def as_json(record: object) -> str:
    """Writes a record as JSON; values without a JSON form become text."""
    return json.dumps(record, ensure_ascii=False, default=_json_text)


def _json_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
