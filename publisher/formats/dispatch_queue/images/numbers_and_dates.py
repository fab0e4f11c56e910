"""Converts numbers and dates of row images to text, by column."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.formats.columns.byte_areas import Bytes, Mask
from publisher.formats.columns.byte_texts import strings
from publisher.formats.dispatch_queue.images.column_types import FRACTION

_MINUS, _ZERO, _POINT = b"-0."
_FIRST_YEAR = dt.datetime(1, 1, 1)  # noqa: DTZ001 - local time of an unknown zone
_TICKS_END = 9999 * 366 * 86400


def dates(areas: Bytes, coding: str, per_second: int | None) -> tuple[pa.Array, Mask]:
    """Formats DATE: as its bytes in hex if ``per_second`` is ``None``, else as the time of its ticks."""
    if per_second is None:
        none = np.zeros(len(areas), bool)
        return pa.array([area.tobytes().hex() for area in areas], pa.string()), none
    digits, negative, wrong = decimal_digits(areas, coding)
    wrong |= negative | digits[:, -FRACTION:].any(axis=1)
    wrong |= digits[:, :2].any(axis=1)  # 64 bits hold 18 digits before the point
    powers = 10 ** np.arange(17, -1, -1, dtype=np.int64)
    ticks = digits[:, 2:20].astype(np.int64) @ powers
    texts: list[str | None] = []
    for row, count in enumerate(ticks.tolist()):
        text = None if wrong[row] else _moment(count, per_second)
        wrong[row] |= text is None
        texts.append(text)
    return pa.array(texts, pa.string()), wrong


def decimal_digits(areas: Bytes, coding: str) -> tuple[Bytes, Mask, Mask]:
    """Returns the 30 digits of each DECIMAL, and masks of negative and of invalid ones.

    It is documented that byte 0 is 0 for zero, 1 for negative and 2 for positive numbers, and 3 to 5 for
    overflow and error.  It is inferred that each other byte holds two digits, 20 before the point and 10
    after it.
    """
    status, body = areas[:, 0], areas[:, 1:]
    digits = np.empty((len(areas), body.shape[1] * 2), np.uint8)
    high, low = (body >> 4, body & 15) if coding == "bcd" else (body // 10, body % 10)
    digits[:, 0::2], digits[:, 1::2] = high, low
    wrong: Mask = np.any(digits > 9, axis=1)
    wrong |= status > 2
    wrong |= (status == 0) & body.any(axis=1)
    wrong |= (status != 0) & ~body.any(axis=1)
    return digits, status == 1, wrong


def decimals(areas: Bytes, coding: str, scale: int | None) -> tuple[pa.Array, Mask]:
    """Formats DECIMAL with ``scale`` digits after the point, or as many as needed."""
    digits, negative, wrong = decimal_digits(areas, coding)
    digits = np.where(wrong[:, None], 0, digits).astype(np.uint8)
    integral = digits.shape[1] - FRACTION
    if scale is not None:
        wrong = wrong | digits[:, integral + scale :].any(axis=1)
    chars = np.empty((len(areas), digits.shape[1] + 2), np.uint8)
    chars[:, 0] = _MINUS
    chars[:, 1 : integral + 1] = digits[:, :integral] + _ZERO
    chars[:, integral + 1] = _POINT
    chars[:, integral + 2 :] = digits[:, integral:] + _ZERO
    keep = np.ones(chars.shape, bool)
    keep[:, 0] = negative
    keep[:, 1:integral] = np.maximum.accumulate(digits[:, : integral - 1] != 0, axis=1)
    fraction = digits[:, integral:] != 0
    needed = np.maximum.accumulate(fraction[:, ::-1], axis=1)[:, ::-1]
    if scale is not None:
        needed = np.broadcast_to(np.arange(FRACTION) < scale, fraction.shape)
    keep[:, integral + 2 :] = needed
    keep[:, integral + 1] = needed.any(axis=1)
    return strings(chars, keep), wrong


def _moment(ticks: int, per_second: int) -> str | None:
    seconds, remainder = divmod(ticks, per_second)
    if seconds > _TICKS_END:
        return None
    try:
        moment = _FIRST_YEAR + dt.timedelta(seconds=seconds)
    except OverflowError:
        return None
    micro = remainder * 1_000_000 // per_second
    text = moment.isoformat(sep=" ")
    return f"{text}.{micro:06d}".rstrip("0") if micro else text


def floats(values: npt.NDArray[Any]) -> tuple[pa.Array, Mask]:
    """Formats IEEE numbers as their shortest texts; infinities and NaN are invalid in SQL."""
    finite = np.isfinite(values)
    texts = [repr(float(str(value))) for value in np.where(finite, values, 0).tolist()]
    if values.dtype.itemsize == 4:  # the shortest text of the single, not of its double
        texts = [repr(float(str(value))) for value in np.where(finite, values, 0).astype("f4")]
    return pa.array(texts, pa.string()), ~finite
