"""Decodes row images to texts by column, in the text form of event logs, which documents use."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import Bytes, Mask, Offsets, areas_at, numbers_at
from publisher.formats.columns.byte_texts import decode_areas, decode_each, set_null
from publisher.formats.dispatch_queue.images.column_types import (
    NATIONAL,
    VARIABLE,
    WHOLE,
    ImageColumn,
)
from publisher.formats.dispatch_queue.images.layout import ImageLayout, number_type
from publisher.formats.dispatch_queue.images.numbers_and_dates import dates, decimals, floats
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, QueueTable


@dataclass(slots=True)
class DecodedImages:
    """Decoded images of one table: texts by column, and problems with advice."""

    texts: list[pa.Array]
    """Null if the column is NULL, omitted or invalid."""
    problems: dict[int, str] = field(default_factory=dict)
    """By image."""

    def add_problems(self, rows: Offsets, problem_of: Callable[[int], str]) -> None:
        """Records a problem of images that have none yet."""
        for row in rows.tolist():
            if row not in self.problems:
                self.problems[row] = problem_of(row)


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Reads the images of one table."""

    layout: ImageLayout
    options: DispatchQueueOptions
    """The options with the table's overrides."""
    table: QueueTable

    def read(self, data: Bytes, at: Offsets, lengths: Offsets) -> DecodedImages:
        """Reads the images at these offsets, all inside ``data``."""
        images = DecodedImages([])
        fits = self._check_lengths(data, at, lengths, images)
        places, ends = self._locate_values(data, at, lengths, fits, images)
        fitting = np.flatnonzero(fits)
        for number, column in enumerate(self.layout.columns):
            where = places[number][fitting]
            texts, wrong, null = self._column(data, at[fitting], ends[fitting], where, number)
            images.add_problems(fitting[wrong], partial(self._value_problem, data, places, number))
            texts = set_null(texts, null | wrong)
            if column.type == "BLOB":  # an image has a reference to it only
                texts = pa.nulls(len(fitting), pa.string())
            images.texts.append(
                texts if len(fitting) == len(at) else _spread(texts, fitting, len(at))
            )
        return images

    def _check_lengths(
        self, data: Bytes, at: Offsets, lengths: Offsets, images: DecodedImages
    ) -> Mask:
        layout, who = self.layout, f"table {self.table.number}"
        advice = "compare the columns with the source"
        if layout.record == "sequential":
            fits: Mask = (lengths <= layout.length) & (lengths >= layout.bitmap)
            need = f"take at most {layout.length}"
        else:
            fits = np.equal(lengths, layout.length) & (layout.length >= layout.needed)
            need = f"need {layout.needed}"
            advice += ", or set offsets if they are known"
            if layout.image_length is not None:
                need += f", image_length is {layout.image_length}"

        def length_problem(row: int) -> str:
            return f"the image has {lengths[row]} bytes, the columns of {who} {need}; {advice}"

        images.add_problems(np.flatnonzero(~fits), length_problem)
        if layout.filler:
            self._check_filler(data, at, fits, images)
        return fits

    def _check_filler(self, data: Bytes, at: Offsets, fits: Mask, images: DecodedImages) -> None:
        """Checks that the bytes after the columns, up to ``image_length``, are all zeros or all blanks."""
        start, count = self.layout.values_end, self.layout.filler
        fitting = np.flatnonzero(fits)
        areas = areas_at(data, at[fitting] + start, count)
        wrong = fitting[~((areas == 0).all(axis=1) | (areas == _BLANK).all(axis=1))]
        images.add_problems(
            wrong,
            lambda row: (
                f"image_length leaves {count} bytes after the columns, and they are not filler"
                f" (all 00 or all 20): {_hex(data, int(at[row]) + start, count)};"
                " remove image_length, and compare the columns with the source"
            ),
        )
        fits[wrong] = False

    def _locate_values(
        self, data: Bytes, at: Offsets, lengths: Offsets, fits: Mask, images: DecodedImages
    ) -> tuple[list[Offsets], Offsets]:
        """Returns the offsets of each column's values, and the ends of the images."""
        ends = at + lengths
        if self.layout.record == "fixed":
            return [at + place for place in self.layout.places], ends
        return self._walk_records(data, at, ends, fits, images), ends

    def _walk_records(
        self, data: Bytes, at: Offsets, ends: Offsets, fits: Mask, images: DecodedImages
    ) -> list[Offsets]:
        """Locates the values of sequential records, which must use all bytes."""
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
            self._check_end(here + size > limits, fits, images, column)
            if layout.varies(column):
                live = np.flatnonzero(fits)
                sizes = np.zeros(len(at), np.int64)
                sizes[live] = self._sizes(data, here[live], column)
                self._check_end(here + size + sizes > limits, fits, images, column)
                here = here + sizes
            here = here + size + after
        unused = np.flatnonzero((here != limits) & fits)
        images.add_problems(
            unused,
            lambda row: (
                f"the columns use {here[row] - at[row]} of {limits[row] - at[row]} bytes of the image;"
                f" compare the columns of table {self.table.number} with the source"
            ),
        )
        fits[unused] = False
        return places

    def _check_end(
        self, crosses: Mask, fits: Mask, images: DecodedImages, column: ImageColumn
    ) -> None:
        bad = np.flatnonzero(crosses & fits)
        images.add_problems(
            bad,
            lambda _: (
                f"column {column.text} crosses the end of the image; check the columns before it, null_mode,"
                " length_bytes and image_byte_order"
            ),
        )
        fits[bad] = False

    def _sizes(self, data: Bytes, at: Offsets, column: ImageColumn) -> Offsets:
        kind = number_type(self.layout.order, "u", self.layout.length_bytes)
        sizes = numbers_at(data, at, kind).astype(np.int64)
        return sizes * (2 if column.type in NATIONAL else 1)

    def _column(
        self, data: Bytes, at: Offsets, ends: Offsets, where: Offsets, number: int
    ) -> tuple[pa.Array, Mask, Mask]:
        """Returns texts of a column, and masks of invalid and of NULL values."""
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
        """Returns masks of NULL values and of invalid NULL flags."""
        layout, none = self.layout, np.zeros(len(at), bool)
        if layout.null_mode == "none":
            return none, none.copy()
        if layout.null_mode.startswith("bitmap"):
            byte, bit = layout.bit(number)
            start = at if layout.null_mode == "bitmap_prefix" else ends - layout.bitmap
            return (data[start + byte] & bit) != 0, none
        flags = self._flags(data, where, layout.columns[number])
        return flags == layout.null_flag, (flags != 0) & (flags != layout.null_flag)

    def _flags(self, data: Bytes, where: Offsets, column: ImageColumn) -> Bytes:
        """Returns the flag bytes next to the values of a column."""
        layout = self.layout
        if layout.null_mode == "byte_before":
            at = where - 1
        elif layout.varies(column):
            at = where + layout.length_bytes + self._sizes(data, where, column)
        else:
            at = where + layout.width(column)
        flags: Bytes = data[at]
        return flags

    def _texts(self, data: Bytes, where: Offsets, column: ImageColumn) -> tuple[pa.Array, Mask]:
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

    def _of_areas(self, areas: Bytes, column: ImageColumn) -> tuple[pa.Array, Mask]:
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
        return _base64(area.tobytes() for area in areas), _none(areas)

    def _codec(self, column: ImageColumn) -> str:
        if column.type in NATIONAL:
            return "utf-16-be" if self.options.nchar_order == "big" else "utf-16-le"
        named = (self.table.charsets or {}).get(column.name) or self.options.image_charset
        return named or "ascii"

    def _characters(self, areas: Bytes, column: ImageColumn) -> tuple[pa.Array, Mask]:
        codec = self._codec(column)
        texts, wrong = decode_areas(areas, codec)
        if self.options.trim_padding:
            texts = pc.utf8_rtrim(texts, characters=" ")
        return texts, wrong

    def _varying(self, data: Bytes, where: Offsets, column: ImageColumn) -> tuple[pa.Array, Mask]:
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
            texts, bad = decode_areas(areas_at(data, starts, column.capacity), codec, sizes)
            return texts, wrong | bad
        ends, view = (starts + sizes).tolist(), memoryview(data.data)
        values = (bytes(view[a:b]) for a, b in zip(starts.tolist(), ends, strict=True))
        if column.type == "VARBYTE":
            return _base64(values), wrong
        texts, bad = decode_each(values, codec)
        return texts, wrong | bad

    def _booleans(self, areas: Bytes) -> tuple[pa.Array, Mask]:
        """Decodes booleans in the settings' coding, padded with blanks or zeros."""
        masks = []
        for value in (self.options.boolean_true, self.options.boolean_false):
            coding = np.frombuffer(bytes.fromhex(value or ""), np.uint8)[: areas.shape[1]]
            padding = areas[:, len(coding) :]
            masks.append(
                (areas[:, : len(coding)] == coding).all(axis=1)
                & ((padding == 0) | (padding == _BLANK)).all(axis=1)
            )
        true, false = masks
        texts = pc.if_else(pa.array(true), pa.scalar("true"), pa.scalar("false"))
        return texts, ~(true ^ false)

    def _value_problem(self, data: Bytes, places: list[Offsets], number: int, row: int) -> str:
        column, layout = self.layout.columns[number], self.layout
        if layout.flag:
            flag = int(self._flags(data, places[number][row : row + 1], column)[0])
            if flag not in (0, layout.null_flag):
                return (
                    f"column {column.text}: its NULL byte is {flag:02X}, neither 00 nor null_flag"
                    f" ({layout.null_flag:02X}); check null_mode, null_flag and the columns before it"
                )
        area = _hex(data, int(places[number][row]), layout.width(column))
        return (
            f"column {column.text}: {area} is not a valid value; check"
            f" {_ADVICE.get(column.type, 'image_charset')}, null_mode and the columns before it"
        )


