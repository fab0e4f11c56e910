"""Declarations of the structures: DIRR_OUT as the page of DIRR prints it, and calls of bulk files.

::

    struct DIRR_OUT { L_LONG Owner; L_CHAR TblName[MAX_ID_LEN]; L_WORD UpdFlag; }

The page gives no widths: L_WORD and L_CHAR follow from offsets in $$$SYSRL, L_LONG and MAX_ID_LEN are
settings.  A C compiler aligns UpdFlag and the end of the structure; with the defaults
(4, 66) no padding is needed and the structure has 72 bytes.

The declarations build and parse single records; the bulk readers take their offsets from them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import construct as c
import numpy as np

from publisher.formats.table_queue.code_pages import ByteOrder
from publisher.formats.table_queue.options import EORR, NORMAL, SMALLBUFKOR, TableQueueOptions

_LONGS = {
    (4, "little"): c.Int32sl,
    (4, "big"): c.Int32sb,
    (8, "little"): c.Int64sl,
    (8, "big"): c.Int64sb,
}
_WORDS = {"little": c.Int16ul, "big": c.Int16ub}
_WORD = 2


def dirr_out(options: TableQueueOptions) -> Any:
    """Declares DIRR_OUT according to the settings."""
    return _dirr_out(options.long_bytes, options.identifier_length, options.byte_order)


@lru_cache(maxsize=64)
def _dirr_out(long_bytes: int, identifier_length: int, order: ByteOrder) -> Any:
    end_of_name = long_bytes + identifier_length
    before_flag = -end_of_name % _WORD
    at_end = -(end_of_name + before_flag + _WORD) % long_bytes
    return c.Struct(
        "owner" / _LONGS[long_bytes, order],
        "table" / c.Bytes(identifier_length),
        c.Padding(before_flag),
        "updated" / _WORDS[order],
        c.Padding(at_end),
    )


MAGIC = b"XDSDIRR"
"""The first seven bytes of a bulk file; the eighth is the version of the format."""
VERSION = 1

BULK_HEADER = c.Struct(
    "magic" / c.Const(MAGIC),
    "version" / c.Int8ul,
    "record_bytes" / c.Int32ul,
    "node" / c.Bytes(16),
    "code_page" / c.Bytes(32),
    "reserved" / c.Const(bytes(4)),
)
"""Header of a bulk file.  ``record_bytes``: room for a record in each call.  ``node`` in UTF-8 and
``code_page`` in ASCII are padded with NUL; without a ``code_page`` that of the settings applies."""

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
"""A call of a bulk file; ``record_bytes`` bytes of record follow.  ``time`` in microseconds since
1970 UTC; ``length`` is the returned LnBufRow; ``completion`` is an index of ``COMPLETIONS``; ``known`` has
one bit each for a present ``CODE``, ``RECORD`` and ``SYSTEM_ERROR``."""

COMPLETIONS = (None, NORMAL, SMALLBUFKOR, EORR)
"""Completion codes of a bulk call; ``None``: known by its number only."""
CODE, RECORD, SYSTEM_ERROR = 1, 2, 4


def columns_of(declared: Any) -> np.dtype[Any]:
    """Derives the NumPy type of a declaration: number and byte fields at their offsets."""
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
    # struct and NumPy use the letter l differently, so derive the type from order, sign and size
    order, letter = letters
    return f"{order}{'i' if letter.islower() else 'u'}{declared.sizeof()}"
