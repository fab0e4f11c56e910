"""Joins the rows of a bucket to objects: a parent's row with the values of its child tables' rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.record_batches import as_json
from publisher.formats.columns.row_images import Places
from publisher.formats.triggerless.decode import UnreadableRow
from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.multi_values import group_values, only_values
from publisher.formats.triggerless.table_shape import TableShape
from publisher.model.change import Reason


class BucketObjects(NamedTuple):
    """The objects of a bucket; each has the columns of its class."""

    rows: TableRows
    merged: int
    """Number of rows that are only values of objects: rows of child tables, and repeated rows of views."""
    orphans: tuple[TableRows, ...]
    """The rows of each child table whose parents have no row."""


def join_objects(shape: TableShape, tables: Sequence[TableRows]) -> BucketObjects:
    """Joins the rows of a parent, which come first, and of its child tables in their order."""
    parents, *children = tables
    rows = _merge_rows(shape, parents) if shape.is_view else parents
    merged, orphans = len(parents) - len(rows), []
    attributes: dict[str, pa.Array] = {}
    if children:
        # of several rows with one key, which are repeated or rejected, all get the values
        first = pc.index_in(rows.keys, rows.keys)
    for child, child_rows in zip(shape.children, children, strict=True):
        objects = pc.fill_null(pc.index_in(child_rows.keys, rows.keys), -1)
        numbers = objects.to_numpy(zero_copy_only=False).astype(np.int64)
        for name, texts in zip(child.columns, child_rows.values, strict=True):
            attributes[name] = group_values(numbers, len(rows), texts).take(first)
        orphans.append(child_rows.take(np.flatnonzero(numbers < 0)))
        merged += len(child_rows) - len(orphans[-1])
    added = [attributes[name] for name in shape.columns[len(shape.others) :]]
    return BucketObjects(
        TableRows(rows.hashes, rows.keys, [*rows.values, *added]), merged, tuple(orphans)
    )


def _merge_rows(shape: TableShape, rows: TableRows) -> TableRows:
    """Gives the rows of one key all values of multi-valued columns, and keeps one of equal rows.

    The only value of a single-valued column replaces NULL; rows with several such values stay apart.
    """
    encoded = rows.keys.dictionary_encode()
    objects: Places = encoded.indices.to_numpy().astype(np.int64)
    count, values = len(encoded.dictionary), list(rows.values)
    for place, texts in enumerate(values):
        if shape.columns[place] in shape.multiple:
            values[place] = group_values(objects, count, texts).take(encoded.indices)
        elif count < len(rows):
            values[place] = pc.coalesce(
                texts, only_values(objects, count, texts).take(encoded.indices)
            )
    if count == len(rows):
        return TableRows(rows.hashes, rows.keys, values)
    names = [str(place) for place in range(len(values))]
    table = pa.table([pa.array(rows.hashes), rows.keys, *values], ["hash", "key", *names])
    distinct = table.group_by(["hash", "key", *names], use_threads=False).aggregate([])
    hashes, keys, *values = (distinct[name].combine_chunks() for name in table.schema.names)
    return TableRows(hashes.to_numpy(), keys, values)


def orphan_faults(shape: TableShape, objects: BucketObjects) -> Iterator[UnreadableRow]:
    """Yields the fault of each row of a child table without parent."""
    for child, rows in zip(shape.children, objects.orphans, strict=True):
        names = ["key", *child.others]
        for key, *values in zip(*(a.to_pylist() for a in (rows.keys, *rows.values)), strict=True):
            detail = (
                f"child table {child.source_name} has a row of {key}, which {shape.source_name} has not:"
                " add this parent, or delete the row"
            )
            raw = as_json(dict(zip(names, [key, *values], strict=True)))
            yield UnreadableRow(Reason.TABLE_KEY, detail, raw)