_BLANK = 0x20
_ADVICE = {
    "DECIMAL": "decimal_coding",
    "DATE": "date_coding, decimal_coding and ticks_per_second",
    "REAL": "image_byte_order",
    "DOUBLE": "image_byte_order",
    "BOOLEAN": "boolean_true and boolean_false",
    "NCHAR": "nchar_order",
    "NVARCHAR": "nchar_order and length_bytes",
    "VARCHAR": "image_charset and length_bytes",
    "VARBYTE": "length_bytes",
}
"""Settings that the decoding of a type depends on; other types may hold any bytes."""


def _hex(data: Bytes, start: int, count: int) -> str:
    text = data[start : start + min(count, 32)].tobytes().hex(" ").upper()
    return text if count <= 32 else f"{text} ..."


def _base64(values: Iterator[bytes]) -> pa.Array:
    return pa.array([base64.b64encode(value).decode("ascii") for value in values], pa.string())


def _none(like: npt.NDArray[Any]) -> Mask:
    return np.zeros(len(like), bool)


def _spread(texts: pa.Array, places: Offsets, count: int) -> pa.Array:
    """Spreads the texts of some rows over all rows; other rows are null."""
    where = np.full(count, -1, np.int64)
    where[places] = np.arange(len(places))
    return texts.take(pa.array(where, mask=where < 0))
