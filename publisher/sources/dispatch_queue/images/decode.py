"""Row images to text, by the column: the text form that event logs have, which documents are made of.

Types, sizes and codings by the reference, section 2.2.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.sources.columns.byte_areas import Bytes, Mask, Offsets, areas_at, numbers_at
from publisher.sources.columns.byte_texts import decode_areas, decode_each, set_null
from publisher.sources.dispatch_queue.images.advise_settings import SAMPLE, Fits, Score
from publisher.sources.dispatch_queue.images.column_types import (
    NATIONAL,
    TEXT,
    VARIABLE,
    WHOLE,
    Column,
)
from publisher.sources.dispatch_queue.images.layout import ImageLayout, number_type
from publisher.sources.dispatch_queue.images.numbers_and_dates import dates, decimals, floats
from publisher.sources.dispatch_queue.options import Options, QueueTable


class Problem(NamedTuple):
    """What is wrong with an image, and what to do."""

    what: str
    advice: str


@dataclass(slots=True)
class Images:
    """Decoded images of one table: a column of texts for each column, and what is wrong."""

    texts: list[pa.Array]
    """Null where the column is NULL, omitted or wrong."""
    problems: dict[int, Problem] = field(default_factory=dict)
    """By image."""

    @property
    def faults(self) -> dict[int, str]:
        """What is wrong with an image, ending with what to do."""
        return {row: f"{problem.what}; {problem.advice}" for row, problem in self.problems.items()}

    def note(self, rows: Offsets, say: Callable[[int], Problem]) -> None:
        """Notes the first problem of each row."""
        for row in rows.tolist():
            if row not in self.problems:
                self.problems[row] = say(row)


@dataclass(frozen=True, slots=True)
class ImageReader:
    """Reads the images of one table."""

    layout: ImageLayout
    options: Options
    """With what the table's own settings override."""
    table: QueueTable
    fits: Fits = field(default_factory=Fits, compare=False)

    def read(self, data: Bytes, at: Offsets, lengths: Offsets) -> Images:
        """The images that begin at ``at``, of these lengths; all lie inside ``data``.

        Of those that are wrong it is said which other settings they would fit."""
        found = self.plainly(data, at, lengths)
        by_length: dict[int, list[int]] = {}
        for row in found.problems:
            by_length.setdefault(int(lengths[row]), []).append(row)
        for length, rows in by_length.items():
            advice = self._advice(data, at, length, rows)
            if advice is not None:
                for row in rows:
                    found.problems[row] = Problem(found.problems[row].what, advice)
        return found

    def _advice(self, data: Bytes, at: Offsets, length: int, rows: list[int]) -> str | None:
        """Which other settings images of one length would fit."""
        chosen = rows[:: -(-len(rows) // SAMPLE)]
        images = b"".join(data[at[row] : at[row] + length].tobytes() for row in chosen)
        few = np.frombuffer(images, np.uint8)
        lengths = np.full(len(chosen), length, np.int64)
        starts = np.cumsum(lengths) - lengths

        def score(layout: ImageLayout) -> Score:
            found = replace(self, layout=layout).plainly(few, starts, lengths)
            control = sum(
                pc.sum(pc.match_substring_regex(texts, "[\\x00-\\x1F]")).as_py() or 0
                for texts, column in zip(found.texts, layout.columns, strict=True)
                if column.type in TEXT | NATIONAL
            )
            return Score(len(chosen) - len(found.problems), -control)

        return self.fits.advice(length, len(chosen), self.layout, self.options, score)

    def plainly(self, data: Bytes, at: Offsets, lengths: Offsets) -> Images:
        """As ``read``, without a look at other settings."""
        found = Images([])
        fits = self._fitting(data, at, lengths, found)
        places, ends = self._placed(data, at, lengths, fits, found)
        good = np.flatnonzero(fits)
        for number, column in enumerate(self.layout.columns):
            where = places[number][good]
            texts, wrong, null = self._column(data, at[good], ends[good], where, number)
            found.note(good[wrong], partial(self._wrong, data, places, number))
            texts = set_null(texts, null | wrong)
            if column.type == "BLOB" and self.options.blob_columns == "omit":
                texts = pa.nulls(len(good), pa.string())
            found.texts.append(texts if len(good) == len(at) else _spread(texts, good, len(at)))
        return found

    def _fitting(self, data: Bytes, at: Offsets, lengths: Offsets, found: Images) -> Mask:
        layout, who = self.layout, f"table {self.table.number}"
        advice = "compare the columns with the source"
        if layout.record == "sequential":
            fits: Mask = (lengths <= layout.length) & (lengths >= layout.bitmap)
            need = f"take {layout.length} at most"
        else:
            fits = np.equal(lengths, layout.length) & (layout.length >= layout.needed)
            need = f"need {layout.needed}"
            advice += ", or set offsets where they are known"
            if layout.image_length is not None:
                need += f", image_length is {layout.image_length}"

        def say(row: int) -> Problem:
            has = f"the image has {lengths[row]} bytes"
            return Problem(f"{has}, the columns of {who} {need}", advice)

        found.note(np.flatnonzero(~fits), say)
        if layout.filler:
            self._check_filler(data, at, fits, found)
        return fits

    def _check_filler(self, data: Bytes, at: Offsets, fits: Mask, found: Images) -> None:
        """What ``image_length`` has beyond the columns must be nothing but zeros or blanks."""
        start, count = self.layout.values_end, self.layout.filler
        good = np.flatnonzero(fits)
        areas = areas_at(data, at[good] + start, count)
        wrong = good[~((areas == 0).all(axis=1) | (areas == _BLANK).all(axis=1))]
        found.note(
            wrong,
            lambda row: Problem(
                f"image_length leaves {count} bytes behind the columns, and they are no filler"
                f" (all 00 or all 20): {_hex(data, int(at[row]) + start, count)}",
                "leave image_length out, and compare the columns with the source",
            ),
        )
        fits[wrong] = False

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
            lambda row: Problem(
                f"the columns use {here[row] - at[row]} of {limits[row] - at[row]} bytes of the image",
                f"compare the columns of table {self.table.number} with the source",
            ),
        )
        fits[left] = False
        return places

    def _cross(self, wrong: Mask, fits: Mask, found: Images, column: Column) -> None:
        bad = np.flatnonzero(wrong & fits)
        found.note(
            bad,
            lambda _: Problem(
                f"column {column.text} crosses the end of the image",
                "look at the columns before it, at null_mode, length_bytes and image_byte_order",
            ),
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
        flags = self._flags(data, where, layout.columns[number])
        return flags == layout.null_flag, (flags != 0) & (flags != layout.null_flag)

    def _flags(self, data: Bytes, where: Offsets, column: Column) -> Bytes:
        """The bytes beside values that may mark NULL."""
        layout = self.layout
        if layout.null_mode == "byte_before":
            at = where - 1
        elif layout.varies(column):
            at = where + layout.length_bytes + self._sizes(data, where, column)
        else:
            at = where + layout.width(column)
        flags: Bytes = data[at]
        return flags

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
        texts, wrong = decode_areas(areas, codec)
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
            texts, bad = decode_areas(areas_at(data, starts, column.capacity), codec, sizes)
            return texts, wrong | bad
        ends, view = (starts + sizes).tolist(), memoryview(data.data)
        values = (bytes(view[a:b]) for a, b in zip(starts.tolist(), ends, strict=True))
        if column.type == "VARBYTE":
            return _base64(values), wrong
        texts, bad = decode_each(values, codec)
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

    def _wrong(self, data: Bytes, places: list[Offsets], number: int, row: int) -> Problem:
        column, layout = self.layout.columns[number], self.layout
        if layout.flag:
            flag = int(self._flags(data, places[number][row : row + 1], column)[0])
            if flag not in (0, layout.null_flag):
                return Problem(
                    f"column {column.text}: its NULL byte is {flag:02X}, neither 00 nor null_flag"
                    f" ({layout.null_flag:02X})",
                    "look at null_mode and null_flag, and at the columns before it",
                )
        area = _hex(data, int(places[number][row]), layout.width(column))
        return Problem(
            f"column {column.text}: {area} is no such value",
            f"look at {_ADVICE.get(column.type, 'image_charset')}, at null_mode, and at the columns"
            " before it",
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
"""Settings that values depend on; the types that are left hold any bytes."""


def _hex(data: Bytes, start: int, count: int) -> str:
    shown = data[start : start + min(count, 32)].tobytes().hex(" ").upper()
    return shown if count <= 32 else f"{shown} ..."


def _base64(values: Iterator[bytes]) -> pa.Array:
    return pa.array([base64.b64encode(value).decode("ascii") for value in values], pa.string())


def _none(like: npt.NDArray[Any]) -> Mask:
    return np.zeros(len(like), bool)


def _spread(texts: pa.Array, places: Offsets, count: int) -> pa.Array:
    """The texts of some rows among all; null in the others."""
    where = np.full(count, -1, np.int64)
    where[places] = np.arange(len(places))
    return texts.take(pa.array(where, mask=where < 0))
