"""Compares row images column by column: marks set values and differences, and lists marked columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Matrix = npt.NDArray[np.bool_]
"""Marks by row and column."""
Places = npt.NDArray[np.int64]


def non_null(columns: Sequence[pa.Array], rows: int) -> Matrix:
    """Marks the values of columns that are not NULL."""
    marks = np.zeros((rows, len(columns)), bool)
    for place, column in enumerate(columns):
        marks[:, place] = column.is_valid().to_numpy(zero_copy_only=False)
    return marks


def differ(left: pa.Array, right: pa.Array) -> Mask:
    """Marks the rows in which two columns differ; two NULLs are equal."""
    same = pc.fill_null(pc.equal(left, right), False)
    same = pc.or_(same, pc.and_(left.is_null(), right.is_null()))
    different: Mask = ~same.to_numpy(zero_copy_only=False)
    return different


def begins_text(column: pa.Array) -> Mask:
    """Flags the rows whose text differs from that of the row before; no text may be null.

    >>> begins_text(pa.array(["a", "a", "b"])).tolist()
    [True, False, True]
    """
    flags = np.ones(len(column), np.bool_)
    if len(column) > 1:
        different = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))
        flags[1:] = different.to_numpy(zero_copy_only=False)
    return flags


def marked_names(names: Sequence[str], marked: Matrix) -> pa.Array:
    """Lists the names of the marked columns of each row."""
    places = np.flatnonzero(marked) % len(names)
    return _lists(pa.array(list(names), pa.string()).take(pa.array(places)), marked)


def marked_values(
    columns: Sequence[pa.Array],
    marked: Matrix,
    rows: Places | None = None,
    present: Mask | None = None,
) -> pa.Array:
    """Lists the values of the marked columns of each row, or null for a row that is not ``present``.

    ``rows`` has the place in the columns for each row of ``marked``; by default it is the same place.
    """
    if present is not None:
        marked = marked & present[:, np.newaxis]
    at, places = np.divmod(np.flatnonzero(marked), len(columns))
    if not len(at):
        return _lists(pa.array([], pa.string()), marked, present)
    # concatenate all columns, then take the marked values row by row
    long = pa.concat_arrays(list(columns))
    index = places * len(columns[0]) + (at if rows is None else rows[at])
    return _lists(long.take(pa.array(index)), marked, present)


def _lists(values: pa.Array, marked: Matrix, present: Mask | None = None) -> pa.Array:
    """Divides values into one list for each row."""
    offsets = np.zeros(len(marked) + 1, np.int32)
    np.cumsum(marked.sum(axis=1), out=offsets[1:])
    absent = None if present is None or present.all() else pa.array(~present)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=absent)
