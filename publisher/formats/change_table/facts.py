"""Facts about the whole input, from the header columns of all splits: how masks are read, which rows wait.

One pass over the splits finds them before rows are decoded.  No record is related here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.change_table.carry_over import earlier
from publisher.formats.change_table.change_seq import Flags, Integers, Ranking, parts_of, text_of
from publisher.formats.change_table.keys import key_bits
from publisher.formats.change_table.layout import ChangeTableLayout
from publisher.formats.change_table.masks import (
    MaskEvidence,
    MaskProblem,
    MaskReading,
    ambiguity_error,
    candidate_readings,
    infer_reading,
    remaining_readings,
)
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.pairs import relate_rows
from publisher.formats.change_table.rows import ChangeOperation, ChangeRows
from publisher.formats.columns.byte_areas import begins_run
from publisher.formats.columns.columns import LARGEST
from publisher.model.catalogue import Catalogue

MAX_PAIRS_COMPARED = 2_000
MAX_ROWS_COMPARED = 100_000
"""Limits of the pairs whose images are compared, and of the rows that are read to find these pairs."""

ReadRows = Callable[[], Iterable[ChangeRows]]
"""Reads all columns of rows: of splits with the same columns, or the first rows of a table."""


@dataclass(frozen=True, slots=True)
class MaskFacts:
    """The way in which the masks of a table are read."""

    reading: MaskReading | None = None
    """``None`` if the input has no masks."""
    key: tuple[str, ...] = ()
    """Key columns by the masks of DELETE records."""
    sure: bool = False
    """Whether the masks allow no other reading, so that ``reading`` also holds for later records."""


@dataclass(frozen=True, slots=True)
class ChangedTable:
    """A table of the input, with the facts that its records need."""

    layout: ChangeTableLayout
    masks: MaskFacts
    where: str
    """The first file or the table that has it, for messages."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the input; a live table is one file without a name."""

    path: str
    name: str
    table: int
    """Number of its table."""


@dataclass(frozen=True, slots=True)
class InputFacts:
    """Facts about the whole input, which go to all tasks."""

    tables: tuple[ChangedTable, ...] = ()
    files: tuple[InputFile, ...] = ()
    """The files in the order of the input."""
    ranking: Ranking = field(default_factory=Ranking)
    """The ranking of change numbers."""
    cut: str | None = None
    """The change_seq from which on rows are held: a row with this change_seq waits for its partner."""

    def file_of(self, path: str) -> tuple[int, ChangedTable]:
        """Returns the number of a file, and its table."""
        number = next(n for n, file in enumerate(self.files) if file.path == path)
        return number, self.tables[self.files[number].table]


class Halves(NamedTuple):
    """UPDATEs and before images, by their change_seq."""

    high: Integers
    low: Integers
    before: Flags

    def lone(self) -> Halves:
        """Returns the change_seqs that have UPDATEs but no before image, or the reverse, in their order."""
        order = np.lexsort((self.before, self.low, self.high))
        if not len(order):
            return self
        high, low, before = (column[order] for column in self)
        starts = np.flatnonzero(begins_run(high, low))
        ends = np.append(starts[1:], len(high)) - 1
        starts = starts[before[starts] == before[ends]]
        return Halves(high[starts], low[starts], before[starts])

    def after(self, bound: str | None) -> Halves:
        """Returns those with a greater change_seq."""
        high, low = parts_of(bound) if bound else (-1, 0)
        which = (self.high > high) | ((self.high == high) & (self.low > low))
        return Halves(self.high[which], self.low[which], self.before[which])


def join_halves(parts: Iterable[Halves]) -> Halves:
    """Joins the UPDATEs and before images of several splits."""
    none = Halves(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))
    return Halves(*map(np.concatenate, zip(none, *parts, strict=True)))


class HeaderFacts(NamedTuple):
    """Facts about one split."""

    masks: Counter[tuple[int, str]]
    """Records by operation and mask."""
    least: int
    greatest: int
    """Least and greatest change number, minus 2^63."""
    youngest: tuple[int, int] | None
    """The greatest change_seq; ``None`` if there is none."""
    has_updates: bool
    has_images: bool
    lone: Halves
    """The young rows that may wait; older ones do not."""


def survey_headers(
    chunks: Iterable[ChangeRows], layout: ChangeTableLayout, seconds: float
) -> HeaderFacts:
    """Surveys the header columns of a split; rows of the last ``seconds`` may wait for a partner."""
    evidence = MaskEvidence()
    least, greatest = LARGEST, Ranking().least
    youngest = None
    halves: list[Halves] = []
    has_updates = has_images = False
    for rows in chunks:
        evidence.add(_count_masks(rows, layout))
        high, low = rows.high[rows.placed], rows.low[rows.placed]
        if not len(low):
            continue
        least, greatest = min(least, int(low.min())), max(greatest, int(low.max()))
        last = (int(high.max()), int(low[high == high.max()].max()))
        youngest = last if youngest is None else max(youngest, last)
        kinds = rows.operations[rows.placed]
        before = kinds == ChangeOperation.BEFORE_IMAGE
        is_half = before | (kinds == ChangeOperation.UPDATE)
        has_images |= bool(before.any())
        has_updates |= bool((is_half & ~before).any())
        if seconds:
            halves.append(Halves(high[is_half], low[is_half], before[is_half]))
    bound = None if youngest is None else earlier(text_of(*youngest), seconds)
    lone = join_halves(halves).after(bound).lone()
    return HeaderFacts(evidence.masks, least, greatest, youngest, has_updates, has_images, lone)


