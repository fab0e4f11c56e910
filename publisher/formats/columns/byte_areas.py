"""Reads areas of fixed width from an array of bytes, by the column; compares neighbouring rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def numbers_at(data: Bytes, at: Offsets, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Reads numbers of type ``kind`` at offsets, aligned or not.  All must lie inside ``data``."""
    if not len(at):
        return np.zeros(0, kind)
    at_each_byte = np.ndarray((len(data) - kind.itemsize + 1,), kind, data, 0, (1,))
    return at_each_byte[at]


def areas_at(data: Bytes, at: Offsets, width: int) -> Bytes:
    """Reads areas of one width at offsets, one row each; a view if they are evenly spaced."""
    if not len(at) or not width:
        return np.zeros((len(at), width), np.uint8)
    step = int(at[1] - at[0]) if len(at) > 1 else 0
    if len(at) == 1 or (step > 0 and at[-1] - at[0] == step * (len(at) - 1) and _even(at, step)):
        return np.ndarray((len(at), width), np.uint8, data, int(at[0]), (step, 1))
    windows: Bytes = np.lib.stride_tricks.sliding_window_view(data, width)
    return windows[at]


def _even(at: Offsets, step: int) -> bool:
    return bool(np.all(np.diff(at) == step))


def begins_run(*columns: npt.NDArray[Any]) -> Mask:
    """Marks the first row, and each row that differs from the row before it in one of the columns."""
    begins = np.ones(len(columns[0]), bool)
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return begins
