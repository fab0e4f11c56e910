"""Converts items to text, by the column, in the form that documents use."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import Bytes, Mask, Offsets, areas_at, numbers_at
from publisher.formats.columns.byte_texts import (
    TextColumn,
    decode_areas,
    decode_each,
    extends_ascii,
    set_null,
    strings,
)
from publisher.formats.linkexpress.item_offsets import ItemCells
from publisher.formats.linkexpress.layout import ItemLayout, numpy_type
from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.formats.linkexpress.types import NATIONAL, VARIABLE, Item

_ZERO, _MINUS, _PLUS, _POINT, _BLANK = b"0-+. "
_NEGATIVE = (0xB, 0xD)
_DAYS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_RANGES = {"MONTH": 12, "HOUR": 24, "MINUTE": 60, "SECOND": 60}
"""Exclusive upper bounds of the fields of an interval after its first."""
_NUMBERS = {
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "REAL": "single",
    "DOUBLE PRECISION": "double",
}
_MAX_SHORT = 256
"""Bytes up to which the areas of a variable item are decoded together."""


@dataclass(frozen=True, slots=True)
class ItemReader:
    """Reads the items of one table in one file."""

    layout: ItemLayout
    options: LinkexpressOptions

    def column(self, data: Bytes, cells: ItemCells, number: int, item: Item) -> TextColumn:
        """Reads one item of the records of ``cells``; it must fit into all of them."""
        at = cells.starts[number]
        null = np.zeros(len(at), bool)
        wrong = np.zeros(len(at), bool)
        if cells.flags:
            flags = cells.flags[number]
            null = flags != 0
            if self.options.null_flags == "strict":
                wrong = null & (flags != 0xFFFF)
        present = ~null
        if present.all():
            texts, bad = self._texts(data, at, item)
            return TextColumn(set_null(texts, bad), bad)
        chosen = np.flatnonzero(present)
        texts, bad = self._texts(data, at[chosen], item)
        wrong[chosen] = bad
        places = np.full(len(at), -1, np.int64)
        places[chosen] = np.arange(len(chosen))
        places[wrong] = -1
        return TextColumn(texts.take(pa.array(places, mask=places < 0)), wrong)

    def _texts(self, data: Bytes, at: Offsets, item: Item) -> TextColumn:
        if item.type in _NUMBERS:
            values = numbers_at(data, at, numpy_type(self.layout.word(_NUMBERS[item.type])))
            return _floats(values) if values.dtype.kind == "f" else _integers(values)
        if item.type in VARIABLE:
            return self._variable(data, at, item)
        areas = areas_at(data, at, self.layout.width(item))
        match item.type:
            case "DECIMAL":
                return read_packed_decimals(areas, item.length, item.scale)
            case "NUMERIC":
                return read_zoned_decimals(areas, item.scale, self.options.numeric_sign)
            case "CHARACTER" | "NATIONAL CHARACTER":
                return self._characters(areas, item)
        return self._interval(areas, item) if item.fields else self._moment(areas, item)

    def _characters(self, areas: Bytes, item: Item) -> TextColumn:
        codec = self.options.national_codec if item.type in NATIONAL else self.options.codec
        plain = extends_ascii(codec) and not bool((areas > 0x7F).any())
        if plain:
            texts, wrong = strings(areas), np.zeros(len(areas), bool)
        else:
            texts, wrong = decode_areas(areas, codec)
        return TextColumn(self._trim(texts, item), wrong)

    def _trim(self, texts: pa.Array, item: Item) -> pa.Array:
        if item.type == "CHARACTER" and self.options.trim_padding:
            return pc.ascii_rtrim(texts, characters=" ")
        return texts

    def _variable(self, data: Bytes, at: Offsets, item: Item) -> TextColumn:
        word = numpy_type(self.layout.word("uint32" if item.type == "BLOB" else "uint16"))
        head = self.layout.head(item)
        sizes = numbers_at(data, at + head - word.itemsize, word).astype(np.int64)
        sizes *= self.layout.unit(item)
        wrong = sizes > self.layout.capacity(item)
        if item.type == "BLOB" and head == 8:  # the reserved word is 00000000
            wrong |= numbers_at(data, at, np.dtype("<u4")) != 0
        sizes[wrong] = 0
        short = self._short_texts(data, at + head, sizes, item)
        if short is not None:
            return TextColumn(short.texts, wrong | short.wrong)
        ends = at + head + sizes
        view = memoryview(data.data)
        values = (
            bytes(view[a:b]) for a, b in zip((at + head).tolist(), ends.tolist(), strict=True)
        )
        if item.type == "BLOB":
            texts = pa.array(
                [base64.b64encode(value).decode("ascii") for value in values], pa.string()
            )
            return TextColumn(texts, wrong)
        codec = self.options.national_codec if item.type in NATIONAL else self.options.codec
        texts, bad = decode_each(values, codec)
        return TextColumn(texts, wrong | bad)

    def _short_texts(
        self, data: Bytes, at: Offsets, sizes: Offsets, item: Item
    ) -> TextColumn | None:
        """Reads the values of a variable text item if its areas are short, else returns ``None``."""
        width = self.layout.capacity(item)
        if (
            item.type == "BLOB"
            or width > _MAX_SHORT
            or not len(at)
            or int(at.max()) + width > len(data)
        ):
            return None
        codec = self.options.national_codec if item.type in NATIONAL else self.options.codec
        return decode_areas(areas_at(data, at, width), codec, sizes)

    def _moment(self, areas: Bytes, item: Item) -> TextColumn:
        """Formats DATE, TIME and TIMESTAMP as ``yyyy-mm-dd hh:mm:ss``."""
        parts: list[Bytes] = []
        wrong = np.zeros(len(areas), bool)
        if item.type != "TIME":
            chars, bad = self._date(areas[:, :4])
            parts.append(chars)
            wrong |= bad
        if item.type == "TIMESTAMP":
            parts.append(np.full((len(areas), 1), _BLANK, np.uint8))
        if item.type != "DATE":
            chars, bad = _clock(areas[:, -3:])
            parts.append(chars)
            wrong |= bad
        return TextColumn(strings(np.concatenate(parts, axis=1)), wrong)

    def _date(self, areas: Bytes) -> tuple[Bytes, Mask]:
        high, low = (0, 1) if self.layout.order == "big" else (1, 0)
        year = areas[:, high].astype(np.int64) * 256 + areas[:, low]
        month, day = areas[:, 2].astype(np.int64), areas[:, 3].astype(np.int64)
        wrong = (year < 1) | (year > 9999) | (month < 1) | (month > 12) | (day < 1)
        leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        last = _DAYS[np.where(wrong, 0, month)] - ((month == 2) & ~leap)
        wrong |= day > last
        fields = (np.where(wrong, 0, each) for each in (year, month, day))
        return _join_numbers(fields, (4, 2, 2), "-"), wrong

    def _interval(self, areas: Bytes, item: Item) -> TextColumn:
        """Formats INTERVAL as SQL writes it between quotes: ``12-03``, ``-1 02:03:04``."""
        sizes = self.layout.interval_sizes(item)
        order = self.layout.order
        ends = np.cumsum([1, *sizes]).tolist()
        texts, wrong = [], np.zeros(len(areas), bool)
        for place, row in enumerate(areas):
            raw = row.tobytes()
            # without construct, which would leave a cycle for each field
            fields = [
                int.from_bytes(raw[end : end + size], order)
                for end, size in zip(ends, sizes, strict=False)
            ]
            wrong[place] = raw[:1] not in (b"+", b"-") or not _are_possible(item, fields)
            texts.append(("-" if raw[:1] == b"-" else "") + interval_text(item, fields))
        return TextColumn(pa.array(texts, pa.string()), wrong)


def _are_possible(item: Item, fields: list[int]) -> bool:
    """Returns whether the leading field fits its precision, and the later fields are in range."""
    later = zip(item.fields[1:], fields[1:], strict=True)
    return fields[0] < 10**item.length and all(value < _RANGES[name] for name, value in later)


def interval_text(item: Item, fields: list[int]) -> str:
    """Formats the fields of an interval, without sign."""
    text = str(fields[0])
    for name, value in zip(item.fields[1:], fields[1:], strict=True):
        between = {"MONTH": "-", "HOUR": " "}.get(name, ":")
        text += f"{between}{value:02d}"
    return text


def read_packed_decimals(areas: Bytes, digits: int, scale: int) -> TextColumn:
    """Reads DECIMAL: digits in half bytes, after a zero if p is even; the last half byte is the sign."""
    nibbles = np.empty((len(areas), areas.shape[1] * 2), np.uint8)
    nibbles[:, 0::2] = areas >> 4
    nibbles[:, 1::2] = areas & 15
    sign = nibbles[:, -1]
    wrong = sign < 10
    wrong |= (nibbles[:, :-1] > 9).any(axis=1)
    if digits % 2 == 0:
        wrong |= nibbles[:, 0] != 0
    negative = (sign == _NEGATIVE[0]) | (sign == _NEGATIVE[1])
    return TextColumn(_decimals(nibbles[:, -1 - digits : -1], negative, scale), wrong)


def read_zoned_decimals(areas: Bytes, scale: int, sign: str) -> TextColumn:
    """Reads NUMERIC: digit characters, and a sign character before or after them or in the last one."""
    if sign == "overpunched":
        last = areas[:, -1]
        values = _OVERPUNCHED[0][last]
        negative, has_sign = _OVERPUNCHED[1][last], _OVERPUNCHED[2][last]
        numbers = np.concatenate([areas[:, :-1] - _ZERO, values[:, None]], axis=1)
    else:
        place = 0 if sign == "leading" else -1
        signs = areas[:, place]
        negative, has_sign = signs == _MINUS, (signs == _MINUS) | (signs == _PLUS)
        numbers = (areas[:, 1:] if sign == "leading" else areas[:, :-1]) - _ZERO
    wrong: Mask = ~has_sign | (numbers > 9).any(axis=1)
    return TextColumn(_decimals(np.where(wrong[:, None], 0, numbers), negative, scale), wrong)


def _overpunch_table() -> tuple[npt.NDArray[np.uint8], Mask, Mask]:
    """Returns digit, sign and validity of each last character: ``{A-I``, ``}J-R``, or a digit."""
    values = np.zeros(256, np.uint8)
    negative, valid = np.zeros(256, bool), np.zeros(256, bool)
    for text, minus in ((b"{ABCDEFGHI", False), (b"}JKLMNOPQR", True), (b"0123456789", False)):
        for digit, char in enumerate(text):
            values[char], negative[char], valid[char] = digit, minus, True
    return values, negative, valid


_OVERPUNCHED = _overpunch_table()


def _decimals(digits: Bytes, negative: Mask, scale: int) -> pa.Array:
    """Formats decimal digits: at least one before the point, ``scale`` after it, no sign before zero."""
    count, width = digits.shape
    integral = width - scale
    first = max(integral, 1)
    chars = np.empty((count, 1 + first + (scale > 0) + scale), np.uint8)
    keep = np.ones(chars.shape, bool)
    chars[:, 0] = _MINUS
    chars[:, first] = _ZERO
    chars[:, 1 + first - integral : 1 + first] = digits[:, :integral] + _ZERO
    if scale:
        chars[:, 1 + first] = _POINT
        chars[:, 2 + first :] = digits[:, integral:] + _ZERO
    keep[:, 0] = negative & digits.any(axis=1)
    if integral > 1:
        significant = digits[:, 0] != 0
        for place in range(integral - 1):
            if place:
                significant = significant | (digits[:, place] != 0)
            keep[:, 1 + place] = significant
    return strings(chars, keep)


def _clock(areas: Bytes) -> tuple[Bytes, Mask]:
    wrong: Mask = np.any(areas > np.array([23, 59, 59], np.uint8), axis=1)
    fields = (np.where(wrong, 0, areas[:, place].astype(np.int64)) for place in range(3))
    return _join_numbers(fields, (2, 2, 2), ":"), wrong


def _join_numbers(
    fields: Iterator[npt.NDArray[Any]], widths: tuple[int, ...], between: str
) -> Bytes:
    """Joins numbers of fixed widths with a character between them."""
    parts: list[Bytes] = []
    for values, width in zip(fields, widths, strict=True):
        if parts:
            parts.append(np.full((len(values), 1), ord(between), np.uint8))
        powers = 10 ** np.arange(width - 1, -1, -1)
        parts.append((values[:, None] // powers % 10 + _ZERO).astype(np.uint8))
    return np.concatenate(parts, axis=1)


def _integers(values: npt.NDArray[Any]) -> TextColumn:
    native = values.astype(values.dtype.newbyteorder("="))
    return TextColumn(pa.array(native).cast(pa.string()), np.zeros(len(values), bool))


def _floats(values: npt.NDArray[Any]) -> TextColumn:
    """Formats IEEE numbers as their shortest texts; infinities and NaN are invalid in SQL."""
    finite = np.isfinite(values)
    native = np.where(finite, values, 0).astype(values.dtype.newbyteorder("="))
    texts = [repr(float(str(value))) for value in native]
    return TextColumn(pa.array(texts, pa.string()), ~finite)
