"""Packs rows of a table into pieces by bucket, which the shuffle moves from reading to comparing tasks.

The engine moves few rows with much data each, instead of the rows of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.model.packed_batches import BatchGatherer, concat, pack_batch
from publisher.sources.columns.object_names import RecordFault
from publisher.sources.triggerless.comparison import Comparison
from publisher.sources.triggerless.differences import TableRows
from publisher.sources.triggerless.hashing import Hashes

ROWS = 1 << 16
BYTES = 8 << 20
"""Rows or bytes that are collected before they are cut into pieces."""


class PieceKind(IntEnum):
    """Kind of a piece."""

    NOW = 0
    BEFORE = 1
    REJECTED = 2
    TALLY = 3
    """The number of rows of a split, counted where the rows were framed."""
    BLIND = 4
    """Some rows of the table are unreadable, so unseen rows may still exist."""
    MARK = 5
    """Shows only that the bucket exists."""


BUCKET_PIECE_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.int32()),
        ("split", pa.int32()),
        ("member", pa.int32()),
        ("rows", pa.int64()),
        ("data", pa.binary()),
    ]
)


class BucketPiece(NamedTuple):
    """One row of ``BUCKET_PIECE_SCHEMA``."""

    partition: int
    kind: PieceKind
    split: int
    member: int
    """Number of the table in its class; 0 is the parent."""
    rows: int
    data: Any = None
    """The packed rows: bytes, or a buffer if they are read."""


REJECT_SCHEMA = pa.schema([("reason", pa.string()), ("detail", pa.string()), ("raw", pa.string())])


def bucket_of(hashes: Hashes, buckets: int) -> np.ndarray:
    """The bucket of each hash; buckets are ranges of hashes."""
    bits = buckets.bit_length() - 1
    if not bits:
        return np.zeros(len(hashes), np.int32)
    return (hashes >> np.uint64(64 - bits)).astype(np.int32)


@dataclass(slots=True)
class PiecePacker:
    """Collects the rows of one split and table, and cuts them by bucket."""

    first: int
    """Partition of the table's first bucket."""
    buckets: int
    kind: PieceKind
    split: int
    member: int = 0
    """Number of the table in its class; 0 is the parent."""
    _waiting: BatchGatherer = field(default_factory=lambda: BatchGatherer(BYTES, ROWS))

    def add(
        self, hashes: Hashes, keys: pa.Array, values: Sequence[pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        """Collects rows; yields pieces once there are enough."""
        names = ["hash", "key", *(str(n) for n in range(len(values)))]
        batch = pa.RecordBatch.from_arrays([pa.array(hashes), keys, *values], names=names)
        yield from map(self._cut, self._waiting.add(batch))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields the pieces of the remaining rows."""
        yield from map(self._cut, self._waiting.flush())

    def rejects(self, faults: Sequence[tuple[RecordFault, str]]) -> pa.RecordBatch:
        """The piece of unreadable rows, which goes to one of the table's buckets."""
        packed = pack_batch(reject_batch(faults))
        return self._piece(self._own_bucket(), PieceKind.REJECTED, len(faults), packed)

    def tally(self, framed: int) -> pa.RecordBatch:
        """The piece with the number of rows of the split."""
        return self._piece(self._own_bucket(), PieceKind.TALLY, framed)

    def blind(self) -> Iterator[pa.RecordBatch]:
        """Yields one piece for each bucket of the table; each piece reports unreadable rows."""
        for bucket in range(self.buckets):
            yield self._piece(self.first + bucket, PieceKind.BLIND, 0)

    def _piece(
        self, partition: int, kind: PieceKind, rows: int, data: bytes | None = None
    ) -> pa.RecordBatch:
        return piece(BucketPiece(partition, kind, self.split, self.member, rows, data))

    def _own_bucket(self) -> int:
        return self.first + self.split % self.buckets

    def _cut(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        buckets = bucket_of(rows.column("hash").to_numpy(), self.buckets)
        if self.buckets > 1:
            order = np.argsort(buckets, kind="stable")
            rows, buckets = rows.take(pa.array(order)), buckets[order]
        starts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
        runs = [(start, end - start) for start, end in pairwise(starts)]
        return pa.RecordBatch.from_arrays(
            [
                pa.array(buckets[starts[:-1]] + self.first, pa.int32()),
                pa.array(np.full(len(runs), self.kind), pa.int32()),
                pa.array(np.full(len(runs), self.split), pa.int32()),
                pa.array(np.full(len(runs), self.member), pa.int32()),
                pa.array([size for _, size in runs], pa.int64()),
                pa.array(
                    [pack_batch(rows.slice(start, size)) for start, size in runs], pa.binary()
                ),
            ],
            schema=BUCKET_PIECE_SCHEMA,
        )


def reject_batch(faults: Sequence[tuple[RecordFault, str]]) -> pa.RecordBatch:
    """A batch of rejected rows: their faults, and the rows as JSON text."""
    columns = [
        pa.array([str(fault.reason) for fault, _ in faults], pa.string()),
        pa.array([fault.detail for fault, _ in faults], pa.string()),
        pa.array([raw for _, raw in faults], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REJECT_SCHEMA)


def marks(comparison: Comparison) -> Iterator[pa.RecordBatch]:
    """Yields a piece for each bucket, so that buckets without rows are compared, too."""
    for partition in range(comparison.partitions):
        yield piece(BucketPiece(partition, PieceKind.MARK, 0, 0, 0))


def piece(values: BucketPiece) -> pa.RecordBatch:
    """A batch of one piece."""
    return pa.RecordBatch.from_pylist([values._asdict()], schema=BUCKET_PIECE_SCHEMA)


def rows_of(batches: Sequence[pa.RecordBatch], columns: int) -> TableRows:
    """The rows of all pieces of a bucket."""
    if not batches:
        empty = pa.array([], pa.string())
        return TableRows(np.zeros(0, np.uint64), empty, [empty] * columns)
    all_rows = concat(batches)
    return TableRows(
        all_rows.column("hash").to_numpy(),
        all_rows.column("key"),
        [*all_rows.columns[2 : 2 + columns]],
    )


def each_piece(batches: Iterable[pa.RecordBatch]) -> Iterator[BucketPiece]:
    """Yields the pieces of one bucket."""
    for batch in batches:
        numbers = (batch.column(name).to_pylist() for name in BUCKET_PIECE_SCHEMA.names[:-1])
        for partition, kind, split, member, rows, data in zip(
            *numbers, batch.column("data"), strict=True
        ):
            content = data.as_buffer() if data.is_valid else None
            yield BucketPiece(partition, PieceKind(kind), split, member, rows, content)
