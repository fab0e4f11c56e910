"""Distinct values of objects: those of attributes with several values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class DistinctValues(NamedTuple):
    """The values of objects, each once, in the order of objects and code points."""

    objects: npt.NDArray[np.int64]
    texts: pa.Array

    @classmethod
    def of(cls, objects: npt.NDArray[np.int64], texts: pa.Array) -> DistinctValues:
        """``objects`` has the number of each value's object, or -1 for a value of no object."""
        of_object = texts.is_valid().to_numpy(zero_copy_only=False) & (objects >= 0)
        if not of_object.all():
            objects, texts = objects[of_object], texts.filter(pa.array(of_object))
        if _is_in_order(objects, texts):
            return cls(objects, texts)
        table = pa.table({"object": objects, "text": texts})
        # Arrow sorts texts by their bytes in UTF-8, which is the order of code points
        table = table.sort_by([("object", "ascending"), ("text", "ascending")]).combine_chunks()
        numbers, sorted_texts = table["object"].to_numpy(), _flat(table["text"])
        repeats = numbers[1:] == numbers[:-1]
        if repeats.any():
            repeats &= _compare_neighbours(pc.equal, sorted_texts)
            is_first = np.append(True, ~repeats)
            numbers, sorted_texts = numbers[is_first], sorted_texts.filter(pa.array(is_first))
        return cls(numbers, sorted_texts)

    def lists(self, count: int) -> pa.ListArray:
        """Lists the values of each of ``count`` objects."""
        return lists_of(self.texts, np.bincount(self.objects, minlength=count))


def lists_of(values: pa.Array, counts: npt.NDArray[np.int64]) -> pa.ListArray:
    """Divides values into lists of these lengths."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _is_in_order(objects: npt.NDArray[np.int64], texts: pa.Array) -> bool:
    """Returns whether the values are distinct and in order, as most are that a database returns."""
    steps = np.diff(objects)
    if (steps > 0).all():
        return True
    return bool((steps >= 0).all() and ((steps > 0) | _compare_neighbours(pc.less, texts)).all())


def _compare_neighbours(compare: Callable[..., pa.Array], texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Compares each text with the next one."""
    earlier = texts.slice(0, len(texts) - 1)
    flags: npt.NDArray[np.bool_] = compare(earlier, texts.slice(1)).to_numpy(zero_copy_only=False)
    return flags


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
