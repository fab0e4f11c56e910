"""Row images to text, by the column: the text form that event logs have, which documents are made of.

Types, sizes and codings by the reference, section 2.2.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.sources.area_texts import blanked, decoded, decoded_areas
from publisher.sources.areas import Bytes, Mask, Offsets, areas_at, numbers_at
from publisher.sources.dispatch_queue.image import ImageLayout, number_type
from publisher.sources.dispatch_queue.options import Options, QueueTable
from publisher.sources.dispatch_queue.types import NATIONAL, VARIABLE, WHOLE, Column
from publisher.sources.dispatch_queue.values import dates, decimals, floats


@dataclass(slots=True)
class Images:
    """Decoded images of one table: a column of texts for each column, and what is wrong."""

    texts: list[pa.Array]
    """Null where the column is NULL, omitted or wrong."""
    faults: dict[int, str] = field(default_factory=dict)
    """What is wrong with an image, ending with what to do."""

    def note(self, rows: Offsets, say: Any) -> None:
        """Notes the first fault of each row."""
        for row in rows.tolist():
            if row not in self.faults:
                self.faults[row] = say(row) if callable(say) else say


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Reads the images of one table."""

    layout: ImageLayout
    options: Options
    """With what the table's own settings override."""
    table: QueueTable

    def read(self, data: Bytes, at: Offsets, lengths: Offsets) -> Images:
        """The images that begin at ``at``, of these lengths; all lie inside ``data``."""
        found = Images([])
        fits = self._fitting(lengths, found)
        places, ends = self._placed(data, at, lengths, fits, found)
        good = np.flatnonzero(fits)
        for number, column in enumerate(self.layout.columns):
            where = places[number][good]
            texts, wrong, null = self._column(data, at[good], ends[good], where, number)
            found.note(good[wrong], lambda row, n=number: self._wrong(data, places, row, n))
            texts = blanked(texts, null | wrong)
            if column.type == "BLOB" and self.options.blob_columns == "omit":
                texts = pa.nulls(len(good), pa.string())
            found.texts.append(texts if len(good) == len(at) else _spread(texts, good, len(at)))
        return found

    def _fitting(self, lengths: Offsets, found: Images) -> Mask:
        layout = self.layout
        if layout.record == "sequential":
            fits: Mask = (lengths <= layout.length) & (lengths >= layout.bitmap)
            found.note(
                np.flatnonzero(~fits),
                lambda row: (
                    f"the image has {lengths[row]} bytes, and the columns take {layout.length}"
                    f" at most; compare the columns of table {self.table.number} with the source"
                ),
            )
            return fits
        fits = np.equal(lengths, layout.length)
        found.note(np.flatnonzero(~fits), lambda row: self._length_differs(int(lengths[row])))
        return fits

    def _length_differs(self, length: int) -> str:
        """What the difference would be explained by (reference, section 2.3)."""
        layout, who = self.layout, f"table {self.table.number}"
        count = len(layout.columns)
        variable = sum(column.type in VARIABLE for column in layout.columns)
        bare = sum(layout.width(column) for column in layout.columns)
        explained = {
            bare: 'null_mode = "none"',
            bare + count: 'null_mode = "byte_before" or "byte_after"',
            bare + -(-count // 8): 'null_mode = "bitmap_prefix" or "bitmap_suffix"',
            bare - layout.length_bytes * variable: "length_counted = true, or no length_bytes",
        }
        explained.pop(layout.length, None)
        said = explained.get(length)
        advice = (
            f"it would fit {said}"
            if said
            else "compare the columns with the source, or set offsets, image_length or record"
        )
        return f"the image has {length} bytes, the columns of {who} need {layout.length}; {advice}"

    def _placed(
        self, data: Bytes, at: Offsets, lengths: Offsets, fits: Mask, found: Images
    ) -> tuple[list[Offsets], Offsets]:
        """Where each column's value begins, and where each image ends."""
        ends = at + lengths
        if self.layout.record == "fixed":
            return [at + place for place in self.layout.places], ends
        return self._walked(data, at, ends, fits, found), ends

    def _walked(
        self, data: Bytes, at: Offsets, ends: Offsets, fits: Mask, found: Images
    ) -> list[Offsets]:
        """The places in sequential records, which must be used up."""
        layout = self.layout
        limits = ends - (layout.bitmap if layout.null_mode == "bitmap_suffix" else 0)
        here = at + (layout.bitmap if layout.null_mode == "bitmap_prefix" else 0)
        before = layout.flag if layout.null_mode == "byte_before" else 0
        after = layout.flag if layout.null_mode == "byte_after" else 0
        places = []
        for column in layout.columns:
            here = here + before
            places.append(here)
            size = layout.length_bytes if layout.varies(column) else layout.width(column)
            self._cross(here + size > limits, fits, found, column)
            if layout.varies(column):
                live = np.flatnonzero(fits)
                sizes = np.zeros(len(at), np.int64)
                sizes[live] = self._sizes(data, here[live], column)
                self._cross(here + size + sizes > limits, fits, found, column)
                here = here + sizes
            here = here + size + after
        left = np.flatnonzero((here != limits) & fits)
        found.note(
            left,
            lambda row: (
                f"the columns use {here[row] - at[row]} of {limits[row] - at[row]} bytes of the"
                f" image; compare the columns of table {self.table.number} with the source"
            ),
        )
        fits[left] = False
        return places

    def _cross(self, wrong: Mask, fits: Mask, found: Images, column: Column) -> None:
        bad = np.flatnonzero(wrong & fits)
        found.note(
            bad,
            f"column {column.text} crosses the end of the image; look at the columns before it, at"
            " length_bytes and image_byte_order",
        )
        fits[bad] = False

    def _sizes(self, data: Bytes, at: Offsets, column: Column) -> Offsets:
        kind = number_type(self.layout.order, "u", self.layout.length_bytes)
        sizes = numbers_at(data, at, kind).astype(np.int64)
        return sizes * (2 if column.type in NATIONAL else 1)

    def _column(
        self, data: Bytes, at: Offsets, ends: Offsets, where: Offsets, number: int
    ) -> tuple[pa.Array, Mask, Mask]:
        """Texts, which are wrong, which are NULL."""
        column = self.layout.columns[number]
        null, wrong = self._nulls(data, at, ends, where, number)
        live = ~null & ~wrong
        if live.all():
            texts, bad = self._texts(data, where, column)
            return texts, bad, null
        chosen = np.flatnonzero(live)
        texts, bad = self._texts(data, where[chosen], column)
        wrong[chosen] |= bad
        return _spread(texts, chosen, len(at)), wrong, null

    def _nulls(
        self, data: Bytes, at: Offsets, ends: Offsets, where: Offsets, number: int
    ) -> tuple[Mask, Mask]:
        """Which are NULL, and where the mark is none."""
        layout, none = self.layout, np.zeros(len(at), bool)
        if layout.null_mode == "none":
            return none, none.copy()
        if layout.null_mode.startswith("bitmap"):
            byte, bit = layout.bit(number)
            start = at if layout.null_mode == "bitmap_prefix" else ends - layout.bitmap
            return (data[start + byte] & bit) != 0, none
        column = layout.columns[number]
        if layout.null_mode == "byte_before":
            flags = data[where - 1]
        else:
            width = layout.width(column)
            if layout.varies(column):
                flags = data[where + layout.length_bytes + self._sizes(data, where, column)]
            else:
                flags = data[where + width]
        return flags == layout.null_flag, (flags != 0) & (flags != layout.null_flag)

    def _texts(self, data: Bytes, where: Offsets, column: Column) -> tuple[pa.Array, Mask]:
        if column.type in WHOLE:
            kind = number_type(self.layout.order, "i", column.capacity)
            values = numbers_at(data, where, kind).astype(np.int64)
            return pa.array(values).cast(pa.string()), _none(where)
        if column.type in ("REAL", "DOUBLE"):
            kind = number_type(self.layout.order, "f", column.capacity)
            return floats(numbers_at(data, where, kind))
        if column.type in VARIABLE:
            return self._varying(data, where, column)
        return self._of_areas(areas_at(data, where, column.capacity), column)

    def _of_areas(self, areas: Bytes, column: Column) -> tuple[pa.Array, Mask]:
        coding = self.options.decimal_coding
        match column.type:
            case "DECIMAL":
                return decimals(areas, coding, column.scale)
            case "DATE":
                raw = self.options.date_coding == "raw"
                return dates(areas, coding, None if raw else self.options.ticks_per_second)
            case "BOOLEAN":
                return self._booleans(areas)
            case "CHAR" | "NCHAR":
                return self._characters(areas, column)
        return self._bytes(areas, column)

    def _codec(self, column: Column) -> str:
        if column.type in NATIONAL:
            return "utf-16-be" if self.options.nchar_order == "big" else "utf-16-le"
        named = (self.table.charsets or {}).get(column.name) or self.options.image_charset
        return named or "ascii"

    def _characters(self, areas: Bytes, column: Column) -> tuple[pa.Array, Mask]:
        codec = self._codec(column)
        texts, wrong = decoded_areas(areas, codec)
        if self.options.trim_padding:
            texts = pc.utf8_rtrim(texts, characters=" ")
        return texts, wrong

    def _bytes(self, areas: Bytes, column: Column) -> tuple[pa.Array, Mask]:
        trim = self.options.trim_bytes and column.type == "BYTE"
        values = (area.tobytes() for area in areas)
        return _base64(value.rstrip(b"\0") if trim else value for value in values), _none(areas)

    def _varying(self, data: Bytes, where: Offsets, column: Column) -> tuple[pa.Array, Mask]:
        sizes = self._sizes(data, where, column)
        wrong = sizes > column.capacity
        sizes = np.where(wrong, 0, sizes)
        starts = where + self.layout.length_bytes
        codec = self._codec(column)
        is_short = column.capacity <= 256 and bool(len(where))
        if (
            is_short
            and column.type != "VARBYTE"
            and int(starts.max()) + column.capacity <= len(data)
        ):
            texts, bad = decoded_areas(areas_at(data, starts, column.capacity), codec, sizes)
            return texts, wrong | bad
        ends, view = (starts + sizes).tolist(), memoryview(data.data)
        values = (bytes(view[a:b]) for a, b in zip(starts.tolist(), ends, strict=True))
        if column.type == "VARBYTE":
            return _base64(values), wrong
        texts, bad = decoded(values, codec)
        return texts, wrong | bad

    def _booleans(self, areas: Bytes) -> tuple[pa.Array, Mask]:
        """True and false as the settings write them; what is behind is blanks or zeros."""
        found = []
        for value in (self.options.boolean_true, self.options.boolean_false):
            wanted = np.frombuffer(bytes.fromhex(value or ""), np.uint8)[: areas.shape[1]]
            rest = areas[:, len(wanted) :]
            found.append(
                (areas[:, : len(wanted)] == wanted).all(axis=1)
                & ((rest == 0) | (rest == 0x20)).all(axis=1)
            )
        true, false = found
        texts = pc.if_else(pa.array(true), pa.scalar("true"), pa.scalar("false"))
        return texts, ~(true ^ false)

    def _wrong(self, data: Bytes, places: list[Offsets], row: int, number: int) -> str:
        column = self.layout.columns[number]
        start = int(places[number][row])
        area = data[start : start + min(self.layout.width(column), 32)].tobytes()
        return (
            f"column {column.text}: {area.hex(' ').upper()} is no such value;"
            f" {_ADVICE.get(column.type, 'look at image_charset')}, and at the columns before it"
        )


_ADVICE = {
    "DECIMAL": "look at decimal_coding",
    "DATE": "look at date_coding, decimal_coding and ticks_per_second",
    "REAL": "look at image_byte_order",
    "DOUBLE": "look at image_byte_order",
    "BOOLEAN": "look at boolean_true and boolean_false",
    "SMALLINT": "look at null_mode and null_flag",
    "INTEGER": "look at null_mode and null_flag",
    "BIGINT": "look at null_mode and null_flag",
    "BYTE": "look at null_mode and null_flag",
    "BLOB": "look at null_mode and null_flag",
    "NCHAR": "look at nchar_order",
    "NVARCHAR": "look at nchar_order and length_bytes",
    "VARCHAR": "look at image_charset and length_bytes",
    "VARBYTE": "look at length_bytes",
}


def _base64(values: Iterator[bytes]) -> pa.Array:
    return pa.array([base64.b64encode(value).decode("ascii") for value in values], pa.string())


def _none(like: npt.NDArray[Any]) -> Mask:
    return np.zeros(len(like), bool)


def _spread(texts: pa.Array, places: Offsets, count: int) -> pa.Array:
    """The texts of some rows among all; null in the others."""
    where = np.full(count, -1, np.int64)
    where[places] = np.arange(len(places))
    return texts.take(pa.array(where, mask=where < 0))
