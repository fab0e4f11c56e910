"""The structures, declared: DIRR_OUT as the page of DIRR prints it, and the bulk envelope of our own.

::

    struct DIRR_OUT { L_LONG Owner; L_CHAR TblName[MAX_ID_LEN]; L_WORD UpdFlag; }

The page gives no widths: L_WORD and L_CHAR follow from offsets in $$$SYSRL, L_LONG and MAX_ID_LEN are
settings (reference, 3.1).  A C compiler aligns UpdFlag and the end of the structure; with the defaults
(4, 66) there is nothing to fill and the structure has 72 bytes.

The declarations build and read single records; what reads in bulk takes its offsets from them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import construct as c
import numpy as np

from publisher.sources.table_queue.code_pages import ByteOrder
from publisher.sources.table_queue.options import EORR, NORMAL, SMALLBUFKOR, TableQueueOptions

_LONGS = {
    (4, "little"): c.Int32sl,
    (4, "big"): c.Int32sb,
    (8, "little"): c.Int64sl,
    (8, "big"): c.Int64sb,
}
_WORDS = {"little": c.Int16ul, "big": c.Int16ub}
_WORD = 2


def dirr_out(options: TableQueueOptions) -> Any:
    """The declaration of DIRR_OUT by the settings."""
    return _dirr_out(options.long_bytes, options.identifier_length, options.byte_order)


@lru_cache(maxsize=64)
def _dirr_out(long_bytes: int, identifier_length: int, order: ByteOrder) -> Any:
    named = long_bytes + identifier_length
    before_flag = -named % _WORD
    at_end = -(named + before_flag + _WORD) % long_bytes
    return c.Struct(
        "owner" / _LONGS[long_bytes, order],
        "table" / c.Bytes(identifier_length),
        c.Padding(before_flag),
        "updated" / _WORDS[order],
        c.Padding(at_end),
    )


MAGIC = b"XDSDIRR"
"""The first bytes of a bulk file; the eighth is the version of its form."""
VERSION = 1

BULK_HEADER = c.Struct(
    "magic" / c.Const(MAGIC),
    "version" / c.Int8ul,
    "record_bytes" / c.Int32ul,
    "node" / c.Bytes(16),
    "code_page" / c.Bytes(32),
    "reserved" / c.Const(bytes(4)),
)
"""Begins a bulk file.  ``record_bytes``: room for a record in each call; ``node`` in UTF-8 and
``code_page`` in ASCII, filled with NUL; no ``code_page``: that of the settings."""

BULK_CALL = c.Struct(
    "sweep" / c.Int64ul,
    "time" / c.Int64sl,
    "ordinal" / c.Int32ul,
    "code" / c.Int32sl,
    "system_error" / c.Int32sl,
    "length" / c.Int16ul,
    "completion" / c.Int8ul,
    "known" / c.Int8ul,
)
"""Each call of a bulk file; ``record_bytes`` bytes of record follow.  ``time`` in microseconds since
1970 UTC; ``length`` is LnBufRow as it was returned; ``completion`` as ``COMPLETIONS``; ``known`` has a bit
for each of what is there: ``CODE``, ``RECORD``, ``SYSTEM_ERROR``."""

COMPLETIONS = (None, NORMAL, SMALLBUFKOR, EORR)
"""Completion codes of a bulk call; ``None``: by the number alone."""
CODE, RECORD, SYSTEM_ERROR = 1, 2, 4


def columns_of(declared: Any) -> np.dtype[Any]:
    """A declaration as NumPy reads many of them: fields of numbers and of bytes, at their offsets."""
    names, formats, offsets, at = [], [], [], 0
    for part in declared.subcons:
        if part.name and part.name not in ("magic", "reserved"):
            names.append(part.name)
            formats.append(_format(part.subcon))
            offsets.append(at)
        at += part.sizeof()
    return np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": declared.sizeof()}
    )


def _format(declared: Any) -> Any:
    letters = getattr(declared, "fmtstr", None)
    if letters is None:
        return (np.uint8, (declared.sizeof(),))
    # the letters of struct and NumPy differ (l), so by order, kind and size
    order, letter = letters
    return f"{order}{'i' if letter.islower() else 'u'}{declared.sizeof()}"
