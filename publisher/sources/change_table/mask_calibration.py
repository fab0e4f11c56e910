"""Which byte of a mask comes first, and how many header columns count in it: told by the records.

The manual says byte 0 first; hex text of real exports has the most significant byte first (reference,
change_mask).  Whether ``partition_name`` counts is not documented.  So both are found together, by
rules that hold for every mask:

1. Bits of header columns and bits beyond the last column are never set.
2. An INSERT of a whole row sets the bits of all data columns.
3. The bits of an UPDATE are the columns that differ from its before image.
4. A DELETE sets the bits of the primary key, where ``.dfm``, settings or a catalogue say which columns
   that is.

Where that leaves several answers that read the masks differently, it refuses to guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher.errors import FatalError
from publisher.sources.change_table.change_mask import MaskProblem, Order, bits_of
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.rows import ChangeOperation

_REMEMBERED = 20_000
"""Distinct masks looked at, at most; those that differ say no more than these."""
_ALIEN = 50
"""One mask in so many may be damaged and is then rejected by itself."""
_MOST_HEADERS = 8
MASK_BITS = 1024
"""Bits of the documented type of change_mask, varbinary(128); header columns have some of them."""


class MaskReading(NamedTuple):
    """How masks are read."""

    order: Order
    headers: int
    """Header columns that count."""


@dataclass(slots=True)
class MaskEvidence:
    """What the records say of their masks."""

    masks: Counter[tuple[int, str]] = field(default_factory=Counter)
    """How often an operation has a mask in hex."""
    differences: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often an UPDATE has a mask and, as bits by data column, these differences."""
    key: int = 0
    """The columns of a known primary key, as bits by data column; 0 where it is not known."""

    def add(self, masks: Iterable[tuple[tuple[int, str], int]]) -> None:
        """Takes masks with their operation, and how often they are there."""
        for mask, count in masks:
            if mask in self.masks or len(self.masks) < _REMEMBERED:
                self.masks[mask] += count

    @property
    def any(self) -> bool:
        """Whether there is any mask that is not empty."""
        return bool(self.masks)


def readings(options: ChangeTableOptions, counts: list[int]) -> list[MaskReading]:
    """The answers to choose from, by the settings and how many header columns may count."""
    orders: tuple[Order, ...] = (
        ("msb", "lsb") if options.mask_order == "auto" else (options.mask_order,)
    )
    if options.header_columns is not None:
        counts = [options.header_columns]
    return [MaskReading(order, count) for count in counts for order in orders]


def decided(
    evidence: MaskEvidence, choices: list[MaskReading], width: int, where: str
) -> MaskReading | None:
    """The reading that the evidence leaves; ``None`` where before images would have to decide.

    ``width`` is the number of data columns.  Raises ``FatalError`` where no reading fits.
    """
    if not evidence.any or len(choices) == 1:
        return choices[0]
    left = _possible(evidence, choices, width) or _told(evidence, choices, width)
    if not left:
        left = _told(evidence, [*_wider(choices)], width)
        if len(left) != 1:
            raise FatalError(
                f"{where}: the masks set bits of header columns or beyond the last of {width} data"
                " columns, however they are read; set mask_order and header_columns, or export all"
                " columns of the change table"
            )
    left = _told(evidence, left, width) or left
    return left[0] if len(left) == 1 or alike(evidence, left, width) else None


def refuse(left: list[MaskReading], where: str) -> FatalError:
    """The error that says which setting to give."""
    answers = " or ".join(
        f'mask_order = "{reading.order}" with header_columns = {reading.headers}'
        for reading in left
    )
    return FatalError(
        f"{where}: the records do not tell how the bits of change_mask are counted; set {answers}"
        " (look at an UPDATE of which you know the changed column)"
    )


def possible(evidence: MaskEvidence, choices: list[MaskReading], width: int) -> list[MaskReading]:
    """The readings that nothing speaks against."""
    left = _possible(evidence, choices, width) or choices
    return _told(evidence, left, width) or _possible(evidence, choices, width)


def _possible(evidence: MaskEvidence, choices: list[MaskReading], width: int) -> list[MaskReading]:
    """The readings under which fewest masks are out of range, if those are few."""
    odd = {
        reading: sum(
            count
            for (_, mask), count in evidence.masks.items()
            if _columns(mask, reading, width) is None
        )
        for reading in choices
    }
    least = min(odd.values())
    if least > evidence.masks.total() // _ALIEN:
        return []
    return [reading for reading in choices if odd[reading] == least]


def _told(evidence: MaskEvidence, choices: list[MaskReading], width: int) -> list[MaskReading]:
    """The readings that most inserts, deletes and before images speak for; none where nothing speaks."""
    votes: Counter[MaskReading] = Counter()
    for reading in choices:
        for (operation, mask), count in evidence.masks.items():
            if operation == ChangeOperation.INSERT and _columns(
                mask, reading, width
            ) in _whole_rows(reading, width):
                votes[reading] += count
            if (
                operation == ChangeOperation.DELETE
                and _columns(mask, reading, width) == evidence.key
            ):
                votes[reading] += count
        for (mask, differing), count in evidence.differences.items():
            if _columns(mask, reading, width) == differing:
                votes[reading] += count
    most = max(votes.values(), default=0)
    return [reading for reading in choices if most and votes[reading] == most]


def covered(reading: MaskReading, width: int) -> int:
    """The first data columns, of ``width``, that a mask of the documented type has bits for."""
    return max(0, min(width, MASK_BITS - reading.headers))


def _whole_rows(reading: MaskReading, width: int) -> tuple[int, int]:
    """The bits of an INSERT of a whole row: of all columns, or as many as the documented type has."""
    return (1 << width) - 1, (1 << covered(reading, width)) - 1


def alike(evidence: MaskEvidence, choices: list[MaskReading], width: int) -> bool:
    """Whether it makes no difference which reading is taken."""
    return (
        all(
            len({_columns(mask, reading, width) for reading in choices}) == 1
            for _, mask in evidence.masks
        )
        and len(evidence.masks) < _REMEMBERED
    )


def _wider(choices: list[MaskReading]) -> Iterator[MaskReading]:
    for order in dict.fromkeys(reading.order for reading in choices):
        yield from (MaskReading(order, count) for count in range(_MOST_HEADERS + 1))


def _columns(mask: str, reading: MaskReading, width: int) -> int | None:
    """The bits of a mask by data column; ``None`` where it cannot be read so."""
    try:
        return columns_of(mask, reading, width)
    except MaskProblem:
        return None


def columns_of(mask: str, reading: MaskReading, width: int) -> int:
    """The bits of a mask as bits by data column.  Raises ``MaskProblem``."""
    bits = bits_of(mask, reading.order)
    if bits & ((1 << reading.headers) - 1):
        raise MaskProblem(
            f"change_mask {mask[:60]!r} sets a bit of the {reading.headers} header columns;"
            " check mask_order and header_columns"
        )
    if bits >> (reading.headers + width):
        raise MaskProblem(
            f"change_mask {mask[:60]!r} sets bit {bits.bit_length() - 1}, and there are"
            f" {reading.headers} header and {width} data columns; export with the columns that the"
            " table had then"
        )
    return bits >> reading.headers
