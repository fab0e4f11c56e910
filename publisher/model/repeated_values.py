"""Columns that repeat one value: made, and recognised, without looking at each value."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

_SHORT = 16
"""Maximum characters of a text whose repetitions are shared."""
_ROWS = 1 << 16
"""Maximum number of values that are shared."""
_LONG = 256
"""Minimum bytes of a long text; columns of long texts are not compared."""


def repeat_value(value: int | str | None, kind: pa.DataType, count: int) -> pa.Array:
    """Repeats a value; fast, because batches share the memory of short values.

    Never change the result in place."""
    if 0 < count <= _ROWS and (not isinstance(value, str) or len(value) <= _SHORT):
        return _shared(value, kind, 1 << (count - 1).bit_length()).slice(0, count)
    return _repeat(value, kind, count)


@lru_cache(maxsize=32)  # at most 42 MB
def _shared(value: int | str | None, kind: pa.DataType, count: int) -> pa.Array:
    return _repeat(value, kind, count)


def _repeat(value: int | str | None, kind: pa.DataType, count: int) -> pa.Array:
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, int):
        return pa.array(np.full(count, value), kind)
    return pa.repeat(pa.scalar(value, kind), count)


def has_one_value(column: pa.Array) -> bool:
    """Returns whether all values are equal; false for types other than integers and short texts, unless all
    are null."""
    if column.null_count:
        return bool(column.null_count == len(column))
    if not len(column):
        return False
    if pa.types.is_integer(column.type):
        numbers = column.to_numpy(zero_copy_only=False)
        return bool(numbers[0] == numbers[-1] and np.all(numbers == numbers[0]))
    return pa.types.is_string(column.type) and _has_one_text(column)


def _has_one_text(column: pa.StringArray) -> bool:
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    size = int(offsets[1] - offsets[0])
    if size >= _LONG or offsets[-1] - offsets[0] != size * len(column):
        return False
    if not size:
        return True
    texts = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].reshape(-1, size)
    if np.any(texts[0] != texts[-1]) or np.any(np.diff(offsets) != size):
        return False
    return bool(np.all(texts == texts[0]))