def ranking_of(facts: Sequence[HeaderFacts]) -> Ranking:
    """Returns the ranking of all change numbers."""
    least = min((each.least for each in facts), default=LARGEST)
    greatest = max((each.greatest for each in facts), default=Ranking().least)
    return Ranking.of(least, max(least, greatest))


def _count_masks(
    rows: ChangeRows, layout: ChangeTableLayout
) -> Iterator[tuple[tuple[int, str], int]]:
    """Counts operations with their masks."""
    name = layout.headers.get("change_mask")
    if name is None:
        return
    masks = pc.utf8_trim_whitespace(rows.batch.column(name)).fill_null("")
    for operation in (ChangeOperation.INSERT, ChangeOperation.UPDATE, ChangeOperation.DELETE):
        counts = pc.value_counts(masks.filter(pa.array(rows.operations == operation)))
        for item in counts.to_pylist():
            if item["values"].strip("0xX\\"):
                yield (int(operation), item["values"]), item["counts"]


def infer_masks(
    masks: Counter[tuple[int, str]],
    layout: ChangeTableLayout,
    options: ChangeTableOptions,
    read: ReadRows,
    where: str,
    catalogue: Catalogue | None = None,
    known: MaskReading | None = None,
) -> MaskFacts:
    """Infers how masks are read, from their number; compares some images if that does not show it.

    Uses ``known``, of the last run, if the records leave several readings; ``catalogue`` may have the key.

    Raises:
        FatalError: No reading fits, or several.
    """
    if not masks:
        return MaskFacts()
    evidence = MaskEvidence(masks)
    evidence.key = _key_bits(evidence, layout, options, catalogue)
    width = len(layout.data)
    candidates = candidate_readings(options, layout.header_counts)
    reading = infer_reading(evidence, candidates, width, where)
    if reading is None:
        evidence.differences = _count_differences(read(), layout)
        reading = infer_reading(evidence, candidates, width, where)
    remaining = remaining_readings(evidence, candidates, width)
    if reading is None:
        if known not in remaining:
            raise ambiguity_error(remaining, where)
        reading = known
    return MaskFacts(
        reading, _key_in_masks(evidence, reading, layout.data), sure=len(remaining) == 1
    )


def join_masks(facts: Iterable[HeaderFacts]) -> Counter[tuple[int, str]]:
    """Adds the masks of several splits."""
    evidence = MaskEvidence()
    for each in facts:
        evidence.add(each.masks.items())
    return evidence.masks


def _key_bits(
    evidence: MaskEvidence,
    layout: ChangeTableLayout,
    options: ChangeTableOptions,
    catalogue: Catalogue | None,
) -> int:
    """As ``key_bits``; queries the catalogue only for the masks of DELETE records."""
    deletes = any(operation == ChangeOperation.DELETE for operation, _ in evidence.masks)
    return key_bits(layout, options, catalogue) if deletes else 0


def _key_in_masks(
    evidence: MaskEvidence, reading: MaskReading, data: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns that the most frequent mask of DELETE records sets."""
    counts: Counter[int] = Counter()
    for (operation, mask), count in evidence.masks.items():
        if operation == ChangeOperation.DELETE:
            try:
                counts[reading.columns_of(mask, len(data))] += count
            except MaskProblem:
                continue
    if not counts:
        return ()
    ((bits, _),) = counts.most_common(1)
    return tuple(name for place, name in enumerate(data) if bits >> place & 1)


def _count_differences(
    chunks: Iterable[ChangeRows], layout: ChangeTableLayout
) -> Counter[tuple[str, int]]:
    """Counts the masks of UPDATEs, each with the columns that differ from the before image."""
    counts: Counter[tuple[str, int]] = Counter()
    read = 0
    for rows in chunks:
        read += len(rows)
        counts.update(_compare_images(rows, layout))
        if counts.total() >= MAX_PAIRS_COMPARED or read >= MAX_ROWS_COMPARED:
            break
    return counts


def _compare_images(rows: ChangeRows, layout: ChangeTableLayout) -> Iterator[tuple[str, int]]:
    placed = rows.take(np.flatnonzero(rows.placed))
    related = relate_rows([placed])
    updates = np.flatnonzero(
        (related.partner >= 0) & (placed.operations == ChangeOperation.UPDATE)
    )[:MAX_PAIRS_COMPARED]
    data = list(layout.data)
    after = placed.batch.take(pa.array(updates)).select(data).to_pylist()
    before = placed.batch.take(pa.array(related.partner[updates])).select(data).to_pylist()
    masks = placed.batch.column(layout.headers["change_mask"]).take(pa.array(updates)).to_pylist()
    for mask, new, old in zip(masks, after, before, strict=True):
        differing = sum(1 << i for i, name in enumerate(data) if new[name] != old[name])
        if mask and differing:
            yield mask.strip(), differing
