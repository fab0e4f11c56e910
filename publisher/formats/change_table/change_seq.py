"""``change_seq``: 16 digits of time (YYYYMMDDHHmmSShh) and a change number of 19 digits.

The width is fixed, so the order of the texts is the order of changes (manual, change_seq).  35 digits do not
fit into 64 bits, so the program uses two integers: the time part, and the change number minus 2^63.  A change
number of 19 digits needs an unsigned integer, but Spark and Arrow sort signed ones.  Subtracting 2^63 makes
it fit into a signed integer and keeps the order.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import UsageError
from publisher.formats.columns.columns import LARGEST
from publisher.model.change import Position

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

TIME_DIGITS = 16
NUMBER_DIGITS = 19
_SEQ = rf"^[0-9]{{{TIME_DIGITS}}}[0-9]{{{NUMBER_DIGITS}}}$"
_BIAS = 1 << 63
"""Difference between the change number and the second integer."""
_PARTS = (
    (10_000_000_000, 100, 1, 12),
    (100_000_000, 100, 1, 31),
    (1_000_000, 100, 0, 23),
    (10_000, 100, 0, 59),
    (100, 100, 0, 60),
)
"""Month, day, hour, minute and second of the time part: divisor, modulus, least, greatest."""
_SEQ_ONLY = re.compile(r"[0-9]{35}").fullmatch

RANK_BITS = 25
"""Number of bits of a rank that hold the change number."""
_FIRST_YEAR = 1990
_YEARS = 80
"""Number of years whose times have ranks of their own."""

EXPECTED_FORM = "a change_seq has 35 digits: YYYYMMDDHHmmSShh and a number of 19 digits"


def parse_column(array: pa.Array) -> tuple[Integers, Integers, Flags]:
    """Parses a text column: time parts, change numbers minus 2^63, and a mark on each valid value."""
    text = pc.utf8_trim_whitespace(array)
    matches = pc.fill_null(pc.match_substring_regex(text, _SEQ), False)
    number = pc.utf8_slice_codeunits(text, TIME_DIGITS, TIME_DIGITS + NUMBER_DIGITS)
    zero = pa.scalar("0")
    time = pc.if_else(matches, pc.utf8_slice_codeunits(text, 0, TIME_DIGITS), zero)
    high = time.cast(pa.int64()).to_numpy(zero_copy_only=False)
    unsigned = pc.if_else(matches, number, zero).cast(pa.uint64()).to_numpy(zero_copy_only=False)
    low: Integers = (unsigned ^ np.uint64(_BIAS)).view(np.int64)
    valid = matches.to_numpy(zero_copy_only=False)
    for divisor, modulus, least, greatest in _PARTS:
        part = high // divisor % modulus
        valid = valid & (part >= least) & (part <= greatest)
    return high, low, valid


class Ranking(NamedTuple):
    """Mapping of change numbers (minus 2^63) to ranks: the least number of the input, and bits to drop."""

    least: int = -_BIAS
    shift: int = 64 - RANK_BITS

    @classmethod
    def of(cls, least: int, greatest: int) -> Ranking:
        """The ranking for numbers from ``least`` to ``greatest``."""
        return cls(least, max(0, (greatest - least).bit_length() - RANK_BITS))

    def ranks(self, high: Integers, low: Integers) -> Integers:
        """Ranks of 64 bits in the order of change_seq; several values may share a rank.

        Any number of changes may share a time part, so a rank also has the leading bits of the change number:
        code that processes ranks block by block need not hold a large transaction as a whole.
        """
        time = np.clip(high // 10**12 - _FIRST_YEAR, 0, _YEARS)
        for divisor, modulus, least, greatest in _PARTS:
            part = np.clip(high // divisor % modulus, least, greatest) - least
            time = time * (greatest - least + 1) + part
        time = time * 100 + high % 100
        # differences of signed numbers may need all 64 bits
        offsets = np.maximum(low, self.least).view(np.uint64) - np.uint64(self.least % (1 << 64))
        number = (offsets >> np.uint64(self.shift)).astype(np.int64)
        inside = (high >= _FIRST_YEAR * 10**12) & (high < (_FIRST_YEAR + _YEARS) * 10**12)
        time = np.where(
            inside, time, np.where(high < _FIRST_YEAR * 10**12, 0, LARGEST >> RANK_BITS)
        )
        number = np.where(inside, np.minimum(number, (1 << RANK_BITS) - 1), 0)
        ranks: Integers = (time << RANK_BITS) + number
        return ranks


def text_of(high: int, low: int) -> str:
    """The 35 digits of a change_seq."""
    return f"{high:0{TIME_DIGITS}d}{low + _BIAS:0{NUMBER_DIGITS}d}"


def parts_of(text: str) -> tuple[int, int]:
    """The time part of 35 digits, and their change number minus 2^63."""
    return int(text[:TIME_DIGITS]), int(text[TIME_DIGITS:]) - _BIAS


def position_text(position: Position) -> str:
    """The change_seq, or FILE:NUMBER of a record without one."""
    if position.part:
        return position.text()
    return text_of(position.high, position.low)


def parse_position(text: str) -> Position:
    """Parses the text of a position.  Raises ``UsageError``."""
    text = text.strip()
    if _SEQ_ONLY(text):
        return Position("", *parts_of(text), 0)
    part, _, number = text.rpartition(":")
    if not part or not number.isascii() or not number.isdigit():
        raise UsageError(
            f"{text!r} is not a position of a change table; write 35 digits or FILE:NUMBER"
        )
    return Position(part, int(number), 0, 0)
