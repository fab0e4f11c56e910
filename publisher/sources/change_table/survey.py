"""One pass over the header columns before anything is read: how masks are read, which pairs are apart.

It runs where splits are made, so that every task reads the same way, and holds no more than
``join_rows`` UPDATEs and ``join_strays`` before images, whatever the length of the input.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.catalogue import Catalogue
from publisher.sources.change_table.before_images import partners
from publisher.sources.change_table.change_mask import MaskProblem
from publisher.sources.change_table.change_seq import Ranking
from publisher.sources.change_table.chosen import RowSelection
from publisher.sources.change_table.holding import HeldRows
from publisher.sources.change_table.layout import ChangeTableLayout
from publisher.sources.change_table.mask_calibration import (
    MaskEvidence,
    MaskReading,
    columns_of,
    decided,
    possible,
    readings,
    refuse,
)
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.pairs import FullRows, HeaderRows, PairFinder
from publisher.sources.change_table.rows import ChangeOperation, ChangeRows
from publisher.sources.change_table.values import known_key
from publisher.sources.files.file_splits import Split

PAIRS_COMPARED = 2_000
ROWS_COMPARED = 100_000
"""Before images compared with their UPDATE, and rows read for that, at most."""


@dataclass(slots=True)
class SplitPlan:
    """What the task of a split has to know; goes through JSON."""

    order: str | None = None
    headers: int = 0
    """How masks are read; without an order there are none."""
    key: list[str] = field(default_factory=list)
    """Key columns that the masks of deletes show."""
    sure: bool = False
    """Whether the masks leave no other reading, also for others than these."""
    least: int = Ranking().least
    shift: int = Ranking().shift
    """How change numbers go into ranks."""
    window: int = 0
    """Distance in row numbers of an UPDATE and its before image."""
    given: list[int] = field(default_factory=list)
    """Rows of before images whose UPDATE lies in another split, or too far away."""
    taking: list[tuple[int, int, int]] = field(default_factory=list)
    """UPDATE row, index in ``from_``, row there of its before image."""
    from_: list[dict[str, object]] = field(default_factory=list)
    """The splits to fetch before images from."""
    steps: list[int] = field(default_factory=list)
    """How many splits after that of the task each of ``from_`` is."""
    copies: list[int] = field(default_factory=list)
    """Rows that repeat an UPDATE or a before image word by word."""
    in_order: bool = False
    """Whether rows come in the order of change_seq, so that copies lie side by side."""
    cut: str | None = None
    """Rows from this change_seq on are held: one of them waits for its partner."""
    chosen: RowSelection | None = None
    """Of a live table, the rows to read where not all are."""

    @property
    def reading(self) -> MaskReading | None:
        """How masks are read, ``None`` where there are none."""
        return None if self.order is None else MaskReading(self.order, self.headers)  # type: ignore[arg-type]

    @property
    def ranking(self) -> Ranking:
        """How change numbers go into ranks."""
        return Ranking(self.least, self.shift)

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> SplitPlan:
        """From JSON; what was found out of nothing where there is no text."""
        plain = json.loads(text) if text else {}
        plain["taking"] = [tuple(one) for one in plain.get("taking", [])]
        if chosen := plain.get("chosen"):
            listed = tuple(tuple(one) for one in chosen["listed"])
            plain["chosen"] = RowSelection(**chosen | {"listed": listed})
        return cls(**plain)


def surveyed(
    splits: list[Split],
    layouts: list[ChangeTableLayout],
    options: ChangeTableOptions,
    headers_of: HeaderRows,
    all_of: FullRows,
    holding: HeldRows | None = None,
    catalogue: Catalogue | None = None,
) -> list[Split]:
    """The splits with what was found out; ``layouts`` has the layout of each.

    ``holding`` says which rows wait for a partner, ``catalogue`` may know the keys of the tables.  Raises
    ``FatalError`` where masks cannot be read, or pairs are too far apart.
    """
    pairs = PairFinder(options, expects_before=holding is not None and holding.expects_before)
    evidence: dict[tuple[str, ...], MaskEvidence] = {}
    keys = [layout.names for layout in layouts]  # files with the same columns read masks alike
    for number in range(len(splits)):
        masks = evidence.setdefault(keys[number], MaskEvidence())
        for rows in headers_of(number):
            pairs.add(number, rows)
            masks.add(_masks(rows, layouts[number]))
    if pairs.has_lone():
        for number in range(len(splits)):
            for rows in headers_of(number):
                pairs.look_again(number, rows)
        pairs.settle(all_of)
    found: dict[tuple[str, ...], SplitPlan] = {}
    for number, names in enumerate(keys):
        if names not in found:
            same = [other for other, key in enumerate(keys) if key == names]
            where, layout = splits[number].path, layouts[number]
            known = None if holding is None else holding.readings.get(names)
            masks = evidence[names]
            masks.key = _key_bits(masks, layout, options, catalogue)
            found[names] = _calibrated(masks, layout, same, options, all_of, where, known)
            if holding is not None and (reading := found[names].reading) is not None:
                holding.readings[names] = reading
    cut = None if holding is None else holding.cut(pairs)
    return _told(splits, [found[key] for key in keys], pairs, cut)


def surveyed_table(
    layout: ChangeTableLayout,
    options: ChangeTableOptions,
    first: FullRows,
    where: str,
    window: int,
    catalogue: Catalogue | None = None,
) -> SplitPlan:
    """What the first rows of a table say, which is read in the order of change_seq.

    Raises ``FatalError`` where masks cannot be read.
    """
    evidence = MaskEvidence()
    for rows in first(0):
        evidence.add(_masks(rows, layout))
    evidence.key = _key_bits(evidence, layout, options, catalogue)
    found = _calibrated(evidence, layout, [0], options, first, where)
    return replace(found, window=window)


def _masks(rows: ChangeRows, layout: ChangeTableLayout) -> Iterator[tuple[tuple[int, str], int]]:
    """Masks with their operation, and how often they are there."""
    name = layout.headers.get("change_mask")
    if name is None:
        return
    masks = pc.utf8_trim_whitespace(rows.batch.column(name)).fill_null("")
    for operation in (ChangeOperation.INSERT, ChangeOperation.UPDATE, ChangeOperation.DELETE):
        counts = pc.value_counts(masks.filter(pa.array(rows.operations == operation)))
        for item in counts.to_pylist():
            if item["values"].strip("0xX\\"):
                yield (int(operation), item["values"]), item["counts"]


def _calibrated(
    evidence: MaskEvidence,
    layout: ChangeTableLayout,
    splits: list[int],
    options: ChangeTableOptions,
    all_of: FullRows,
    where: str,
    known: MaskReading | None = None,
) -> SplitPlan:
    """How masks are read; as ``known`` where the records do not tell."""
    if not evidence.any:
        return SplitPlan()
    width = len(layout.data)
    choices = readings(options, layout.header_counts)
    reading = decided(evidence, choices, width, where)
    if reading is None:
        evidence.differences = _differences(splits, layout, all_of)
        reading = decided(evidence, choices, width, where)
    if reading is None:
        left = possible(evidence, choices, width)
        if known not in left:
            raise refuse(left, where)
        reading = known
    sure = len(possible(evidence, choices, width)) == 1
    return SplitPlan(reading.order, reading.headers, _key_of(evidence, reading, layout.data), sure)


def _key_bits(
    evidence: MaskEvidence,
    layout: ChangeTableLayout,
    options: ChangeTableOptions,
    catalogue: Catalogue | None,
) -> int:
    """The primary key as bits by data column; 0 where nobody knows it, or masks of deletes show another
    index.  The catalogue is asked last, and only if there is a delete whose mask the key may explain."""
    deletes = any(operation == ChangeOperation.DELETE for operation, _ in evidence.masks)
    if not deletes or not options.key_from_deletes:
        return 0
    key = layout.key or options.key or known_key(layout, catalogue, options)
    wanted = {name.casefold() for name in key}
    places = [place for place, name in enumerate(layout.data) if name.casefold() in wanted]
    return sum(1 << place for place in places) if len(places) == len(wanted) else 0


def _key_of(evidence: MaskEvidence, reading: MaskReading, data: tuple[str, ...]) -> list[str]:
    """The columns that the masks of most deletes set."""
    seen: Counter[int] = Counter()
    for (operation, mask), count in evidence.masks.items():
        if operation == ChangeOperation.DELETE:
            try:
                seen[columns_of(mask, reading, len(data))] += count
            except MaskProblem:
                continue
    if not seen:
        return []
    ((bits, _),) = seen.most_common(1)
    return [name for place, name in enumerate(data) if bits >> place & 1]


def _differences(
    splits: list[int], layout: ChangeTableLayout, all_of: FullRows
) -> Counter[tuple[str, int]]:
    """Masks of UPDATEs with the columns in which their before image differs."""
    seen: Counter[tuple[str, int]] = Counter()
    read = 0
    for number in splits:
        for rows in all_of(number):
            read += len(rows)
            seen.update(_compared(rows, layout))
            if seen.total() >= PAIRS_COMPARED or read >= ROWS_COMPARED:
                return seen
    return seen


def _compared(rows: ChangeRows, layout: ChangeTableLayout) -> Iterator[tuple[str, int]]:
    found = partners(rows.operations == ChangeOperation.BEFORE_IMAGE, rows.high, rows.low)
    found = np.where(rows.placed, found, -1)
    updates = np.flatnonzero((found >= 0) & (rows.operations == ChangeOperation.UPDATE))[
        :PAIRS_COMPARED
    ]
    if not len(updates):
        return
    pairs = updates[rows.operations[found[updates]] == ChangeOperation.BEFORE_IMAGE]
    after = rows.batch.take(pa.array(pairs)).select(list(layout.data)).to_pylist()
    before = rows.batch.take(pa.array(found[pairs])).select(list(layout.data)).to_pylist()
    masks = rows.batch.column(layout.headers["change_mask"]).take(pa.array(pairs)).to_pylist()
    for mask, new, old in zip(masks, after, before, strict=True):
        differing = sum(1 << i for i, name in enumerate(layout.data) if new[name] != old[name])
        if mask and differing:
            yield mask.strip(), differing


def _told(
    splits: list[Split], shared: list[SplitPlan], pairs: PairFinder, cut: str | None
) -> list[Split]:
    """The splits, each with what its task has to know."""
    window = pairs.window if pairs.any_before else 0
    ranking = Ranking.of(pairs.least, max(pairs.least, pairs.greatest))
    own = [
        replace(
            found,
            **ranking._asdict(),
            window=window,
            given=[],
            taking=[],
            from_=[],
            steps=[],
            copies=[],
            cut=cut,
        )
        for found in shared
    ]
    for u_split, u_row, b_split, b_row in sorted(pairs.strays):
        own[b_split].given.append(b_row)
        plain = {k: v for k, v in asdict(splits[b_split]).items() if k != "found"}
        if plain not in own[u_split].from_:
            own[u_split].from_.append(plain)
            own[u_split].steps.append(b_split - u_split)
        own[u_split].taking.append((u_row, own[u_split].from_.index(plain), b_row))
    for number, row in pairs.copies:
        own[number].copies.append(row)
    return [replace(split, found=found.text()) for split, found in zip(splits, own, strict=True)]
