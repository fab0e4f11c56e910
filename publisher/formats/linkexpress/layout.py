"""Declarations of records: headers as in the manual, and areas of items.

::

    table, OPEN, NORMAL    OP  items
    table, OPEN, LITTLE    LEN OP  items
    table, JNL             LEN CNT N OP  items          CNT = items + 1
    group, NULL areas      LEN CNT XID N OP  items      CNT = items + 2
    group, none            LEN CNT XID OP  items
    commit of a group      LEN CNT [N] OP               CNT = 1, OP = 8000

``LEN`` is the length of the whole record, its own bytes included; ``XID`` is the extraction identifier of the
table, ``N`` a NULL area, and ``OP`` the operation code (``ExtractCode``).  With NULL areas, each item has one
immediately before its data.  The declarations read and build single records; bulk reading takes sizes,
offsets and byte orders from them.

Comments name the source of a fact: *documented* in the manuals of Linkexpress, *related*, that is documented
for another interface of the same product family, or *inferred* from such facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import construct as c
import numpy as np

from publisher.formats.linkexpress.options import (
    ByteOrder,
    ExtractedTable,
    LinkexpressOptions,
    LogType,
)
from publisher.formats.linkexpress.types import VARIABLE, Item


class ExtractCode(IntEnum):
    """Operation codes of records (documented)."""

    FULL_EXTRACT = 0x0000
    INSERT = 0x0001
    UPDATE = 0x0002
    DELETE = 0x0003
    COMMIT = 0x8000
    NO_ROWS = 0xFFFF

    @property
    def text(self) -> str:
        """The code as messages show it."""
        return f"{self:04X} {self.name.lower().replace('_', ' ')}"


NOT_NULL = 0x0000
FLAG = 2
"""Bytes of a NULL area (documented)."""

_WORDS = {
    "length": {"big": c.Int32sb, "little": c.Int32sl},  # documented as signed INTEGER of 4 bytes
    "count": {"big": c.Int16ub, "little": c.Int16ul},
    "xid": {"big": c.Int16ub, "little": c.Int16ul},
    "flag": {"big": c.Int16ub, "little": c.Int16ul},
    "operation": {"big": c.Int16ub, "little": c.Int16ul},
}
"""The words of a header by name and byte order."""


@dataclass(frozen=True, slots=True)
class RecordForm:
    """The form of the records of a file: the words of headers, NULL areas, operation codes."""

    words: tuple[str, ...]
    """Words of the header of a data record, in their order."""
    extra: int
    """Difference between CNT and the number of items; 0 without CNT."""
    nulls: bool
    codes: frozenset[ExtractCode]
    """Legal operation codes."""

    @property
    def has_length(self) -> bool:
        """True if each record has its length."""
        return "length" in self.words

    @property
    def mark_words(self) -> tuple[str, ...]:
        """The words of a commit record."""
        return tuple(word for word in self.words if word != "xid")

    @property
    def size(self) -> int:
        """Bytes of the header of a data record."""
        return _size(self.words)

    @property
    def mark_size(self) -> int:
        """Bytes of a commit record; of a header if there is no such record."""
        return self.size - (2 if "xid" in self.words else 0)


@cache
def _size(words: tuple[str, ...]) -> int:
    return sum(_WORDS[word]["big"].sizeof() for word in words)


def form_of(options: LinkexpressOptions) -> RecordForm:
    """Determines the form of the records of a file from the settings."""
    codes = {ExtractCode.INSERT, ExtractCode.UPDATE, ExtractCode.DELETE}
    if options.extract == "all":
        codes = {ExtractCode.FULL_EXTRACT, ExtractCode.NO_ROWS}
    if options.unit == "group":
        flag = ("flag",) if options.nulls else ()
        words = ("length", "count", "xid", *flag, "operation")
        return RecordForm(words, 2, options.nulls, frozenset(codes | {ExtractCode.COMMIT}))
    if options.difftype == "JNL" and options.extract == "diff":
        words = ("length", "count", "flag", "operation")
        return RecordForm(words, 1, True, frozenset(codes))
    # a full extract of a JNL definition has the table's form, with NULL areas
    words = ("length", "operation") if options.tables[0].logtype == "LITTLE" else ("operation",)
    return RecordForm(words, 0, options.nulls, frozenset(codes))


@cache
def header(words: tuple[str, ...], order: ByteOrder) -> Any:
    """Declares a header."""
    return c.Struct(*(word / _WORDS[word][order] for word in words))


@cache  # construct leaves a cycle for each size that it computes
def numpy_type(declared: Any) -> np.dtype[Any]:
    """Returns the NumPy type of a declared number."""
    # struct and NumPy use the letter l differently, so derive the type from order, kind and size
    order, letter = declared.fmtstr
    kind = "f" if letter in "efd" else "i" if letter.islower() else "u"
    return np.dtype(f"{order}{kind}{declared.sizeof()}")


@cache
def word_type(word: str, order: ByteOrder) -> np.dtype[Any]:
    """Returns the NumPy type of a header word."""
    return numpy_type(_WORDS[word][order])


@cache
def word_offsets(words: tuple[str, ...]) -> Mapping[str, int]:
    """Returns the offset of each word of a header."""
    offsets, at = {}, 0
    for word in words:
        offsets[word] = at
        at += _WORDS[word]["big"].sizeof()
    return MappingProxyType(offsets)


@dataclass(frozen=True, slots=True)
class ItemLayout:
    """The layout of the items of one table in the records of one file."""

    order: ByteOrder
    logtype: LogType
    nulls: bool
    blob_head: int
    national_width: int
    national_in_bytes: bool
    numeric_sign: str
    interval_leading: int | None
    little_null: str

    def number(self, size: int, *, signed: bool = False) -> Any:
        """Declares an integer of ``size`` bytes in the file's byte order."""
        return c.BytesInteger(size, signed=signed, swapped=self.order == "little")

    def word(self, name: str) -> Any:
        """Declares a number that has a NumPy type, in the file's byte order."""
        return _NUMBERS[name][self.order]

    def area(self, item: Item) -> Any:
        """Declares an item's data, without its NULL area."""
        declare = _AREAS.get(item.type)
        return self._variable(item) if declare is None else declare(self, item)

    def _variable(self, item: Item) -> Any:
        """Declares CHARACTER VARYING, NATIONAL CHARACTER VARYING and BLOB: head, then data.

        In a NORMAL log the area has the defined length (documented), and bytes after the data mean nothing
        (inferred).  In a LITTLE log the area ends with the data (documented).
        """
        unit = self.unit(item)
        length = "length" / self.word("uint32" if item.type == "BLOB" else "uint16")
        reserved = [c.Padding(self.head(item) - length.sizeof())]  # of a BLOB: 00000000, then LEN
        area = c.Struct(*reserved, length, "data" / c.Bytes(lambda this: this.length * unit))
        if self.logtype == "LITTLE":
            return area
        return c.FixedSized(self.head(item) + self.capacity(item), area)

    def head(self, item: Item) -> int:
        """Returns the bytes before the data of an item of variable length: 2, of a BLOB 8 (related); of a
        BLOB in a LITTLE log, the setting ``blob_head`` (undocumented)."""
        if item.type != "BLOB":
            return 2
        return self.blob_head if self.logtype == "LITTLE" else 8

    def unit(self, item: Item) -> int:
        """Returns the bytes per unit of the length word of a variable item, which counts bytes, or for
        national items characters unless ``national_length`` is ``bytes``."""
        national = item.type == "NATIONAL CHARACTER VARYING" and not self.national_in_bytes
        return self.national_width if national else 1

    def capacity(self, item: Item) -> int:
        """Returns the bytes of the defined length of a variable item."""
        national = item.type == "NATIONAL CHARACTER VARYING"
        return item.length * (self.national_width if national else 1)

    def interval_sizes(self, item: Item) -> tuple[int, ...]:
        """Returns the bytes of each field: 1; of the leading field by its precision, unless a setting says
        otherwise (1-2: 1, 3-4: 2, 5-9: 4; inferred)."""
        by_precision = 1 if item.length <= 2 else 2 if item.length <= 4 else 4
        return (self.interval_leading or by_precision, *(1 for _ in item.fields[1:]))

    def is_variable(self, item: Item) -> bool:
        """Returns whether the area of an item is as long as its value."""
        return self.logtype == "LITTLE" and item.type in VARIABLE

    def width(self, item: Item) -> int:
        """Returns the bytes of the area of an item; of a variable item, the bytes of its head."""
        return _width(self, item)

    def greatest(self, item: Item) -> int:
        """Returns the maximum bytes of the area of an item."""
        return self.width(item) + (self.capacity(item) if self.is_variable(item) else 0)

    def least(self, item: Item) -> int:
        """Returns the minimum bytes of the area of an item."""
        absent = self.nulls and self.is_variable(item) and self.little_null == "absent"
        return 0 if absent else self.width(item)

    def item(self, item: Item) -> Any:
        """Declares an item: its NULL area, if the file has NULL areas, and its data."""
        area = self.area(item)
        if not self.nulls:
            return c.Struct("value" / area)
        if not self.is_variable(item):
            nothing = c.Bytes(self.width(item))  # never decoded: its content is undefined
        else:
            nothing = c.Bytes(0 if self.little_null == "absent" else self.width(item))
        return c.Struct(
            "null" / self.word("uint16"),
            "value" / c.IfThenElse(lambda this: this.null == NOT_NULL, area, nothing),
        )

    def items(self, items: Sequence[Item]) -> Any:
        """Declares all items of a record."""
        return c.Struct(*(f"item{number}" / self.item(item) for number, item in enumerate(items)))


