"""Pairs of an UPDATE and its before image among sorted rows, and copies that no pair needs.

Both records of a pair have one ``change_seq``, and may be anywhere in the input.  The i-th UPDATE of a
change_seq belongs to its i-th before image, in the order of the input, so each copy of a repeated record has
a partner of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from publisher.formats.change_table.change_seq import Flags, Integers
from publisher.formats.change_table.rows import ChangeOperation, ChangeRows
from publisher.formats.columns.byte_areas import begins_run
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.columns.record_batches import as_json
from publisher.model.change import Reason

ALONE = RecordFault(
    Reason.BEFORE_IMAGE_ALONE,
    "a before image without UPDATE: no UPDATE in the input has its change_seq; add the file that has it",
)


class PairedRows(NamedTuple):
    """Operations with their before images, if these are known."""

    after: ChangeRows
    before: pa.RecordBatch
    """The before image of each row, all NULL if it has none."""
    has_before: Flags
    splits: Integers
    numbers: Integers
    """The split of each before image, and its row number in its file."""
    before_is_record: bool = True
    """Whether each before image is a record of its own; in messages it is a part of the UPDATE."""

    @property
    def records(self) -> Integers:
        """Number of records of each operation."""
        if not self.before_is_record:
            return np.ones(len(self.after), np.int64)
        return 1 + self.has_before


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows of several tables with their relations; rows are numbered through all tables.

    The columns of a table remain where they are: ``table`` and ``place`` say where a row is."""

    tables: Sequence[ChangeRows]
    table: Integers
    place: Integers
    """Index of each row in its table."""
    is_image: Flags
    """Marks before images."""
    partner: Integers
    """The other row of the pair of each row, -1 for none."""
    operations: Integers
    """The rows that are operations, with or without partner, in the order of change_seq."""
    copies: Integers
    """Rows that repeat an UPDATE or before image of a complete pair."""
    doubles: Sequence[Integers]
    """UPDATEs with several different before images: all rows of each change_seq."""

    def rows(self, which: Integers) -> Iterator[tuple[int, ChangeRows]]:
        """Yields some rows of each table, with its number."""
        for table in np.unique(self.table[which]).tolist():
            places = self.place[which[self.table[which] == table]]
            yield table, self.tables[table].take(places)

    def images(self, which: Integers, table: int) -> pa.RecordBatch:
        """Returns rows of one table with all columns of another one; those that it lacks are NULL."""
        (source,) = np.unique(self.table[which]).tolist()
        images = self.tables[source].batch.take(pa.array(self.place[which]))
        schema = self.tables[table].batch.schema
        if images.schema.equals(schema):
            return images
        present = set(images.schema.names)
        columns = [
            images.column(name) if name in present else pa.nulls(len(which), pa.string())
            for name in schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def relate_rows(tables: Sequence[ChangeRows]) -> SortedRows:
    """Sorts rows by change_seq, and relates UPDATEs and before images to their neighbours."""
    table = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables])
    place = np.concatenate([np.arange(len(rows)) for rows in tables])
    high, low, kinds, files, numbers = (
        np.concatenate(columns)
        for columns in zip(
            *((r.high, r.low, r.operations, r.files, r.numbers) for r in tables), strict=True
        )
    )
    before = kinds == ChangeOperation.BEFORE_IMAGE
    order = np.lexsort((numbers, files, before, low, high))
    # UPDATEs and before images of one change_seq are neighbours: first all UPDATEs, then all before images
    halves = order[(before | (kinds == ChangeOperation.UPDATE))[order]]
    copies: list[Integers] = []
    doubles: list[Integers] = []
    for island in _uneven_islands(halves, high, low, before):
        contents = [_content(tables[table[row]], place[row]) for row in island.tolist()]
        surplus = _find_surplus(before[island].tolist(), contents)
        copies.append(island[surplus])
        originals = np.delete(island, surplus)
        # nobody knows which of several before images has the old values
        if 2 * before[originals].sum() > len(originals):
            doubles.append(originals)
    ended = np.concatenate([np.zeros(0, np.int64), *copies, *doubles])
    halves = halves[~np.isin(halves, ended)] if len(ended) else halves
    partner = np.full(len(table), -1)
    partner[halves] = _find_partners(halves, high, low, before)
    is_operation = ~(before & (partner >= 0))
    is_operation[ended] = False
    return SortedRows(
        tables,
        table,
        place,
        before,
        partner,
        order[is_operation[order]],
        np.concatenate([np.zeros(0, np.int64), *copies]),
        doubles,
    )


def _find_partners(halves: Integers, high: Integers, low: Integers, before: Flags) -> Integers:
    """The i-th UPDATE of an island belongs to its i-th before image."""
    if not len(halves):
        return halves
    starts, sizes = _islands(halves, high, low)
    updates = np.add.reduceat((~before[halves]).astype(np.int64), starts)
    start, size, update_count = (np.repeat(each, sizes) for each in (starts, sizes, updates))
    offset = np.arange(len(halves)) - start
    is_image = before[halves]
    partner = np.where(is_image, offset - update_count, offset + update_count)
    has_partner = np.where(is_image, partner < update_count, partner < size)
    at = np.where(has_partner, start + partner, 0)
    return np.where(has_partner, halves[at], -1)


def _islands(halves: Integers, high: Integers, low: Integers) -> tuple[Integers, Integers]:
    """Starts and sizes of the runs of rows with one change_seq."""
    starts = np.flatnonzero(begins_run(high[halves], low[halves]))
    return starts, np.diff(np.append(starts, len(halves)))


def _uneven_islands(
    halves: Integers, high: Integers, low: Integers, before: Flags
) -> Iterator[Integers]:
    """Yields the rows of each change_seq with UPDATEs and before images, but more of the one."""
    if not len(halves):
        return
    starts, sizes = _islands(halves, high, low)
    images = np.add.reduceat(before[halves].astype(np.int64), starts)
    uneven = np.flatnonzero((images > 0) & (images < sizes) & (2 * images != sizes))
    for island in uneven.tolist():
        yield halves[starts[island] : starts[island] + sizes[island]]


def _find_surplus(before: Sequence[bool], contents: Sequence[str]) -> list[int]:
    """Finds the copies that no pair needs among the UPDATEs and before images of one change_seq.

    >>> _find_surplus([False, True, True], ["new", "old", "old"])
    [2]
    """
    images = sum(before)
    extra = abs(len(before) - 2 * images)
    more_images = images > len(before) - images
    seen: set[str] = set()
    copies = []
    for place, content in enumerate(contents):
        if before[place] == more_images:
            if content in seen:
                copies.append(place)
            seen.add(content)
    return copies[len(copies) - extra :] if len(copies) > extra else copies


def _content(rows: ChangeRows, place: int) -> str:
    """Returns the text of a whole record."""
    return as_json(rows.batch.slice(place, 1).to_pylist()[0])
