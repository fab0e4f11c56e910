"""Relates the rows of one partition: each becomes part of a change, or gets an outcome.

The rows of a change_seq are together in one partition, from whatever files.  Sorted by change_seq, an UPDATE
and its before image are neighbours, and so are copies of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from publisher.formats.change_table.change_seq import Integers
from publisher.formats.change_table.facts import InputFacts
from publisher.formats.change_table.pairs import PairedRows, SortedRows, relate_rows
from publisher.formats.change_table.rows import read_rows
from publisher.formats.change_table.to_changes import ChangeTableChangeBuilder
from publisher.formats.columns.object_names import RecordFault
from publisher.model.change import Reason

_CELLS = 4 << 20
"""Cells of the images that become changes together."""


def relate(
    batches: Sequence[pa.RecordBatch],
    facts: InputFacts,
    builder_of: Callable[[int], ChangeTableChangeBuilder],
) -> Iterator[pa.RecordBatch]:
    """Yields the records of decoded rows; ``builder_of`` creates the builder of a table by its number."""
    by_table: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        table = facts.files[batch.column("file")[0].as_py()].table
        by_table.setdefault(table, []).append(batch)
    builders = [builder_of(number) for number in by_table]
    rows = relate_rows([read_rows(pa.concat_batches(tables)) for tables in by_table.values()])
    for table, copies in rows.rows(rows.copies):
        yield builders[table].rejects.ignore_copies(copies)
    for group in rows.doubles:
        yield from _reject_doubles(rows, group, facts, builders)
    for table, pairs in _operations(rows):
        yield from builders[table].records(pairs)


def _reject_doubles(
    rows: SortedRows,
    group: Integers,
    facts: InputFacts,
    builders: Sequence[ChangeTableChangeBuilder],
) -> Iterator[pa.RecordBatch]:
    """Rejects an UPDATE with several different before images, which the message names by their places."""
    names = []
    for row in group[rows.is_image[group]].tolist():
        table, place = rows.tables[rows.table[row]], rows.place[row]
        name = facts.files[table.files[place]].name
        number = f"record {table.numbers[place]}"
        names.append(f"{name}, {number}," if name else number)
    fault = RecordFault(
        Reason.DOUBLE_RECORD,
        f"{' and '.join(names)} are different before images of one UPDATE: remove the wrong one",
    )
    for table, members in rows.rows(group):
        members.reject(np.ones(len(members), bool), fault)
        yield builders[table].rejects.reject_rows(members)


def _operations(rows: SortedRows) -> Iterator[tuple[int, PairedRows]]:
    """Yields the operations on each table, first those without before image."""
    which, partners = rows.operations, rows.partner[rows.operations]
    # a before image may be in a file with other columns than its UPDATE
    image_tables = np.where(partners >= 0, rows.table[partners], -1)
    for table, image_table in sorted(
        {*zip(rows.table[which].tolist(), image_tables.tolist(), strict=True)}
    ):
        chosen = (rows.table[which] == table) & (image_tables == image_table)
        operations, images = which[chosen], partners[chosen]
        size = max(1, _CELLS // rows.tables[table].batch.num_columns)
        for start in range(0, len(operations), size):
            part = slice(start, start + size)
            yield table, _pair(rows, table, operations[part], images[part])


def _pair(rows: SortedRows, table: int, which: Integers, images: Integers) -> PairedRows:
    after = rows.tables[table].take(rows.place[which])
    if images[0] < 0:
        schema = after.batch.schema
        nothing = [pa.nulls(len(which), item.type) for item in schema]
        before = pa.RecordBatch.from_arrays(nothing, schema=schema)
        zeros = np.zeros(len(which), np.int64)
        return PairedRows(after, before, np.zeros(len(which), bool), zeros, zeros)
    source = rows.tables[rows.table[images[0]]]
    places = rows.place[images]
    return PairedRows(
        after,
        rows.images(images, table),
        np.ones(len(which), bool),
        source.splits[places],
        source.numbers[places],
    )