@lru_cache(1 << 14)
def _width(layout: ItemLayout, item: Item) -> int:
    return layout.head(item) if layout.is_variable(item) else int(layout.area(item).sizeof())


def _date(layout: ItemLayout, _item: Item) -> Any:
    return c.Struct("year" / layout.word("uint16"), "month" / c.Int8ub, "day" / c.Int8ub)


def _time(_layout: ItemLayout, _item: Item) -> Any:
    return c.Struct("hour" / c.Int8ub, "minute" / c.Int8ub, "second" / c.Int8ub)


def _interval(layout: ItemLayout, item: Item) -> Any:
    fields = zip(item.fields, layout.interval_sizes(item), strict=True)
    return c.Struct("sign" / c.Bytes(1), *(name / layout.number(size) for name, size in fields))


_AREAS: dict[str, Callable[[ItemLayout, Item], Any]] = {
    # 2 and 4 bytes (related), two's complement (inferred)
    "SMALLINT": lambda layout, _: layout.word("int16"),
    "INTEGER": lambda layout, _: layout.word("int32"),
    # 4 and 8 bytes (related), IEEE (inferred)
    "REAL": lambda layout, _: layout.word("single"),
    "DOUBLE PRECISION": lambda layout, _: layout.word("double"),
    # a sign character and p digits (related), the sign first (inferred)
    "NUMERIC": lambda layout, item: c.Bytes(item.length + (layout.numeric_sign != "overpunched")),
    # packed, floor(p/2)+1 bytes (related)
    "DECIMAL": lambda _, item: c.Bytes(item.length // 2 + 1),
    # n bytes (related), padded with blanks (inferred)
    "CHARACTER": lambda _, item: c.Bytes(item.length),
    # 2 bytes for each character (related)
    "NATIONAL CHARACTER": lambda layout, item: c.Bytes(item.length * layout.national_width),
    # year in 2 bytes, month, day (related)
    "DATE": _date,
    # one byte for each of hour, minute and second (related)
    "TIME": _time,
    # DATE and TIME, no fraction (related)
    "TIMESTAMP": lambda layout, item: c.Struct(
        "date" / _date(layout, item), "time" / _time(layout, item)
    ),
    # a sign character, then each field in binary (related; widths except YEAR(4) TO MONTH inferred)
    "INTERVAL": _interval,
}
"""The areas of items of fixed width."""

_NUMBERS: dict[str, dict[str, Any]] = {
    "int16": {"big": c.Int16sb, "little": c.Int16sl},
    "int32": {"big": c.Int32sb, "little": c.Int32sl},
    "uint16": {"big": c.Int16ub, "little": c.Int16ul},
    "uint32": {"big": c.Int32ub, "little": c.Int32ul},
    "single": {"big": c.Float32b, "little": c.Float32l},
    "double": {"big": c.Float64b, "little": c.Float64l},
}


def item_layout(options: LinkexpressOptions, table: ExtractedTable, order: ByteOrder) -> ItemLayout:
    """Determines the layout of the items of a table from the settings."""
    return ItemLayout(
        order=order,
        logtype=table.logtype,
        nulls=form_of(options).nulls,
        blob_head=options.blob_head or 8,
        national_width=options.bytes_of_national,
        national_in_bytes=options.national_length == "bytes",
        numeric_sign=options.numeric_sign,
        interval_leading=options.interval_leading,
        little_null=options.little_null,
    )


def record(form: RecordForm, layout: ItemLayout, items: Sequence[Item]) -> Any:
    """Declares a data record: header and items."""
    return c.Struct("header" / header(form.words, layout.order), "items" / layout.items(items))


def mark(form: RecordForm, order: ByteOrder) -> Any:
    """Declares a commit record of a group."""
    return header(form.mark_words, order)
