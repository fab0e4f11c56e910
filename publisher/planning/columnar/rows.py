"""The changes of a batch as columns of numbers, grouped by object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChangeColumns:
    """A batch of changes in rank order; all arrays have an element for each of its rows."""

    batch: pa.RecordBatch
    object: Numbers
    """Number of the object of each row."""
    table: Numbers
    """Number of the schema and table of each row."""
    column: Numbers
    """Index in ``names``; -1 if a change names no column or several."""
    names: list[str]
    rank: Numbers
    high: Numbers
    type: Numbers
    old: pa.StringArray
    """The old value; null if it is NULL or absent, or if there are several."""
    new: pa.StringArray
    order: Numbers
    """Indexes of the rows, sorted by object and rank."""

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> ChangeColumns:
        """Splits a batch of changes into columns."""
        codes = _codes(batch.column("key"))
        tables = _codes(batch.column("table")) + _codes(batch.column("schema")) * batch.num_rows
        if tables.any():
            codes = _codes(pa.array(tables * batch.num_rows + codes))
        columns, names = _column_codes(batch.column("columns"))
        return cls(
            batch=batch,
            object=codes,
            table=tables,
            column=columns,
            names=names,
            rank=numbers_of(batch.column("rank")),
            high=numbers_of(batch.column("high")),
            type=numbers_of(batch.column("event_type")),
            old=_single(batch.column("old")),
            new=_single(batch.column("new")),
            order=np.argsort(codes, kind="stable"),
        )

    def text(self, name: str, row: int) -> str | None:
        """The text in one row of a column."""
        text: str | None = self.batch.column(name)[row].as_py()
        return text

    def spread(self, ineligible: Flags) -> Flags:
        """Extends flagged rows to all rows of their objects."""
        objects = np.zeros(int(self.object.max(initial=-1)) + 1, np.bool_)
        objects[self.object[ineligible]] = True
        return objects[self.object]


def _single(column: pa.ListArray) -> pa.StringArray:
    """The only element of each list; null if a list is null, empty or longer."""
    lengths = _lengths(column)
    values = column.flatten()
    if (lengths == 1).all():
        return values
    at = np.cumsum(lengths) - 1
    return values.take(pa.array(at, pa.int64(), mask=lengths != 1))


def group_equal(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Groups equal numbers: returns the index of the first of each group, and the group of each number.

    Groups are in the order of their first numbers."""
    groups = _codes(pa.array(numbers))
    firsts = np.flatnonzero(np.diff(np.maximum.accumulate(groups), prepend=-1))
    return firsts, groups


def numbers_of(column: pa.Array) -> Numbers:
    """Converts a column of integers without nulls."""
    numbers: Numbers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def flags_of(column: pa.Array) -> Flags:
    """Converts a column of booleans; null becomes false."""
    flags: Flags = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return flags


def _codes(column: pa.Array) -> Numbers:
    """Numbers the distinct values of a column, null included."""
    return numbers_of(pc.dictionary_encode(column, null_encoding="encode").indices)


def _column_codes(column: pa.ListArray) -> tuple[Numbers, list[str]]:
    lengths = _lengths(column)
    encoded = pc.dictionary_encode(column.flatten())
    codes = np.full(len(column), -1, np.int64)
    single = lengths == 1
    if single.any():
        codes[single] = numbers_of(encoded.indices)[np.cumsum(lengths)[single] - 1]
    return codes, encoded.dictionary.to_pylist()


def _lengths(column: pa.ListArray) -> Numbers:
    return numbers_of(pc.fill_null(pc.list_value_length(column), 0))
