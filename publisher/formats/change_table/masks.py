"""``change_mask``: its bits mark the columns of a change record.

Bit N stands for the column with ordinal N in the change table, counted from 0, header columns included.
Bytes of zeros may be left out: trailing ones if byte 0 comes first, leading ones if the most significant
byte comes first.

According to the manual byte 0 comes first, but hex text of real exports has the most significant byte
first.  It is not documented whether ``partition_name`` has a bit.  So byte order and number of header columns
are inferred together, by rules that hold for every mask:

1. Bits of header columns and bits beyond the last column are never set.
2. An INSERT of a whole row sets the bits of all data columns.
3. The bits of an UPDATE are the columns that differ from its before image.
4. A DELETE sets the bits of the primary key, if ``.dfm``, settings or a catalogue name its columns.

If several readings remain that give different columns, the input is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from publisher.errors import FatalError
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.rows import ChangeOperation

Order = Literal["msb", "lsb"]

MASK_BITS = 1024
"""Number of bits of the documented type of change_mask, varbinary(128), header columns included."""
_HEX = re.compile(r"(?:0[xX]|\\x)?([0-9A-Fa-f]*)").fullmatch
_MAX_MASKS = 20_000
"""Limit of distinct masks examined."""
_DAMAGED_SHARE = 50
"""One mask in this number may be damaged; only its record is rejected."""
_MAX_HEADERS = 8


class MaskProblem(ValueError):  # noqa: N818 -- becomes a reject, not an error
    """A mask that cannot be read; the message ends with what to do."""


def bits_of(mask: str, order: Order) -> int:
    """Converts a mask in hex to an integer whose bit N is bit N of the mask.

    A mask with an odd number of digits has lost a leading zero, which is harmless only if the most
    significant byte comes first.

    Raises:
        MaskProblem: The text is not a mask in this order.
    """
    match = _HEX(mask.strip())
    if match is None:
        raise MaskProblem(f"change_mask {_short(mask)} is not hex text; export it as hex")
    digits = match[1]
    if order == "msb":
        return int(digits or "0", 16)
    if len(digits) % 2:
        raise MaskProblem(
            f"change_mask {_short(mask)} has an odd number of digits although byte 0 comes first;"
            " export masks as text, not as numbers"
        )
    return int.from_bytes(bytes.fromhex(digits), "little")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


class MaskReading(NamedTuple):
    """One way to count the bits of masks."""

    order: Order
    headers: int
    """Number of header columns that count."""

    def columns_of(self, mask: str, width: int) -> int:
        """Returns the bits of a mask by data column; ``width`` is the number of data columns.

        Raises:
            MaskProblem: The mask cannot be read this way.
        """
        bits = bits_of(mask, self.order)
        if bits & ((1 << self.headers) - 1):
            raise MaskProblem(
                f"change_mask {mask[:60]!r} sets a bit of the {self.headers} header columns;"
                " check mask_order and header_columns"
            )
        if bits >> (self.headers + width):
            raise MaskProblem(
                f"change_mask {mask[:60]!r} sets bit {bits.bit_length() - 1}, but there are"
                f" {self.headers} header and {width} data columns; export with the columns that the"
                " table had at that time"
            )
        return bits >> self.headers

    def maskable(self, width: int) -> int:
        """Counts the leading data columns for which a mask of the documented type has bits."""
        return max(0, min(width, MASK_BITS - self.headers))


@dataclass(slots=True)
class MaskEvidence:
    """The masks of a table, and known facts about the columns that they should mark."""

    masks: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Number of records by operation and mask in hex."""
    differences: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Number of UPDATEs by mask in hex and bits of the data columns that differ."""
    key: int = 0
    """The columns of a known primary key, as bits by data column; 0 if it is not known."""

    def add(self, masks: Iterable[tuple[tuple[int, str], int]]) -> None:
        """Adds numbers of records by operation and mask."""
        for mask, count in masks:
            if mask in self.masks or len(self.masks) < _MAX_MASKS:
                self.masks[mask] += count


def candidate_readings(options: ChangeTableOptions, header_counts: list[int]) -> list[MaskReading]:
    """Lists the readings that the settings allow, for these numbers of header columns."""
    orders: tuple[Order, ...] = (
        ("msb", "lsb") if options.mask_order == "auto" else (options.mask_order,)
    )
    if options.header_columns is not None:
        header_counts = [options.header_columns]
    return [MaskReading(order, count) for count in header_counts for order in orders]


def infer_reading(
    evidence: MaskEvidence, candidates: list[MaskReading], width: int, where: str
) -> MaskReading | None:
    """Infers the reading from the masks of ``width`` data columns.

    ``None`` if only the differences between before images and their UPDATEs could decide.

    Raises:
        FatalError: No reading fits.
    """
    if not evidence.masks or len(candidates) == 1:
        return candidates[0]
    remaining = _readings_in_range(evidence, candidates, width) or _choose_by_support(
        evidence, candidates, width
    )
    if not remaining:
        remaining = _choose_by_support(evidence, [*_wider_readings(candidates)], width)
        if len(remaining) != 1:
            raise FatalError(
                f"{where}: the masks set bits of header columns or beyond the last of {width} data"
                " columns, whichever way they are read; set mask_order and header_columns, or export all"
                " columns of the change table"
            )
    remaining = _choose_by_support(evidence, remaining, width) or remaining
    return (
        remaining[0] if len(remaining) == 1 or are_equivalent(evidence, remaining, width) else None
    )


def ambiguity_error(readings: list[MaskReading], where: str) -> FatalError:
    """Builds the error for masks that several readings fit; it names the settings to choose from."""
    answers = " or ".join(
        f'mask_order = "{reading.order}" with header_columns = {reading.headers}'
        for reading in readings
    )
    return FatalError(
        f"{where}: the records do not show how the bits of change_mask are counted; set {answers}"
        " (look at an UPDATE of which you know the changed column)"
    )


def remaining_readings(
    evidence: MaskEvidence, candidates: list[MaskReading], width: int
) -> list[MaskReading]:
    """Returns the candidates that no mask contradicts."""
    in_range = _readings_in_range(evidence, candidates, width) or candidates
    return _choose_by_support(evidence, in_range, width) or _readings_in_range(
        evidence, candidates, width
    )


def are_equivalent(evidence: MaskEvidence, readings: list[MaskReading], width: int) -> bool:
    """Returns whether all readings give the same columns."""
    return (
        all(
            len({_try_columns(mask, reading, width) for reading in readings}) == 1
            for _, mask in evidence.masks
        )
        and len(evidence.masks) < _MAX_MASKS
    )


def _readings_in_range(
    evidence: MaskEvidence, candidates: list[MaskReading], width: int
) -> list[MaskReading]:
    """Returns the readings with the fewest masks out of range; none if these are more than may be damaged."""
    misfits = {
        reading: sum(
            count
            for (_, mask), count in evidence.masks.items()
            if _try_columns(mask, reading, width) is None
        )
        for reading in candidates
    }
    least = min(misfits.values())
    if least > evidence.masks.total() // _DAMAGED_SHARE:
        return []
    return [reading for reading in candidates if misfits[reading] == least]


def _choose_by_support(
    evidence: MaskEvidence, candidates: list[MaskReading], width: int
) -> list[MaskReading]:
    """Returns the readings that most INSERTs, DELETEs and before images support; none without support."""
    votes: Counter[MaskReading] = Counter()
    for reading in candidates:
        whole_rows = (1 << width) - 1, (1 << reading.maskable(width)) - 1
        for (operation, mask), count in evidence.masks.items():
            columns = _try_columns(mask, reading, width)
            if operation == ChangeOperation.INSERT and columns in whole_rows:
                votes[reading] += count
            if operation == ChangeOperation.DELETE and columns == evidence.key:
                votes[reading] += count
        for (mask, differing), count in evidence.differences.items():
            if _try_columns(mask, reading, width) == differing:
                votes[reading] += count
    most_votes = max(votes.values(), default=0)
    return [reading for reading in candidates if most_votes and votes[reading] == most_votes]


def _wider_readings(candidates: list[MaskReading]) -> Iterator[MaskReading]:
    """Yields readings with any number of header columns."""
    for order in dict.fromkeys(reading.order for reading in candidates):
        yield from (MaskReading(order, count) for count in range(_MAX_HEADERS + 1))


def _try_columns(mask: str, reading: MaskReading, width: int) -> int | None:
    """Returns the bits of a mask by data column; ``None`` if it cannot be read this way."""
    try:
        return reading.columns_of(mask, width)
    except MaskProblem:
        return None
