"""Columns as text: binary values as Base64, however their source writes them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.errors import FatalError
from publisher.sources.columns.columns import plain, texts

Mask = npt.NDArray[np.bool_]


def column_texts(
    array: pa.Array, what: str, *, octet: bool, untyped: bool, binary_text: str | None
) -> tuple[pa.Array, Mask]:
    """Converts a column to text, binary values to Base64; invalid values stay and are marked.

    ``octet``: the column is known to be binary; ``untyped``: nothing is known about its table.
    ``binary_text`` (``hex``, ``base64``) is how text writes binary values; ``what`` names the column.
    Raises ``FatalError`` if that is needed and not set.
    """
    array = plain(array)
    if pa.types.is_binary(array.type) and (octet or untyped):
        return _convert_each(array, _to_base64)
    found, right = texts(array)
    if not octet or found.null_count == len(found):
        return found, right
    if binary_text is None:
        raise FatalError(
            f"{what} is binary, and how text writes it is not documented; set"
            ' binary_text = "hex" or "base64"'
        )
    again, good = _convert_each(found, _from_hex if binary_text == "hex" else _from_base64)
    return again, right & good


def _convert_each(array: pa.Array, form: Callable[[Any], str]) -> tuple[pa.Array, Mask]:
    right = np.ones(len(array), bool)
    values: list[str | None] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            values.append(None if value is None else form(value))
        except (ValueError, binascii.Error):
            values.append(value)
            right[row] = False
    return pa.array(values, pa.string()), right


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _from_hex(value: str) -> str:
    digits = value[2:] if value[:2] in ("0x", "0X", "\\x") else value
    return _to_base64(bytes.fromhex(digits))


def _from_base64(value: str) -> str:
    return _to_base64(base64.b64decode("".join(value.split()), validate=True))
