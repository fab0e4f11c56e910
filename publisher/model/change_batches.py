"""Converts batches of ``RECORD_SCHEMA`` to changes in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Change, Object, Position

Image = tuple[str | None, ...]
T = TypeVar("T", bound=tuple[object, ...])


def changes_of(batch: pa.RecordBatch, rows: Sequence[int]) -> list[Change]:
    """Converts a batch that holds only changes; ``rows`` are their row numbers."""
    fields = (
        rows,
        tuples(Object, batch, Object._fields),
        tuples(Position, batch, Position._fields),
        _plain(batch, "rank"),
        _plain(batch, "event_type"),
        _images(batch.column("columns"), absent=()),
        _images(batch.column("old"), absent=None),
        _images(batch.column("new"), absent=None),
        _plain(batch, "event_time"),
        _plain(batch, "perpetrator"),
        _plain(batch, "transaction"),
    )
    return list(map(partial(tuple.__new__, Change), zip(*fields, strict=True)))


def tuples(kind: type[T], batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[T]:
    """Builds named tuples from columns, three times faster than ``_make``."""
    return map(partial(tuple.__new__, kind), zip(*(_plain(batch, n) for n in names), strict=True))


def objects_of(batch: pa.RecordBatch) -> list[Object]:
    """Builds the objects of a batch with schemas, tables and keys."""
    return list(tuples(Object, batch, Object._fields))


def batch_of_objects(objects: Sequence[Object]) -> pa.RecordBatch:
    """Builds a batch with the schemas, tables and keys of objects."""
    columns = zip(*objects, strict=True) if objects else [()] * len(Object._fields)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(Object._fields))


def _plain(batch: pa.RecordBatch, name: str) -> Sequence[object]:
    return plain_values(batch.column(name))


def plain_values(array: pa.Array) -> Sequence[object]:
    """Converts a flat column to Python objects, null to ``None``.

    NumPy, where it is lossless, is several times faster than ``to_pylist``.
    """
    if array.null_count == len(array):
        return (None,) * len(array)
    if array.null_count and not pa.types.is_string(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def _images(array: pa.ListArray, absent: Image | None) -> Sequence[Image | None]:
    """Converts the lists of a column to tuples, a null list to ``absent``."""
    if array.null_count == len(array):
        return (absent,) * len(array)
    values = plain_values(array.flatten())
    lengths = pc.list_value_length(array)
    if not array.null_count and pc.all(pc.equal(lengths, 1)).as_py():
        return list(zip(values, strict=True))  # type: ignore[arg-type]
    images: list[Image | None] = []
    start = 0
    for length in lengths.to_pylist():
        if length is None:
            images.append(absent)
        else:
            images.append(tuple(values[start : start + length]))  # type: ignore[arg-type]
            start += length
    return images
