"""Declaration of the row of DISPATCH_QUEUE.

Columns, types and meanings are documented on the vendor's page of the table.  Offsets are inferred from the
widths of packed rows, and so is a row of 3,600 bytes, padded as in an array of C structs.  The declaration
parses and builds single rows; the bulk reader takes offsets, widths and byte orders from it.

======== =========== ===== ==================================================== =================
offset   column      bytes meaning                                              byte order
======== =========== ===== ==================================================== =================
0        OPER_DATE   6     seconds since 1990, then 65536ths of a second        a setting
6        EXTDATA     2     number of the part, from 0                           of the export
8        DBNODE      8     database that the data came from                     text
16       TRANSACT_ID 8     transaction                                          of the export
24       SYSLOG_ADDR 8     log file number (high half), address in it (low)     of the export
32       TYP         2     operation                                            of the export
34       BLOBATR     2     BLOB column number (low byte), BLOB type (high)      of the export
36       CHANNEL     4     connection that made the change                      of the export
40       TABNUM_SRC  4     number of the source table                           of the export
44       ROWID_SRC   4     row id in the source table                           of the export
48       LEN1        4     length of the first portion of DATA                  of the export
52       LEN2        4     length of the second portion                         of the export
56       DST_SERVER  8     destination server                                   text
64       DST_OWNER   66    owner of the destination table                       text
130      DST_TABLE   66    destination table                                    text
196      DATA        3400  row images
======== =========== ===== ==================================================== =================
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any, Literal

import construct as c
import numpy as np

ByteOrder = Literal["big", "little"]


class OperationCode(IntEnum):
    """Codes of TYP (documented).

    The vendor's page prints two lists: list a in the description of the column, list b below the table."""

    DELETE = 1
    INSERT = 2
    UPDATE = 3
    COMMIT = 4
    CLOSING = 5
    """COMMIT or ROLLBACK of list b, which has one code for both."""
    CREATE_BLOB = 7
    INSERT_BLOB = 8
    CLEAR_BLOB = 9
    ROLLBACK = 10


DATA_BYTES = 3400
"""Bytes of DATA in one row (documented)."""
ROW_BYTES = 3596
"""Bytes of a packed row (inferred: the sum of the widths)."""
STRIDES = (3596, 3600)
"""Bytes from row to row: packed, or padded as in an array of C structs (inferred)."""
EPOCH_SECONDS = 631_152_000
"""1990-01-01 in seconds since 1970 (inferred: the page says "since 1990")."""
FRACTIONS = 65536
"""Fractions per second in the last two bytes of OPER_DATE (documented)."""

_INTEGERS = {
    ("int16", "little"): c.Int16sl,
    ("int16", "big"): c.Int16sb,
    ("int32", "little"): c.Int32sl,
    ("int32", "big"): c.Int32sb,
    ("int64", "little"): c.Int64sl,
    ("int64", "big"): c.Int64sb,
}


@cache
def row(order: ByteOrder = "little") -> Any:
    """Declares a packed row: integers in the byte order of the export, OPER_DATE big-endian."""

    def number(kind: str) -> Any:
        return _INTEGERS[kind, order]

    return c.Struct(
        "OPER_DATE" / c.Struct("seconds" / c.Int32ub, "fraction" / c.Int16ub),
        "EXTDATA" / number("int16"),
        "DBNODE" / c.Bytes(8),
        "TRANSACT_ID" / number("int64"),
        "SYSLOG_ADDR" / number("int64"),
        "TYP" / number("int16"),
        "BLOBATR" / number("int16"),
        "CHANNEL" / number("int32"),
        "TABNUM_SRC" / number("int32"),
        "ROWID_SRC" / number("int32"),
        "LEN1" / number("int32"),
        "LEN2" / number("int32"),
        "DST_SERVER" / c.Bytes(8),
        "DST_OWNER" / c.Bytes(66),
        "DST_TABLE" / c.Bytes(66),
        "DATA" / c.Bytes(DATA_BYTES),
    )


COLUMNS: tuple[str, ...] = tuple(column.name for column in row().subcons)
"""Names of the columns in the order of the table."""
TEXTS = ("DBNODE", "DST_SERVER", "DST_OWNER", "DST_TABLE")
"""CHAR columns, padded with blanks (documented)."""
WIDTHS = {name: getattr(row(), name).sizeof() for name in (*TEXTS, "DATA", "OPER_DATE")}
"""Bytes of the columns other than integers."""
INTEGERS = tuple(name for name in COLUMNS if name not in WIDTHS)


def numpy_type(declared: Any) -> np.dtype[Any]:
    """Returns the NumPy type of a declared number or of declared bytes."""
    if isinstance(declared, c.Bytes):
        return np.dtype(f"V{declared.sizeof()}")
    order, letter = declared.fmtstr
    kind = "i" if letter.islower() else "u"
    return np.dtype(f"{order}{kind}{declared.sizeof()}")


@cache
def row_type(order: ByteOrder = "little", stride: int = ROW_BYTES) -> np.dtype[Any]:
    """Returns the NumPy type of rows for bulk reading, with the parts SECONDS and FRACTION of OPER_DATE."""
    fields: dict[str, tuple[np.dtype[Any], int]] = {}
    at = 0
    for column in row(order).subcons:
        if column.name == "OPER_DATE":
            fields["OPER_DATE"] = np.dtype(f"V{column.sizeof()}"), at
            fields["SECONDS"] = numpy_type(column.seconds), at
            fields["FRACTION"] = numpy_type(column.fraction), at + column.seconds.sizeof()
        else:
            fields[column.name] = numpy_type(column.subcon), at
        at += column.sizeof()
    return np.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, _ in fields.values()],
            "offsets": [place for _, place in fields.values()],
            "itemsize": stride,
        }
    )


DATA_AT: int = row_type().fields["DATA"][1]  # type: ignore[index]
"""Offset of DATA in a row."""
