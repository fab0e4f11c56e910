"""Exchange by group: rows that depend on each other meet in one partition, and are related there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from publisher.engine.contract import InputSize, Packing, Rows
from publisher.engine.local import LocalEngine
from publisher.formats.contract import Context, PreparedSource
from publisher.formats.grouping import (
    PACKED_SCHEMA,
    divide_rows,
    pack_by_split,
    pack_rows,
    relate_partition,
    unpack_records,
)
from publisher.formats.work import Work, relate_rows
from publisher.model.record_schema import RECORD_SCHEMA

RowsOfEngine = TypeVar("RowsOfEngine", bound=Rows)
GROUPS = Packing(PACKED_SCHEMA, "partition", divide=divide_rows)
"""How rows travel to the partition of their group."""
_BY_SPLIT = Packing(PACKED_SCHEMA, "partition", pack=pack_by_split, unpack=unpack_records)
_ROWS = 100_000
_BYTES = 32 << 20
"""Approximate rows and bytes of the input of one partition, which a task holds in memory."""


def count_partitions(size: InputSize) -> int:
    """Returns the number of partitions in which the rows of an input meet."""
    return 1 + max(size.rows // _ROWS, size.bytes // _BYTES)


def relate_groups(rows: RowsOfEngine, work: Work, folder: Path) -> RowsOfEngine:
    """Relates rows that depend on each other; without such rows there is nothing to do."""
    if not work.has_groups:
        return rows
    return rows.exchange(GROUPS, work.partitions, folder).apply(partial(relate_rows, work))


def read_here(
    prepared: PreparedSource, context: Context, folder: Path, stack: ExitStack
) -> list[Iterable[pa.RecordBatch]]:
    """Returns the records of each split, which this process reads; the stack removes files in ``folder``.

    Only records that depend on each other are read before they are asked for."""
    numbers = range(len(prepared.splits))
    source = prepared.source
    if not source.group_columns:
        return [prepared.read(number, context) for number in numbers]
    size = InputSize(bytes=sum(getattr(split, "size", 0) for split in prepared.splits))
    partitions = count_partitions(size)

    def decode(number: int) -> Iterator[pa.RecordBatch]:
        rows = source.decode(prepared.splits[number], number, context)
        return pack_rows(rows, source.group_columns, context.source, number, partitions)

    def relate(_: int, packed: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return relate_partition(packed, lambda _, rows: source.relate(rows, context))

    rows = LocalEngine(processes=1).read(numbers, decode, "read")
    moved = rows.exchange(GROUPS, partitions, folder).apply(relate)
    parts = moved.exchange(_BY_SPLIT, len(numbers), folder).open(stack)
    return [_in_order(part) for part in parts]


def _in_order(read: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split in the order of its rows, whatever partitions they come from."""
    records = pa.Table.from_batches(read(), RECORD_SCHEMA)
    yield from records.sort_by([("row", "ascending"), ("ordinal", "ascending")]).to_batches()
