"""Declaration of the row image in DATA.  No page documents its layout, so the settings determine it.

In a fixed record, every column has a fixed offset and its declared maximum width, without alignment, as the
vendor documents for unpacked records and binary fetches; for images this is inferred.
In a sequential record, a value of variable length takes only the bytes that it needs.  The declaration parses
and builds single images; the bulk reader takes widths and offsets from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import construct as c
import numpy as np

from publisher.formats.dispatch_queue.images.column_types import (
    NATIONAL,
    VARIABLE,
    WHOLE,
    ImageColumn,
)
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, NullMode, QueueTable
from publisher.formats.dispatch_queue.rows.layout import ByteOrder

_INTEGERS = {
    ("little", 2): c.Int16sl,
    ("little", 4): c.Int32sl,
    ("little", 8): c.Int64sl,
    ("big", 2): c.Int16sb,
    ("big", 4): c.Int32sb,
    ("big", 8): c.Int64sb,
}
_FLOATS = {
    ("little", 4): c.Float32l,
    ("little", 8): c.Float64l,
    ("big", 4): c.Float32b,
    ("big", 8): c.Float64b,
}
_LENGTHS = {
    ("little", 1): c.Int8ub,
    ("little", 2): c.Int16ul,
    ("little", 4): c.Int32ul,
    ("big", 1): c.Int8ub,
    ("big", 2): c.Int16ub,
    ("big", 4): c.Int32ub,
}


@dataclass(frozen=True)
class ImageLayout:
    """Layout of the row images of one table."""

    columns: tuple[ImageColumn, ...]
    order: ByteOrder
    record: Literal["fixed", "sequential"]
    null_mode: NullMode
    null_flag: int
    null_bits: Literal["lsb", "msb"]
    length_bytes: int
    offsets: tuple[int, ...] = ()
    """Offset of each value, if set."""
    image_length: int | None = None

    def area(self, column: ImageColumn) -> Any:
        """Declares a column's value."""
        width = column.capacity
        if column.type in WHOLE:
            return _INTEGERS[self.order, width]
        if column.type in ("REAL", "DOUBLE"):
            return _FLOATS[self.order, width]
        if column.type not in VARIABLE:
            return c.Bytes(width)
        length = "length" / _LENGTHS[self.order, self.length_bytes]
        unit = 2 if column.type in NATIONAL else 1
        value = c.Struct(length, "data" / c.Bytes(lambda this: this.length * unit))
        if self.record == "sequential":
            return value
        return c.FixedSized(self.length_bytes + width, value)

    def width(self, column: ImageColumn) -> int:
        """Returns the bytes of a column's value in a fixed record."""
        return column.capacity + (self.length_bytes if column.type in VARIABLE else 0)

    def varies(self, column: ImageColumn) -> bool:
        """Tests whether the values of a column differ in length."""
        return self.record == "sequential" and column.type in VARIABLE

    @property
    def bitmap(self) -> int:
        """Bytes of the NULL bitmap."""
        return -(-len(self.columns) // 8) if self.null_mode.startswith("bitmap") else 0

    @property
    def flag(self) -> int:
        """Bytes of the NULL flag beside each value."""
        return 1 if self.null_mode.startswith("byte") else 0

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Offset of each value in a fixed record."""
        if self.offsets:
            return self.offsets
        at = self.bitmap if self.null_mode == "bitmap_prefix" else 0
        places = []
        for column in self.columns:
            at += self.flag if self.null_mode == "byte_before" else 0
            places.append(at)
            at += self.width(column) + (self.flag if self.null_mode == "byte_after" else 0)
        return tuple(places)

    @cached_property
    def length(self) -> int:
        """Bytes of a fixed record; maximum bytes of a sequential one."""
        return self.needed if self.image_length is None else self.image_length

    @cached_property
    def needed(self) -> int:
        """Bytes of the columns of a fixed record, including NULL marks."""
        return self.values_end + (self.bitmap if self.null_mode == "bitmap_suffix" else 0)

    @cached_property
    def values_end(self) -> int:
        """End of the last value of a fixed record and of its flag."""
        after = self.flag if self.null_mode == "byte_after" else 0
        ends = [p + self.width(column) for p, column in zip(self.places, self.columns, strict=True)]
        return max(ends) + after

    @property
    def filler(self) -> int:
        """Bytes after the columns that must be filler; none if ``offsets`` are set."""
        if self.record == "sequential" or self.offsets:
            return 0
        return max(0, self.length - self.needed)

    def bit(self, number: int) -> tuple[int, int]:
        """Returns the byte of a column in the bitmap, and the mask of its bit."""
        byte, place = divmod(number, 8)
        return byte, 1 << (place if self.null_bits == "lsb" else 7 - place)

    @property
    def declaration(self) -> Any:
        """Declares a record whose columns follow each other, with flags or bitmap."""
        parts: list[Any] = []
        if self.null_mode == "bitmap_prefix":
            parts.append("nulls" / c.Bytes(self.bitmap))
        for number, column in enumerate(self.columns):
            if self.null_mode == "byte_before":
                parts.append(f"null{number}" / c.Int8ub)
            parts.append(f"value{number}" / self.area(column))
            if self.null_mode == "byte_after":
                parts.append(f"null{number}" / c.Int8ub)
        if self.null_mode == "bitmap_suffix":
            parts.append("nulls" / c.Bytes(self.bitmap))
        return c.Struct(*parts)


@cache
def number_type(order: ByteOrder, kind: str, size: int) -> np.dtype[Any]:
    """Returns the NumPy type of a number in an image; ``kind`` is i, u or f."""
    declared = {"i": _INTEGERS, "u": _LENGTHS, "f": _FLOATS}[kind][order, size]
    return np.dtype(f"{'<' if order == 'little' else '>'}{kind}{declared.sizeof()}")


def image_layout(options: DispatchQueueOptions, table: QueueTable) -> ImageLayout:
    """Determines the layout of a table's images from the settings; the table must have columns."""
    merged = options.of_table(table)
    assert merged.null_mode is not None  # the options require it
    return ImageLayout(
        columns=table.parse_columns(),
        order=merged.image_byte_order,
        record=merged.record,
        null_mode=merged.null_mode,
        null_flag=merged.null_flag or 0,
        null_bits=merged.null_bits or "lsb",
        length_bytes=merged.length_bytes,
        offsets=table.offsets,
        image_length=table.image_length,
    )
