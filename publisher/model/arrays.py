"""Types of arrays, and the verbs of which the rules about neighbouring rows are made.

A rule sorts rows, then looks at neighbours: islands of equal rows, the first of a group, the last mark before
a row.  An island is a run of neighbours; rows are numbered from 0, and -1 stands for "none".
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.repeated_values import has_one_value

Int64Array: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
ByteArray: TypeAlias = npt.NDArray[np.uint8]

NO_ROWS: Int64Array = np.zeros(0, np.int64)


def integers(column: pa.Array) -> Int64Array:
    """Converts a column of integers; null becomes 0.

    >>> integers(pa.array([3, None], pa.int32())).tolist()
    [3, 0]
    """
    if column.null_count:
        column = pc.fill_null(column, 0)
    numbers: Int64Array = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def booleans(column: pa.Array) -> BoolArray:
    """Converts a column of booleans; null becomes false.

    >>> booleans(pa.array([True, None])).tolist()
    [True, False]
    """
    if column.null_count:
        column = pc.fill_null(column, False)
    flags: BoolArray = column.to_numpy(zero_copy_only=False)
    return flags


def numbered(column: pa.Array) -> tuple[Int64Array, pa.Array]:
    """Numbers the distinct values of a column by their first rows, null included; returns the values, too.

    >>> numbers, values = numbered(pa.array(["b", "a", None, "b"]))
    >>> numbers.tolist(), values.to_pylist()
    ([0, 1, 2, 0], ['b', 'a', None])
    """
    if has_one_value(column):  # as the tables of most logs
        return np.zeros(len(column), np.int64), column.slice(0, 1)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return integers(encoded.indices), encoded.dictionary


def first_rows(numbers: Int64Array) -> Int64Array:
    """The first row of each number, of numbers as ``numbered`` gives them.

    >>> first_rows(np.array([0, 1, 0, 2])).tolist()
    [0, 1, 3]
    """
    return np.flatnonzero(np.diff(np.maximum.accumulate(numbers), prepend=-1))


def order_by(*columns: npt.NDArray[np.generic]) -> Int64Array:
    """The rows in the order of several columns, the first column first; equal rows keep their order.

    >>> order_by(np.array([2, 1, 1]), np.array([0, 9, 8])).tolist()
    [2, 1, 0]
    """
    return np.lexsort(columns[::-1])


def begins_island(*columns: npt.NDArray[np.generic]) -> BoolArray:
    """Flags the rows that differ in any column from the row before.

    >>> begins_island(np.array([7, 7, 8]), np.array([1, 1, 1])).tolist()
    [True, False, True]
    """
    flags = np.zeros(len(columns[0]), np.bool_)
    flags[:1] = True
    for column in columns:
        flags[1:] |= column[1:] != column[:-1]
    return flags


def ends_island(begins: BoolArray) -> BoolArray:
    """Flags the last row of each island.

    >>> ends_island(np.array([True, False, True])).tolist()
    [False, True, True]
    """
    return np.append(begins[1:], True)[: len(begins)]


def island_bounds(begins: BoolArray) -> Int64Array:
    """The first row of each island, and the number of rows at the end.

    >>> island_bounds(np.array([True, False, True])).tolist()
    [0, 2, 3]
    """
    return np.append(np.flatnonzero(begins), len(begins))


def last_mark(flags: BoolArray) -> Int64Array:
    """The last flagged row up to each row; -1 if there is none.

    >>> last_mark(np.array([False, True, False, True])).tolist()
    [-1, 1, 1, 3]
    """
    marks: Int64Array = np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1))
    return marks


def smallest_of_group(group: Int64Array, *columns: Int64Array, among: BoolArray) -> Int64Array:
    """For each row, the row of its group that is smallest by the columns, then first; -1 if there is none.

    Only the rows flagged in ``among`` count.

    >>> group, kind = np.array([0, 0, 1, 0]), np.array([6, 5, 6, 5])
    >>> smallest_of_group(group, kind, among=np.array([True, True, False, True])).tolist()
    [1, 1, -1, 1]
    """
    best = np.full(int(group.max(initial=-1)) + 1, -1)
    rows = np.flatnonzero(among)
    rows = rows[order_by(group[rows], *(column[rows] for column in columns))][::-1]
    best[group[rows]] = rows  # of several rows of a group the last assignment counts: the smallest
    return best[group]


def partners(left: Int64Array, right: Int64Array) -> Int64Array:
    """For each number of the left the row of the right that has it; -1 without one.  The right is sorted.

    >>> partners(np.array([5, 6]), np.array([4, 5])).tolist()
    [1, -1]
    """
    if not len(right):
        return np.full(len(left), -1)
    rows = np.minimum(np.searchsorted(right, left), len(right) - 1)
    return np.where(right[rows] == left, rows, -1)


def ranges(starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
    """All rows of several ranges: the number of the range of each, and the row.

    >>> numbers, rows = ranges(np.array([3, 9]), np.array([5, 10]))
    >>> numbers.tolist(), rows.tolist()
    ([0, 0, 1], [3, 4, 9])
    """
    lengths = ends - starts
    numbers = np.repeat(np.arange(len(starts)), lengths)
    return numbers, np.arange(len(numbers)) - np.repeat(
        np.cumsum(lengths) - lengths - starts, lengths
    )
