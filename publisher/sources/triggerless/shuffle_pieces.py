"""Packs rows of a table into pieces by bucket, which the shuffle moves from reading to comparing tasks.

The engine moves few rows with much data each, instead of the rows of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise

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
        ("rows", pa.int64()),
        ("data", pa.binary()),
    ]
)
REJECT_SCHEMA = pa.schema([("reason", pa.string()), ("detail", pa.string()), ("raw", pa.string())])


def bucket_of(hashes: Hashes, buckets: int) -> np.ndarray:
    """The bucket of each hash; buckets are ranges of hashes."""
    bits = buckets.bit_length() - 1
    if not bits:
        return np.zeros(len(hashes), np.int32)
    return (hashes >> np.uint64(64 - bits)).astype(np.int32)


@dataclass(slots=True)
class PiecePacker:
    """Collects the rows of one split and cuts them by bucket."""

    first: int
    """Partition of the table's first bucket."""
    buckets: int
    kind: PieceKind
    split: int
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
        columns = [
            pa.array([str(fault.reason) for fault, _ in faults]),
            pa.array([fault.detail for fault, _ in faults]),
            pa.array([raw for _, raw in faults]),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=REJECT_SCHEMA)
        return piece(
            self._own_bucket(), PieceKind.REJECTED, self.split, len(faults), pack_batch(batch)
        )

    def tally(self, framed: int) -> pa.RecordBatch:
        """The piece with the number of rows of the split."""
        return piece(self._own_bucket(), PieceKind.TALLY, self.split, framed)

    def blind(self) -> Iterator[pa.RecordBatch]:
        """Yields one piece for each bucket of the table; each piece reports unreadable rows."""
        for bucket in range(self.buckets):
            yield piece(self.first + bucket, PieceKind.BLIND, self.split, 0)

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
                pa.array([size for _, size in runs], pa.int64()),
                pa.array(
                    [pack_batch(rows.slice(start, size)) for start, size in runs], pa.binary()
                ),
            ],
            schema=BUCKET_PIECE_SCHEMA,
        )


def marks(comparison: Comparison) -> Iterator[pa.RecordBatch]:
    """Yields a piece for each bucket, so that buckets without rows are compared, too."""
    for partition in range(comparison.partitions):
        yield piece(partition, PieceKind.MARK, 0, 0)


def piece(
    partition: int, kind: PieceKind, split: int, rows: int, data: bytes | None = None
) -> pa.RecordBatch:
    """A batch of one piece."""
    values = ([partition], [int(kind)], [split], [rows], [data])
    arrays = [pa.array(v, f.type) for v, f in zip(values, BUCKET_PIECE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=BUCKET_PIECE_SCHEMA)


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


def each_piece(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[PieceKind, int, int, pa.Buffer | None]]:
    """Yields kind, split, rows and data of the pieces of one bucket."""
    for batch in batches:
        kinds, splits, rows = (batch.column(n).to_pylist() for n in ("kind", "split", "rows"))
        for kind, split, count, data in zip(kinds, splits, rows, batch.column("data"), strict=True):
            yield PieceKind(kind), split, count, data.as_buffer() if data.is_valid else None
