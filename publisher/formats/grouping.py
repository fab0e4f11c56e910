"""Brings rows that depend on each other into one partition, where their format relates them.

Rows of one group have the same numbers in the columns that ``Source.group_columns`` names, and a group is
never divided.  Rows travel as packed batches with the schema of their format, so that sources of any formats
share one exchange.  Records that depend on no other row travel with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.formats.contract import AnySplit, Context, Source
from publisher.model.arrays import Int64Array, integers
from publisher.model.packed_batches import BatchGatherer, gather, pack_batch, unpack_batch
from publisher.model.record_schema import RECORD_SCHEMA

PACKED_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("source", pa.int32()), ("data", pa.binary())]
)
"""Packed rows of one source; ``source`` is its number in the job."""
_BYTES = 4 << 20
"""Bytes of records and rows that are packed together."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Relate = Callable[[int, Sequence[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""Relates the rows of one source, given by its number, in one partition."""


def pack_rows(
    batches: Iterable[pa.RecordBatch],
    group_columns: Sequence[str],
    source: int,
    split: int,
    partitions: int,
) -> Iterator[pa.RecordBatch]:
    """Packs the rows and records of a split: rows for the partition of their group, records for any."""
    records = BatchGatherer(_BYTES)
    for batch in batches:
        if batch.schema.equals(RECORD_SCHEMA):
            for joined in records.add(batch):
                yield _pack(split % partitions, source, joined)
            continue
        numbers = partition_numbers([batch.column(name) for name in group_columns], partitions)
        for partition, rows in _divide(batch, numbers):
            yield _pack(partition, source, rows)
    for joined in records.flush():
        yield _pack(split % partitions, source, joined)


def relate_partition(packed: Iterable[pa.RecordBatch], relate: Relate) -> Iterator[pa.RecordBatch]:
    """Yields the records of a partition: those that travelled, and those that ``relate`` makes of rows."""
    rows: dict[int, list[pa.RecordBatch]] = {}
    for batch in packed:
        for source, data in zip(batch["source"].to_pylist(), batch["data"], strict=True):
            unpacked = unpack_batch(data.as_buffer())
            if unpacked.schema.equals(RECORD_SCHEMA):
                yield unpacked
            else:
                rows.setdefault(source, []).append(unpacked)
    for source in sorted(rows):
        yield from relate(source, rows.pop(source))


def divide_rows(packed: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the partitions of packed rows."""
    return _divide(packed, integers(packed["partition"]))


def pack_by_split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs records so that those of a split meet again."""
    for batch in gather(batches, _BYTES):
        for split, records in _divide(batch, integers(batch["split"])):
            yield _pack(split, 0, records)


def unpack_records(packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the records that ``pack_by_split`` packed."""
    for batch in packed:
        yield from (unpack_batch(data.as_buffer()) for data in batch["data"])


def read_alone(
    source: Source, split: AnySplit, number: int, ctx: Context
) -> Iterator[pa.RecordBatch]:
    """Reads the records of a split as if it were the whole input; its tally comes last."""
    rows: list[pa.RecordBatch] = []
    records: list[pa.RecordBatch] = []
    for batch in source.decode(split, number, ctx):
        (records if batch.schema.equals(RECORD_SCHEMA) else rows).append(batch)
    yield from records[:-1]
    if rows:
        yield from source.relate(rows, ctx)
    yield from records[-1:]


def partition_numbers(columns: Sequence[pa.Array], partitions: int) -> Int64Array:
    """Computes the partition of each row from numbers: rows with equal numbers have the same one.

    >>> first, second = pa.array([7, 7, 8]), pa.array([1, 1, 1])
    >>> same, again, _ = partition_numbers([first, second], 4).tolist()
    >>> same == again
    True
    """
    mixed: npt.NDArray[np.uint64] = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = (mixed ^ integers(column).view(np.uint64)) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(partitions)).astype(np.int64)


def _divide(rows: pa.RecordBatch, numbers: Int64Array) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of each number, in their order."""
    if not len(numbers):
        return
    if np.any(numbers[1:] < numbers[:-1]):
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows.take(pa.array(order)), numbers[order]
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(starts):
        yield int(numbers[start]), rows.slice(start, stop - start)


def _pack(partition: int, source: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"partition": [partition], "source": [source], "data": [pack_batch(rows)]}, PACKED_SCHEMA
    )
