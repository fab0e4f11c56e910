"""Parses the keys of many objects at once; ``keys`` has the grammar."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.keys import PLAIN_NUMBER

_SPECIAL = b""",;'+"=\\<>"""
_IS_SIMPLE = np.zeros(256, np.bool_)
"""True for the bytes of values without quotes and blanks; of characters beyond ASCII some are blanks."""
_IS_SIMPLE[ord("!") : ord("~") + 1] = True
_IS_SIMPLE[[*_SPECIAL]] = False


def split_keys(keys: pa.StringArray) -> tuple[str, pa.StringArray] | None:
    """Splits keys into the name of their only column, which is the same in all, and their values.

    ``None`` if there are no keys, or others: also if names or values need quotes, or are not of ASCII."""
    if not len(keys) or keys.null_count:
        return None
    column, _, _ = keys[0].as_py().partition("=")
    values = pc.utf8_slice_codeunits(keys, len(column) + 1)
    is_simple = _has_simple_texts(pa.array([column])) and _has_simple_texts(values)
    if not is_simple or not pc.all(pc.starts_with(keys, f"{column}=")).as_py():
        return None
    return column, values


def are_plain_integers(texts: pa.StringArray) -> bool:
    """Returns whether ``keys.integer_text`` returns these texts unchanged."""
    matches = pc.match_substring_regex(texts, rf"\A{PLAIN_NUMBER}\z")
    return bool(pc.all(matches, skip_nulls=False).as_py())


def _has_simple_texts(texts: pa.StringArray) -> bool:
    if pc.min(pc.binary_length(texts)).as_py() == 0:
        return False
    return bool(_IS_SIMPLE[np.frombuffer(texts.buffers()[2], np.uint8)].all())
