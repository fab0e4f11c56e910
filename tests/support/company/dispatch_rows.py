"""Writes the story as LINTER's replication tables: DISPATCH_QUEUE in binary rows, DISPATCH_ATTRS as text.

Rows and row images are built from the declarations that read them.  One transaction is rolled back, and
one is open when the queue is exported.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from publisher.formats.dispatch_queue.images.column_types import (
    FRACTION,
    NATIONAL,
    VARIABLE,
    ImageColumn,
)
from publisher.formats.dispatch_queue.images.layout import image_layout
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.dispatch_queue.rows import layout
from publisher.formats.dispatch_queue.rows.layout import OperationCode
from publisher.model.change import Outcome, Reason
from tests.support.company.acts import Act, RowChange
from tests.support.company.people import Row, Value
from tests.support.company.story import Counts, Story

NUMBERS = {"usr": 1, "employee": 2, "membership": 3, "usr_phone": 4, "employee_phone": 5}
"""Numbers of the tables at the source."""
ATTRIBUTES = """TABNUM_SRC,NAME,ATRNUM,TYP,PKEY,LEN
1,idu,1,2,1,4
1,fname,2,12,0,128
1,lname,3,12,0,128
1,photo,4,9,0,64
1,manager,5,2,0,4
2,empno,1,2,1,4
2,given_name,2,12,0,128
2,family_name,3,12,0,128
2,badge,4,1,0,6
2,title,5,8,0,64
2,address,6,12,0,400
2,hired,7,4,0,16
2,last_login,8,4,0,16
2,active,9,10,0,1
2,salary,10,5,0,16
2,photo,11,9,0,64
2,manager,12,2,0,4
3,grp,1,12,1,128
3,empno,2,2,1,4
3,role,3,8,0,16
3,since,4,4,0,16
4,idu,1,2,1,4
4,phoneno,2,8,1,32
5,empno,1,2,1,4
5,phoneno,2,8,1,32
"""
"""An export of DISPATCH_ATTRS: type codes 1 CHAR, 2 INTEGER, 4 DATE, 5 DECIMAL, 8 VARCHAR, 9 VARBYTE, 10
BOOLEAN, 12 NVARCHAR."""

FILE = 7
"""Number of the log file, the high half of SYSLOG_ADDR."""
STEP = 100
"""Distance between two addresses in the log file."""
_EPOCH = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=layout.EPOCH_SECONDS)  # noqa: DTZ001  UTC
_FIRST_YEAR = dt.datetime(1, 1, 1)  # noqa: DTZ001  columns without zone
_TYPES = {
    "insert": OperationCode.INSERT,
    "update": OperationCode.UPDATE,
    "delete": OperationCode.DELETE,
}


def write_queue(path: Path, options: DispatchQueueOptions, story: Story) -> Counts:
    """Writes the export; returns the expected counts of publishing it."""
    queue = Queue(options)
    rows = list(queue.rows(story))
    path.write_bytes(b"".join(rows))
    return {
        (Outcome.PUBLISHED, None): sum(len(act.changes) for act in story.acts),
        (Outcome.IGNORED, Reason.COMMIT): len(story.acts),
        (Outcome.IGNORED, Reason.ROLLBACK): 2,
        (Outcome.HELD, Reason.OPEN_TRANSACTION): 1,
    }


class Queue:
    """Builds consecutive rows, each at the next log address."""

    def __init__(self, options: DispatchQueueOptions) -> None:
        self._options = options
        self._row = layout.row(options.byte_order)
        self._tables = {name: _Table(options, number) for name, number in NUMBERS.items()}
        self._written = 0

    def rows(self, story: Story) -> Iterator[bytes]:
        """Yields the changes in commit order, with a rolled back transaction and an open one."""
        half = len(story.acts) // 2
        yield from self._transactions(story.acts[:half])
        time = story.acts[half].end_time
        transaction = len(story.acts) + 1
        yield self._change_row(story.rolled_back, transaction, time)
        yield self._mark(OperationCode.ROLLBACK, transaction, time)
        yield from self._transactions(story.acts[half:], half)
        yield self._change_row(story.unfinished, transaction + 1, story.acts[-1].end_time)

    def _transactions(self, acts: Iterable[Act], before: int = 0) -> Iterator[bytes]:
        for number, act in enumerate(acts, before + 1):
            for change in act.changes:
                yield self._change_row(change, number, act.end_time)
            yield self._mark(OperationCode.COMMIT, number, act.end_time)

    def _change_row(self, change: RowChange, transaction: int, when: dt.datetime) -> bytes:
        table = self._tables[change.table]
        images = [
            table.image(change.image(row))
            for row in (change.before, change.after)
            if row is not None
        ]
        first, second = (*images, b"")[:2]
        kind = "delete" if change.after is None else "update" if second else "insert"
        return self._build(
            transaction,
            when,
            TYP=_TYPES[kind],
            TABNUM_SRC=NUMBERS[change.table],
            LEN1=len(first),
            LEN2=len(second),
            DST_SERVER=b"IDM",
            DST_OWNER=b"INDIRECT",
            DST_TABLE=change.table.upper().encode(),
            DATA=first + second,
        )

    def _mark(self, kind: int, transaction: int, when: dt.datetime) -> bytes:
        return self._build(transaction, when, TYP=kind)

    def _build(self, transaction: int, when: dt.datetime, **columns: Any) -> bytes:
        self._written += 1
        seconds = (when - _EPOCH).total_seconds()
        row: dict[str, Any] = dict.fromkeys(layout.INTEGERS, 0)
        row |= dict.fromkeys((*layout.TEXTS, "DATA"), b"")
        row |= {
            "OPER_DATE": {"seconds": int(seconds), "fraction": 0},
            "DBNODE": b"HR",
            "TRANSACT_ID": transaction,
            "SYSLOG_ADDR": (FILE << 32) + STEP * self._written,
            "ROWID_SRC": self._written,
        }
        row |= columns
        row |= {name: row[name].ljust(layout.WIDTHS[name]) for name in layout.TEXTS}
        row["DATA"] = row["DATA"].ljust(layout.DATA_BYTES, b"\0")
        encoded: bytes = self._row.build(row)
        return encoded


class _Table:
    """Builds the row images of one table."""

    def __init__(self, options: DispatchQueueOptions, number: int) -> None:
        (description,) = (table for table in options.tables if table.number == number)
        self._options = options
        self._layout = image_layout(options, description)
        self._declaration = self._layout.declaration
        self._national = "utf-16-be" if options.nchar_order == "big" else "utf-16-le"

    def image(self, row: Row) -> bytes:
        """Builds the image of one row."""
        values: dict[str, Any] = {}
        for number, column in enumerate(self._layout.columns):
            value = row[column.name]
            values[f"null{number}"] = self._layout.null_flag if value is None else 0
            values[f"value{number}"] = self._value(column, value)
        encoded: bytes = self._declaration.build(values)
        return encoded

    def _value(self, column: ImageColumn, value: Value) -> Any:
        if column.type == "INTEGER":
            return 0 if value is None else value
        data = self._bytes(column, value)
        if column.type in VARIABLE:
            return {"length": len(data) // (2 if column.type in NATIONAL else 1), "data": data}
        return data.ljust(column.capacity, b" " if column.type == "CHAR" else b"\0")

    def _bytes(self, column: ImageColumn, value: Value) -> bytes:
        match value:
            case bool():
                text = self._options.boolean_true if value else self._options.boolean_false
                return bytes.fromhex(text or "")
            case str() if column.type in NATIONAL:
                return value.encode(self._national)
            case str():
                return value.encode(self._options.image_charset or "ascii")
            case Decimal():
                return decimal(value)
            case dt.date():
                return decimal(Decimal(self._options.ticks_per_second * _seconds(value)))
        return value if isinstance(value, bytes) else b""


def _seconds(value: dt.date) -> int:
    """Returns the seconds since 0001-01-01."""
    clock = value.time() if isinstance(value, dt.datetime) else dt.time()
    return int((dt.datetime.combine(value, clock) - _FIRST_YEAR).total_seconds())


def decimal(value: Decimal) -> bytes:
    """Encodes a DECIMAL: a byte for the sign, then half bytes for 20 digits and the fraction."""
    whole, _, fraction = f"{abs(value):.{FRACTION}f}".partition(".")
    sign = 0 if value == 0 else 1 if value < 0 else 2
    return bytes([sign]) + bytes.fromhex(whole.zfill(20) + fraction)
