"""Multi-valued attributes: groups the values of several rows into one text for each object.

The rows of a child table, and the repeated rows of a view, hold the values of one attribute.  Their distinct
values become one text, sorted by code points and joined by line breaks, so that pieces, hashes and states
treat a multi-valued attribute as any other column.  Hashes of these texts are stored, so their form must
never change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.row_images import Matrix, begins_text
from publisher.model.arrays import (
    Int64Array,
    begins_island,
    ends_island,
    integers,
    order_by,
)
from publisher.model.distinct_values import DistinctValues, lists_of

_SEPARATOR = "\n"
_ESCAPED = re.compile(r"\\([\\n])")
_UNESCAPED = {"\\": "\\", "n": _SEPARATOR}


def group_values(objects: Int64Array, count: int, texts: pa.Array) -> pa.Array:
    """Joins the values of each object to one text, which is null if it has no values.

    ``objects`` has the number of each value's object, below ``count``, or -1 for a value of no object.
    """
    values = DistinctValues.of(objects, texts)
    counts = np.bincount(values.objects, minlength=count)
    lists = lists_of(_escape(values.texts), counts)
    return pc.if_else(pa.array(counts > 0), pc.binary_join(lists, _SEPARATOR), None)


def only_values(objects: Int64Array, count: int, texts: pa.Array) -> pa.Array:
    """Returns the value of each object that has exactly one; null for other objects."""
    values = DistinctValues.of(objects, texts)
    counts = np.bincount(values.objects, minlength=count)
    at = np.cumsum(counts) - 1
    return values.texts.take(pa.array(at, mask=counts != 1))


def split_values(texts: pa.Array) -> pa.ListArray:
    """Splits joined texts to lists of values: the inverse of ``group_values``; null stays null."""
    lists = pc.split_pattern(texts, _SEPARATOR)
    if not _any(pc.match_substring(texts, "\\")):
        return lists
    values = [_ESCAPED.sub(_unescape, text) for text in lists.flatten().to_pylist()]
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    restored = lists_of(pa.array(values, pa.string()), lengths)
    return pa.ListArray.from_arrays(restored.offsets, restored.values, mask=texts.is_null())


class ChangedValues(NamedTuple):
    """The changed values of rows, as a change names them: one list for each row."""

    columns: pa.ListArray
    old: pa.ListArray | None
    new: pa.ListArray


def list_changed_values(
    names: Sequence[str],
    chosen: Matrix,
    new: Sequence[pa.Array],
    old: Sequence[pa.Array] | None,
    multiple: Collection[str],
) -> ChangedValues:
    """Lists the chosen values of each row; a multi-valued column is named once for each value.

    With old values, the values that only the old row has come first, each without a new value; then those
    that only the new row has, each without an old value.
    """
    is_multiple = np.array([name in multiple for name in names], np.bool_)
    rows, columns = np.nonzero(chosen & ~is_multiple)
    index = pa.array(columns * len(chosen) + rows)
    before, after = (
        pa.concat_arrays(values).take(index) if values else pa.nulls(len(rows), pa.string())
        for values in (old, new)
    )
    for column in np.flatnonzero(is_multiple).tolist():
        of_column = np.flatnonzero(chosen[:, column])
        at = pa.array(of_column)
        known = None if old is None else old[column].take(at)
        at, *images = _changed_texts(known, new[column].take(at))
        rows = np.concatenate([rows, of_column[at]])
        columns = np.concatenate([columns, np.full(len(at), column)])
        before, after = map(pa.concat_arrays, zip((before, after), images, strict=True))
    if is_multiple.any():
        order = order_by(rows, columns)
        rows, columns = rows[order], columns[order]
        before, after = (image.take(pa.array(order)) for image in (before, after))
    counts = np.bincount(rows, minlength=len(chosen))
    named = pa.array(list(names), pa.string()).take(pa.array(columns))
    return ChangedValues(
        lists_of(named, counts),
        None if old is None else lists_of(before, counts),
        lists_of(after, counts),
    )


def _changed_texts(old: pa.Array | None, new: pa.Array) -> tuple[Int64Array, pa.Array, pa.Array]:
    """The rows, the old and the new values of joined texts, for values that only one of two rows has.

    Without old texts, all values are new, and a row without values has a null."""
    values = split_values(new)
    rows, texts = integers(pc.list_parent_indices(values)), values.flatten()
    if old is None:
        empty = np.flatnonzero(new.is_null())
        rows = np.concatenate([rows, empty])
        nulls = pa.nulls(len(rows), pa.string())
        return rows, nulls, pa.concat_arrays([texts, nulls[: len(empty)]])
    known = split_values(old)
    rows = np.concatenate([integers(pc.list_parent_indices(known)), rows])
    texts = pa.concat_arrays([known.flatten(), texts])
    is_new = np.arange(len(rows)) >= len(rows) - len(values.flatten())
    # the old and the new one of equal values are neighbours
    table = pa.table({"row": rows, "text": texts})
    order = pc.sort_indices(table, [("row", "ascending"), ("text", "ascending")]).to_numpy()
    begins = begins_island(rows[order]) | begins_text(texts.take(pa.array(order)))
    alone = order[begins & ends_island(begins)]
    alone = alone[order_by(rows[alone], is_new[alone])]
    texts, is_old = texts.take(pa.array(alone)), pa.array(~is_new[alone])
    return rows[alone], pc.if_else(is_old, texts, None), pc.if_else(is_old, None, texts)


def _escape(texts: pa.Array) -> pa.Array:
    if not _any(pc.match_substring_regex(texts, r"[\\\n]")):
        return texts
    escaped = pc.replace_substring(texts, "\\", "\\\\")
    return pc.replace_substring(escaped, _SEPARATOR, "\\n")


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED[match[1]]


def _any(flags: pa.Array) -> bool:
    return bool(pc.any(flags, min_count=0).as_py())
