"""Converts columns to text; binary values become Base64, whatever their form in the source."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.errors import FatalError
from publisher.formats.columns.columns import plain, texts
from publisher.model.keys import BLANKS

Mask = npt.NDArray[np.bool_]
_DROP_BLANKS = dict.fromkeys(map(ord, BLANKS))


def column_texts(
    array: pa.Array, what: str, *, octet: bool, untyped: bool, binary_text: str | None
) -> tuple[pa.Array, Mask]:
    """Converts a column to text, binary values to Base64; returns the texts and marks of valid values.

    ``octet``: the column is known to be binary; ``untyped``: nothing is known about its table.
    ``binary_text`` is the form of binary values in text, ``hex`` or ``base64``; ``what`` names the column.
    Raises ``FatalError`` if ``binary_text`` is needed and not set.
    """
    array = plain(array)
    if pa.types.is_binary(array.type) and (octet or untyped):
        return _convert_each(array, _to_base64)
    converted, valid = texts(array)
    if not octet or converted.null_count == len(converted):
        return converted, valid
    if binary_text is None:
        raise FatalError(
            f"{what} is binary, and no page documents its form in text; set"
            ' binary_text = "hex" or "base64"'
        )
    decode = _from_hex if binary_text == "hex" else _from_base64
    encoded, decodable = _convert_each(converted, decode)
    return encoded, valid & decodable


def _convert_each(array: pa.Array, convert: Callable[[Any], str]) -> tuple[pa.Array, Mask]:
    valid = np.ones(len(array), bool)
    values: list[str | None] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            values.append(None if value is None else convert(value))
        except (ValueError, binascii.Error):
            values.append(value)
            valid[row] = False
    return pa.array(values, pa.string()), valid


def _to_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _from_hex(value: str) -> str:
    digits = value[2:] if value[:2] in ("0x", "0X", "\\x") else value
    return _to_base64(bytes.fromhex(digits))


def _from_base64(value: str) -> str:
    text = value.translate(_DROP_BLANKS)
    if _to_base64(base64.b64decode(text, validate=True)) != text:
        raise ValueError("unused bits are set")
    return text
