"""Finds characters that XML escapes or forbids in whole columns of text.

A few comparisons of all bytes of a column find the texts that may have such a character.  Only these are
searched with a regular expression, which takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.arrays import BoolArray, ByteArray, Int64Array, booleans
from publisher.model.sorted_ids import sort_distinct
from publisher.xds.escape import FORBIDDEN_RE2, LONGEST_TAG, VERBATIM

_FIRST_PRINTABLE = 0x20
_LEADS_OF_FORBIDDEN = b"\xef"
"""First byte of U+FFFE and U+FFFF in UTF-8, and of 4,094 other characters."""
_MANY = 8
"""If one byte in so many is suspect, all texts are searched."""


def is_forbidden(texts: pa.StringArray) -> BoolArray:
    """BoolArray texts with a character that XML forbids, and long ones; null has none."""
    suspects = _suspects(texts, _LEADS_OF_FORBIDDEN)
    flags = is_long(texts)
    if not len(suspects):  # to compile the expression takes longer than to compare a thousand texts
        return flags
    found = pc.match_substring_regex(texts.take(pa.array(suspects)), FORBIDDEN_RE2)
    flags[suspects] |= booleans(found)
    return flags


def is_long(texts: pa.StringArray) -> BoolArray:
    """BoolArray texts that parsers of XML may refuse because of their length; null is not long."""
    if texts.nbytes <= LONGEST_TAG:
        return np.zeros(len(texts), np.bool_)
    return booleans(pc.greater(pc.binary_length(texts), LONGEST_TAG)).copy()


def is_verbatim(texts: pa.StringArray) -> BoolArray:
    """BoolArray texts that match ``VERBATIM`` and are not long; null does not match."""
    suspects = _suspects(texts, b"&<>" + _LEADS_OF_FORBIDDEN)
    flags = booleans(texts.is_valid()) & ~is_long(texts)
    if not len(suspects):
        return flags
    matches = pc.match_substring_regex(texts.take(pa.array(suspects)), VERBATIM)
    flags[suspects] &= booleans(matches)
    return flags


def present_characters(texts: pa.StringArray, characters: Iterable[str]) -> list[str]:
    """Returns those of the characters of ASCII that may occur in any of the texts."""
    _, content = _content(texts)
    return [character for character in characters if (content == ord(character)).any()]


def _suspects(texts: pa.StringArray | pa.LargeStringArray, others: bytes) -> Int64Array:
    """The rows whose texts may have control characters, or characters that begin with one of the bytes."""
    offsets, content = _content(texts)
    is_suspect = content < _FIRST_PRINTABLE
    for byte in others:
        is_suspect |= content == byte
    if _MANY * np.count_nonzero(is_suspect) > len(content):
        return np.arange(len(texts))  # less memory than the places of so many bytes
    places = np.flatnonzero(is_suspect)
    if not len(places):
        return places
    return sort_distinct(np.searchsorted(offsets, places + offsets[0], "right") - 1)


def _content(texts: pa.StringArray | pa.LargeStringArray) -> tuple[Int64Array, ByteArray]:
    """The offsets of the texts, and the bytes from the first offset to the last."""
    _, offset_buffer, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    width = np.dtype(np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    offsets = np.frombuffer(offset_buffer, width, len(texts) + 1, texts.offset * width.itemsize)
    return offsets, np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
