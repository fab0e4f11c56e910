"""Surveys the header columns before the splits are read: infers the reading of masks, finds distant pairs.

The survey runs in one task, so that all tasks read masks alike.  It holds at most ``JOIN_ROWS`` UPDATEs and
``MAX_STRAYS`` before images, whatever the length of the input.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.catalogue import Catalogue
from publisher.sources.change_table.before_images import find_partners
from publisher.sources.change_table.change_seq import Ranking
from publisher.sources.change_table.copies import double_fault
from publisher.sources.change_table.extent import RowSelection
from publisher.sources.change_table.held_rows import HeldRows
from publisher.sources.change_table.keys import key_bits
from publisher.sources.change_table.layout import ChangeTableLayout
from publisher.sources.change_table.masks import (
    MaskEvidence,
    MaskProblem,
    MaskReading,
    ambiguity_error,
    candidate_readings,
    infer_reading,
    remaining_readings,
)
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.pairs import FullRows, HeaderRows, PairFinder
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows
from publisher.sources.columns.object_names import RecordFault
from publisher.sources.files.file_splits import FileRange, Split

MAX_PAIRS_COMPARED = 2_000
MAX_ROWS_COMPARED = 100_000
"""Limits of the pairs whose images are compared, and of the rows that are read to find these pairs."""


class DistantImage(NamedTuple):
    """A before image in another split, or too far away from its UPDATE."""

    update: int
    """Row of the UPDATE."""
    step: int
    """Offset of the split of the before image from the split of the UPDATE."""
    row: int
    """Row of the before image in its split."""


class OtherSplit(NamedTuple):
    """A split from which before images are fetched."""

    step: int
    """Offset from the split of the plan."""
    split: Split[FileRange]


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Facts about the whole input that the task of one split needs."""

    reading: MaskReading | None = None
    """The reading of masks; ``None`` if the input has no masks."""
    key: tuple[str, ...] = ()
    """Key columns by the masks of DELETE records."""
    sure: bool = False
    """Whether the masks allow no other reading, so that ``reading`` also holds for later records."""
    ranking: Ranking = field(default_factory=Ranking)
    """The ranking of change numbers."""
    window: int = 0
    """Maximum distance in row numbers between an UPDATE and its before image."""
    given: tuple[int, ...] = ()
    """Rows of before images whose UPDATE is in another split, or too far away."""
    taking: tuple[DistantImage, ...] = ()
    """The before images to fetch."""
    others: tuple[OtherSplit, ...] = ()
    """The splits of ``taking``."""
    copies: tuple[int, ...] = ()
    """Rows that repeat an UPDATE or before image with the same content."""
    doubles: tuple[tuple[int, RecordFault], ...] = ()
    """Rows of UPDATEs with several different before images."""
    in_order: bool = False
    """Whether rows are read in the order of change_seq, so that copies are neighbours."""
    cut: str | None = None
    """The change_seq from which on rows are held: a row with this change_seq waits for its partner."""
    chosen: RowSelection | None = None
    """The rows of a live table to read; ``None`` for all rows."""


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """A part of a change table in a file."""

    rows: FileRange
    plan: SplitPlan


def survey_splits(
    splits: list[Split[FileRange]],
    layouts: list[ChangeTableLayout],
    options: ChangeTableOptions,
    headers_of: HeaderRows,
    all_of: FullRows,
    held: HeldRows | None = None,
    catalogue: Catalogue | None = None,
) -> list[SplitPlan]:
    """Surveys splits with these layouts; returns their plans.

    ``held`` decides which rows wait for a partner; ``catalogue`` may contain the keys of the tables.

    Raises:
        FatalError: Masks cannot be read, or pairs are too far apart.
    """
    pairs = PairFinder(expects_before=held is not None and held.expects_before)
    evidence: dict[tuple[str, ...], MaskEvidence] = {}
    # files with the same columns share a reading of masks
    keys = [layout.names for layout in layouts]
    for number in range(len(splits)):
        masks = evidence.setdefault(keys[number], MaskEvidence())
        for rows in headers_of(number):
            pairs.add(number, rows)
            masks.add(_count_masks(rows, layouts[number]))
    pairs.pair_remaining(len(splits), headers_of, all_of)
    plans: dict[tuple[str, ...], SplitPlan] = {}
    for number, names in enumerate(keys):
        if names not in plans:
            alike = [other for other, key in enumerate(keys) if key == names]
            where, layout = splits[number].path, layouts[number]
            known = None if held is None else held.readings.get(names)
            masks = evidence[names]
            masks.key = _key_bits(masks, layout, options, catalogue)
            plans[names] = _calibrate(masks, layout, alike, options, all_of, where, known)
            if held is not None and (reading := plans[names].reading) is not None:
                held.readings[names] = reading
    cut = None if held is None else held.find_cut(pairs)
    return _complete_plans(splits, [plans[key] for key in keys], pairs, cut)


