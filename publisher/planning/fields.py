"""The changes of one chunk of a lane as arrays.

A *field* is one column of a change, or the change itself if it concerns a whole row.  Fields are in the order
of the lane; the fields of one change are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import (
    BoolArray,
    Int64Array,
    begins_island,
    booleans,
    first_rows,
    integers,
    numbered,
    order_by,
    ranges,
)
from publisher.model.change import Change, EventType, Position
from publisher.model.change_batches import changes_of, tuples
from publisher.planning.names import ObjectNames, SourceNames


def flag_types(*types: int) -> BoolArray:
    """Flags some event types by their numbers."""
    return np.isin(np.arange(max(EventType) + 1), types)


WHOLE_ROW = flag_types(4, 5, 6, 9)
"""Flags event types that name no single column."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields; all arrays have an element for each, except those of ``batch`` and ``objects``."""

    batch: pa.RecordBatch
    """The changes, in the order of the lane (``RECORD_SCHEMA``)."""
    rows: Int64Array
    """Row number of each change in the lane."""
    change: Int64Array
    """Number of the change in ``batch``."""
    place: Int64Array
    """Number of the field in its change."""
    row: Int64Array
    """Row number of the change in the lane."""
    rank: Int64Array
    position: Int64Array
    """Number of the change's position; equal positions have equal numbers."""
    type: Int64Array
    object: Int64Array
    """Number in ``objects``."""
    objects: ObjectNames
    column: Int64Array
    """Number in ``SourceNames``; -1 for whole rows."""
    old: pa.StringArray
    """Null if it is NULL or absent."""
    new: pa.StringArray

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def of(cls, batch: pa.RecordBatch, rows: Int64Array, names: SourceNames) -> Fields:
        """Takes changes apart."""
        kind = integers(batch.column("event_type"))
        table = names.number_tables(batch.column("schema"), batch.column("table"))
        obj, first = _number_objects(table, batch.column("key"))
        lengths = integers(pc.list_value_length(batch.column("columns")))
        lengths[WHOLE_ROW[kind]] = 0
        counts = np.maximum(lengths, 1)
        change, place = ranges(np.zeros_like(counts), counts)
        column_names, old, new = (
            _elements(batch.column(name), change, place, lengths > 0)
            for name in ("columns", "old", "new")
        )
        return cls(
            batch=batch,
            rows=rows,
            change=change,
            place=place,
            row=rows[change],
            rank=integers(batch.column("rank"))[change],
            position=_number_positions(batch)[change],
            type=kind[change],
            object=obj[change],
            objects=names.objects(table[first], batch.column("key").take(pa.array(first))),
            column=names.number_columns(table[change], column_names),
            old=old,
            new=new,
        )

    def flags(self, column: pa.Array) -> BoolArray:
        """The flags of changes, for each field."""
        return booleans(column)[self.change]

    def of_rows(self, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """All fields of the changes with some row numbers: the number of the change among them, the field."""
        return ranges(np.searchsorted(self.row, rows), np.searchsorted(self.row, rows, "right"))

    def changes(self, rows: Int64Array) -> list[Change]:
        """The changes with some row numbers of the lane, which are sorted."""
        chosen = np.searchsorted(self.rows, rows)
        return changes_of(self.batch.take(pa.array(chosen)), rows.tolist())

    def positions(self, changes: Sequence[int] | Int64Array) -> list[Position]:
        """The positions of changes by their numbers in ``batch``."""
        of_changes = self.batch.select(list(Position._fields)).take(pa.array(changes, pa.int64()))
        return list(tuples(Position, of_changes, Position._fields))


def _number_objects(table: Int64Array, keys: pa.StringArray) -> tuple[Int64Array, Int64Array]:
    """Numbers the object of each change; also returns the first change of each object."""
    numbers, _ = numbered(keys)
    if len(table) and (table != table[0]).any():
        numbers, _ = numbered(pa.array(table * len(table) + numbers))
    return numbers, first_rows(numbers)


def _number_positions(batch: pa.RecordBatch) -> Int64Array:
    """Numbers positions; of plain event logs by their record ids."""
    high, low, ordinal = (integers(batch.column(name)) for name in ("high", "low", "ordinal"))
    part, parts = numbered(batch.column("part"))
    if len(parts) <= 1 and not low.any() and not ordinal.any():
        return high
    columns = (part, high, low, ordinal)
    order = order_by(*columns)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(begins_island(*(column[order] for column in columns)))
    return numbers


def _elements(
    lists: pa.ListArray, change: Int64Array, place: Int64Array, has_columns: BoolArray
) -> pa.StringArray:
    """The element of each field in the lists of changes; null without one."""
    present = has_columns & booleans(lists.is_valid())
    starts = integers(lists.offsets)[:-1]
    return take(lists.values, np.where(present[change], starts[change] + place, -1))


def take(column: pa.Array, rows: Int64Array) -> pa.Array:
    """Some rows of a column or a batch, null for -1; rows that are neighbours are not copied."""
    first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (-1, -1)
    if first >= 0 and last - first == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
        return column.slice(first, len(rows))
    return column.take(pa.array(rows, mask=rows < 0))


def join_columns(columns: Sequence[pa.Array]) -> pa.Array:
    """Joins columns of one type; does not copy the only one that has rows."""
    filled = [column for column in columns if len(column)]
    return filled[0] if len(filled) == 1 else pa.concat_arrays(columns)
