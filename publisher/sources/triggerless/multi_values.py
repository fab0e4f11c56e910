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

from publisher.model.distinct_values import DistinctValues, lists_of
from publisher.sources.columns.row_images import Matrix, Places

_SEPARATOR = "\n"
_ESCAPED = re.compile(r"\\([\\n])")
_UNESCAPED = {"\\": "\\", "n": _SEPARATOR}


def group_values(objects: Places, count: int, texts: pa.Array) -> pa.Array:
    """Joins the values of each object to one text, which is null if it has no values.

    ``objects`` has the number of each value's object, below ``count``, or -1 for a value of no object.
    """
    values = DistinctValues.of(objects, texts)
    counts = np.bincount(values.objects, minlength=count)
    lists = lists_of(_escape(values.texts), counts)
    return pc.if_else(pa.array(counts > 0), pc.binary_join(lists, _SEPARATOR), None)


def only_values(objects: Places, count: int, texts: pa.Array) -> pa.Array:
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


class _Entries(NamedTuple):
    """Changed values of some columns: the row and column of each value, and its images."""

    rows: Places
    columns: Places
    old: pa.Array
    new: pa.Array


def list_changed_values(
    names: Sequence[str],
    chosen: Matrix,
    new: Sequence[pa.Array],
    old: Sequence[pa.Array] | None,
    multiple: Collection[int],
) -> ChangedValues:
    """Lists the chosen values of each row; a multi-valued column is named once for each value.

    With old values, the values that only the old row has come first, each without a new value; then those
    that only the new row has, each without an old value.
    """
    is_single = np.array([place not in multiple for place in range(len(names))])
    entries = [_single_entries(chosen & is_single, new, old)]
    for place in sorted(multiple):
        rows = np.flatnonzero(chosen[:, place])
        of_rows = new[place].take(pa.array(rows))
        if old is None:
            entries.append(_current_entries(place, rows, of_rows))
        else:
            before = old[place].take(pa.array(rows))
            entries.append(_different_entries(place, rows, before, of_rows))
    rows, columns = (np.concatenate([entry[n] for entry in entries]) for n in (0, 1))
    order = np.lexsort((columns, rows))
    counts = np.bincount(rows, minlength=len(chosen))
    olds, news = (
        lists_of(pa.concat_arrays([entry[n] for entry in entries]).take(pa.array(order)), counts)
        for n in (2, 3)
    )
    named = pa.array(list(names), pa.string()).take(pa.array(columns[order]))
    return ChangedValues(lists_of(named, counts), None if old is None else olds, news)


def _single_entries(
    chosen: Matrix, new: Sequence[pa.Array], old: Sequence[pa.Array] | None
) -> _Entries:
    rows, columns = np.nonzero(chosen)
    index = pa.array(columns * len(chosen) + rows)
    images = [
        pa.nulls(len(rows), pa.string()) if values is None else pa.concat_arrays(values).take(index)
        for values in (old, new)
    ]
    return _Entries(rows, columns, *images)


def _current_entries(place: int, rows: Places, texts: pa.Array) -> _Entries:
    """One entry for each value, or one without a value for a row without values."""
    lists = split_values(texts)
    is_empty = texts.is_null().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    rows = np.concatenate([np.repeat(rows, lengths), rows[is_empty]])
    new = pa.concat_arrays([lists.flatten(), pa.nulls(int(is_empty.sum()), pa.string())])
    return _Entries(
        rows, np.full(len(rows), place, np.int64), pa.nulls(len(rows), pa.string()), new
    )


def _different_entries(place: int, rows: Places, before: pa.Array, after: pa.Array) -> _Entries:
    """One entry for each value that only one of two rows has."""
    pairs = zip(split_values(before).to_pylist(), split_values(after).to_pylist(), strict=True)
    at: list[int] = []
    images: list[tuple[str | None, str | None]] = []
    for row, (olds, news) in zip(rows.tolist(), pairs, strict=True):
        known, current = set(olds or ()), set(news or ())
        differing = [(value, None) for value in olds or () if value not in current]
        differing += [(None, value) for value in news or () if value not in known]
        at += [row] * len(differing)
        images += differing
    old, new = (pa.array([image[n] for image in images], pa.string()) for n in (0, 1))
    return _Entries(np.array(at, np.int64), np.full(len(at), place, np.int64), old, new)


def _escape(texts: pa.Array) -> pa.Array:
    if not _any(pc.match_substring_regex(texts, r"[\\\n]")):
        return texts
    escaped = pc.replace_substring(texts, "\\", "\\\\")
    return pc.replace_substring(escaped, _SEPARATOR, "\\n")


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED[match[1]]


def _any(flags: pa.Array) -> bool:
    return bool(pc.any(flags, min_count=0).as_py())