def survey_table(
    layout: ChangeTableLayout,
    options: ChangeTableOptions,
    read_first: FullRows,
    where: str,
    window: int,
    catalogue: Catalogue | None = None,
) -> SplitPlan:
    """Surveys the first rows of a table, which ``read_first`` reads in the order of change_seq.

    Raises:
        FatalError: Masks cannot be read.
    """
    evidence = MaskEvidence()
    for rows in read_first(0):
        evidence.add(_count_masks(rows, layout))
    evidence.key = _key_bits(evidence, layout, options, catalogue)
    plan = _calibrate(evidence, layout, [0], options, read_first, where)
    return replace(plan, window=window)


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


def _calibrate(
    evidence: MaskEvidence,
    layout: ChangeTableLayout,
    splits: list[int],
    options: ChangeTableOptions,
    all_of: FullRows,
    where: str,
    known: MaskReading | None = None,
) -> SplitPlan:
    """Infers the reading of masks; uses ``known`` if the records leave several readings."""
    if not evidence.masks:
        return SplitPlan()
    width = len(layout.data)
    candidates = candidate_readings(options, layout.header_counts)
    reading = infer_reading(evidence, candidates, width, where)
    if reading is None:
        evidence.differences = _count_differences(splits, layout, all_of)
        reading = infer_reading(evidence, candidates, width, where)
    remaining = remaining_readings(evidence, candidates, width)
    if reading is None:
        if known not in remaining:
            raise ambiguity_error(remaining, where)
        reading = known
    key = _key_in_masks(evidence, reading, layout.data)
    return SplitPlan(reading, key, sure=len(remaining) == 1)


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
    splits: list[int], layout: ChangeTableLayout, all_of: FullRows
) -> Counter[tuple[str, int]]:
    """Counts the masks of UPDATEs, each with the columns that differ from the before image."""
    counts: Counter[tuple[str, int]] = Counter()
    read = 0
    for number in splits:
        for rows in all_of(number):
            read += len(rows)
            counts.update(_compare_images(rows, layout))
            if counts.total() >= MAX_PAIRS_COMPARED or read >= MAX_ROWS_COMPARED:
                return counts
    return counts


def _compare_images(rows: ChangeRows, layout: ChangeTableLayout) -> Iterator[tuple[str, int]]:
    partners = find_partners(rows.operations == ChangeOperation.BEFORE_IMAGE, rows.high, rows.low)
    partners = np.where(rows.placed, partners, -1)
    updates = np.flatnonzero((partners >= 0) & (rows.operations == ChangeOperation.UPDATE))
    updates = updates[:MAX_PAIRS_COMPARED]
    if not len(updates):
        return
    pairs = updates[rows.operations[partners[updates]] == ChangeOperation.BEFORE_IMAGE]
    after = rows.batch.take(pa.array(pairs)).select(list(layout.data)).to_pylist()
    before = rows.batch.take(pa.array(partners[pairs])).select(list(layout.data)).to_pylist()
    masks = rows.batch.column(layout.headers["change_mask"]).take(pa.array(pairs)).to_pylist()
    for mask, new, old in zip(masks, after, before, strict=True):
        differing = sum(1 << i for i, name in enumerate(layout.data) if new[name] != old[name])
        if mask and differing:
            yield mask.strip(), differing


def _complete_plans(
    splits: list[Split[FileRange]], shared: list[SplitPlan], pairs: PairFinder, cut: str | None
) -> list[SplitPlan]:
    """Adds the facts about each split to the plan that it shares with similar files."""
    given, copies = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    taking = defaultdict[int, list[DistantImage]](list)
    for u_split, u_row, b_split, b_row in sorted(pairs.strays):
        given[b_split].append(b_row)
        taking[u_split].append(DistantImage(u_row, b_split - u_split, b_row))
    doubles = defaultdict[int, list[tuple[int, RecordFault]]](list)
    for images, updates in pairs.doubles:
        names = [f"{Path(splits[split].path).name}, record {row}," for split, row in images]
        fault = double_fault(names)
        for number, row in (*images, *updates):
            doubles[number].append((row, fault))
    for number, row in pairs.copies:
        copies[number].append(row)
    ranking = Ranking.of(pairs.least, max(pairs.least, pairs.greatest))
    plans = []
    for number, plan in enumerate(shared):
        steps = dict.fromkeys(image.step for image in taking[number])
        completed = replace(
            plan,
            ranking=ranking,
            window=pairs.window if pairs.any_before else 0,
            given=tuple(given[number]),
            taking=tuple(taking[number]),
            others=tuple(OtherSplit(step, splits[number + step]) for step in steps),
            copies=tuple(copies[number]),
            doubles=tuple(doubles[number]),
            cut=cut,
        )
        plans.append(completed)
    return plans
