"""Decodes areas of bytes in a character code, by the column."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import Bytes, Mask, Offsets

_LF = 10
_IN_LINES = frozenset(
    {
        "utf-8",
        "euc_jp",
        "eucjp-ms",
        "cp51932",
        "euc_jis_2004",
        "euc_jisx0213",
        "cp932",
        "shift_jis",
        "shift_jis_2004",
    }
    | {"cp1251", "cp1252", "cp866", "koi8-r", "iso8859-1", "iso8859-5", "iso8859-15"}
)
"""Codes in which a line feed is never part of another character and each line starts unshifted."""
_ESCAPING = ("iso2022", "utf-7", "hz")
"""Codes that write other characters with bytes of ASCII."""
_IDENTICAL = bytes(range(128)).decode("ascii")


class TextColumn(NamedTuple):
    """Values of some records: texts (null for absent and wrong values), and marks of wrong values."""

    texts: pa.Array
    wrong: Mask

    def spread(self, places: Offsets, count: int) -> TextColumn:
        """Puts the values at places of a column of ``count`` values; the others are null."""
        where = np.full(count, -1, np.int64)
        where[places] = np.arange(len(places))
        wrong = np.zeros(count, bool)
        wrong[places] = self.wrong
        return TextColumn(self.texts.take(pa.array(where, mask=where < 0)), wrong)


def strings(chars: Bytes, keep: Mask | None = None) -> pa.Array:
    """Converts rows of ASCII characters to texts; drops characters that ``keep`` does not mark."""
    count, width = chars.shape
    offsets = np.zeros(count + 1, np.int32)
    if keep is None:
        offsets[:] = np.arange(count + 1) * width
        flat = np.ascontiguousarray(chars)
    else:
        np.cumsum(keep.sum(axis=1), out=offsets[1:])
        flat = chars[keep]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(flat))


def set_null(texts: pa.Array, mask: Mask) -> pa.Array:
    """Replaces the texts that ``mask`` marks by null."""
    if not mask.any():
        return texts
    return pc.if_else(pa.array(~mask), texts, pa.scalar(None, texts.type))


def decode_areas(areas: Bytes, codec: str, sizes: Offsets | None = None) -> TextColumn:
    """Decodes rows of bytes in a character code: all bytes, or the first ``sizes`` bytes of each."""
    count, width = areas.shape
    keep = None if sizes is None else np.arange(width) < sizes[:, None]
    used = areas if keep is None else areas[keep]
    if extends_ascii(codec) and not bool((used > 0x7F).any()):
        return TextColumn(strings(areas, keep), np.zeros(count, bool))
    texts = _decode_as_lines(areas, codec, keep)
    if texts is not None:
        return TextColumn(texts, np.zeros(count, bool))
    lengths = [width] * count if sizes is None else sizes.tolist()
    return decode_each(
        (row[:size].tobytes() for row, size in zip(areas, lengths, strict=True)), codec
    )


def _decode_as_lines(areas: Bytes, codec: str, keep: Mask | None) -> pa.Array | None:
    """Decodes rows as lines of one text; ``None`` if a row has a line feed or is invalid."""
    if codecs.lookup(codec).name not in _IN_LINES:
        return None
    lines = np.full((len(areas), areas.shape[1] + 1), _LF, np.uint8)
    lines[:, :-1] = areas
    if keep is not None:
        lines = lines[np.concatenate([keep, np.ones((len(areas), 1), bool)], axis=1)]
    try:
        text = _encodable(lines.tobytes().decode(codec))
    except UnicodeError:
        return None
    rows = text.split("\n")
    return pa.array(rows[:-1], pa.string()) if len(rows) == len(areas) + 1 else None


def decode_each(values: Iterator[bytes], codec: str) -> TextColumn:
    """Decodes bytes in a character code one by one, and marks invalid ones."""
    texts: list[str | None] = []
    wrong: list[int] = []
    for place, value in enumerate(values):
        try:
            texts.append(_encodable(value.decode(codec)))
        except UnicodeError:
            texts.append(None)
            wrong.append(place)
    mask = np.zeros(len(texts), bool)
    mask[wrong] = True
    return TextColumn(pa.array(texts, pa.string()), mask)


def _encodable(text: str) -> str:
    """Returns the text.  Raises ``UnicodeError`` if it has half of a surrogate pair."""
    text.encode()
    return text


def extends_ascii(codec: str) -> bool:
    """Tests whether bytes below 0x80 are always the ASCII characters in this code."""
    extends = _EXTENDS_ASCII.get(codec)
    if extends is None:
        extends = bytes(range(128)).decode(codec, "replace") == _IDENTICAL
        extends = extends and not codecs.lookup(codec).name.startswith(_ESCAPING)
        _EXTENDS_ASCII[codec] = extends
    return extends


_EXTENDS_ASCII: dict[str, bool] = {}
