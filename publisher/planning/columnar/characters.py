"""Finds characters that XML escapes or forbids in whole columns of text.

A few comparisons of all bytes of a column find the texts that may have such a character.  Only these are
searched with a regular expression, which takes ten times as long.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.sorted_ids import sort_distinct
from publisher.planning.columnar.rows import Flags, Numbers, flags_of
from publisher.xds.escape import FORBIDDEN_RE2, VERBATIM

_FIRST_PRINTABLE = 0x20
_LEAD_OF_FORBIDDEN = 0xEF
"""First byte of U+FFFE and U+FFFF in UTF-8, and of 4,094 other characters."""
_MANY = 8
"""If one byte in so many is suspect, all texts are searched."""


def is_forbidden(texts: pa.StringArray) -> Flags:
    """Flags texts with a character that XML forbids; null has none."""
    suspects = _suspects(texts)
    flags = np.zeros(len(texts), np.bool_)
    found = pc.match_substring_regex(texts.take(pa.array(suspects)), FORBIDDEN_RE2)
    flags[suspects] = flags_of(found)
    return flags


def is_verbatim(texts: pa.StringArray) -> Flags:
    """Flags texts that match ``VERBATIM``; null does not."""
    suspects = _suspects(texts)
    flags = flags_of(texts.is_valid()).copy()
    matches = pc.match_substring_regex(texts.take(pa.array(suspects)), VERBATIM)
    flags[suspects] = flags_of(matches)
    return flags


def _suspects(texts: pa.StringArray | pa.LargeStringArray) -> Numbers:
    """The rows whose texts may have characters that are escaped or forbidden."""
    _, offset_buffer, data = texts.buffers()
    if not len(texts) or data is None:
        return np.zeros(0, np.int64)
    width = np.dtype(np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    offsets = np.frombuffer(offset_buffer, width, len(texts) + 1, texts.offset * width.itemsize)
    content = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    is_suspect = content < _FIRST_PRINTABLE
    for byte in (*b"&<>", _LEAD_OF_FORBIDDEN):
        is_suspect |= content == byte
    if _MANY * np.count_nonzero(is_suspect) > len(content):
        return np.arange(len(texts))  # less memory than the places of so many bytes
    places = np.flatnonzero(is_suspect) + offsets[0]
    return sort_distinct(np.searchsorted(offsets, places, "right") - 1)
