"""From splits of tables to pieces of buckets: what reading tasks give and the shuffle carries.

As in ``packing``: the engine moves few rows with much in each, not rows of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise

import numpy as np
import pyarrow as pa

from publisher.sources.columns.object_names import Fault
from publisher.sources.columns.record_batches import as_json
from publisher.sources.triggerless.comparison import Comparison
from publisher.sources.triggerless.differences import Rows
from publisher.sources.triggerless.hashing import Hashes

ROWS = 1 << 16
BYTES = 8 << 20
"""What is collected before it is cut into pieces; whichever comes first."""


class Kind(IntEnum):
    """What a piece is."""

    NOW = 0
    BEFORE = 1
    REJECTED = 2
    TALLY = 3
    """Says in ``rows`` how many rows the split had, counted where they were framed."""
    BLIND = 4
    """Not all rows of the table could be read: what is not seen may be there."""
    MARK = 5
    """Nothing but that there is this bucket."""


PIECE_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.int32()),
        ("split", pa.int32()),
        ("rows", pa.int64()),
        ("data", pa.binary()),
    ]
)
REJECT_SCHEMA = pa.schema([("reason", pa.string()), ("detail", pa.string()), ("raw", pa.string())])
_SIZE = 8


def bucket_of(hashes: Hashes, buckets: int) -> np.ndarray:
    """The bucket of each hash: the range of hashes in which it lies."""
    bits = buckets.bit_length() - 1
    if not bits:
        return np.zeros(len(hashes), np.int32)
    return (hashes >> np.uint64(64 - bits)).astype(np.int32)


@dataclass(slots=True)
class Packer:
    """Collects the rows of one split and cuts them by bucket."""

    first: int
    """Partition of the table's first bucket."""
    buckets: int
    kind: Kind
    split: int
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _rows: int = 0
    _size: int = 0

    def add(
        self, hashes: Hashes, keys: pa.Array, values: Sequence[pa.Array]
    ) -> Iterator[pa.RecordBatch]:
        """Takes rows; gives pieces when there are enough."""
        names = ["hash", "key", *(str(n) for n in range(len(values)))]
        batch = pa.RecordBatch.from_arrays([pa.array(hashes), keys, *values], names=names)
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._size += batch.nbytes
        if self._rows >= ROWS or self._size >= BYTES:
            yield self._cut()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The pieces of what is left."""
        if self._rows:
            yield self._cut()

    def rejected(self, faults: Sequence[tuple[Fault, str]]) -> pa.RecordBatch:
        """The piece that says what could not be read; it goes to one of the table's buckets."""
        columns = [
            pa.array([str(fault.reason) for fault, _ in faults]),
            pa.array([fault.detail for fault, _ in faults]),
            pa.array([raw for _, raw in faults]),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=REJECT_SCHEMA)
        return piece(self._one(), Kind.REJECTED, self.split, len(faults), packed(batch))

    def tally(self, framed: int) -> pa.RecordBatch:
        """How many rows the split had."""
        return piece(self._one(), Kind.TALLY, self.split, framed)

    def blind(self) -> Iterator[pa.RecordBatch]:
        """Tells all buckets of the table that rows could not be read."""
        for bucket in range(self.buckets):
            yield piece(self.first + bucket, Kind.BLIND, self.split, 0)

    def _one(self) -> int:
        return self.first + self.split % self.buckets

    def _cut(self) -> pa.RecordBatch:
        rows = _one(self._waiting)
        self._waiting, self._rows, self._size = [], 0, 0
        buckets = bucket_of(rows.column("hash").to_numpy(), self.buckets)
        if self.buckets > 1:
            order = np.argsort(buckets, kind="stable")
            rows, buckets = rows.take(pa.array(order)), buckets[order]
        starts = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
        cut = [(start, end - start) for start, end in pairwise(starts)]
        return pa.RecordBatch.from_arrays(
            [
                pa.array(buckets[starts[:-1]] + self.first, pa.int32()),
                pa.array(np.full(len(cut), self.kind), pa.int32()),
                pa.array(np.full(len(cut), self.split), pa.int32()),
                pa.array([size for _, size in cut], pa.int64()),
                pa.array([packed(rows.slice(start, size)) for start, size in cut], pa.binary()),
            ],
            schema=PIECE_SCHEMA,
        )


def marks(comparison: Comparison) -> Iterator[pa.RecordBatch]:
    """One piece for each bucket, so that each is compared though no row falls into it."""
    for partition in range(comparison.partitions):
        yield piece(partition, Kind.MARK, 0, 0)


def piece(
    partition: int, kind: Kind, split: int, rows: int, data: bytes | None = None
) -> pa.RecordBatch:
    """A batch of one piece."""
    values = ([partition], [int(kind)], [split], [rows], [data])
    arrays = [pa.array(v, f.type) for v, f in zip(values, PIECE_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PIECE_SCHEMA)


def packed(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes: schema and data, compressed once, by the column."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue()
    compressed: bytes = pa.compress(data, codec="lz4_raw", asbytes=True)
    return int(data.size).to_bytes(_SIZE) + compressed


def unpacked(data: pa.Buffer) -> pa.RecordBatch:
    """The inverse of ``packed``."""
    size = int.from_bytes(data.slice(0, _SIZE).to_pybytes())
    whole = pa.decompress(data.slice(_SIZE), size, codec="lz4_raw")
    with pa.ipc.open_stream(whole) as reader:
        return reader.read_next_batch()


def rows_of(batches: Sequence[pa.RecordBatch], columns: int) -> Rows:
    """The rows of pieces that belong together."""
    if not batches:
        empty = pa.array([], pa.string())
        return Rows(np.zeros(0, np.uint64), empty, [empty] * columns)
    whole = _one(batches)
    return Rows(
        whole.column("hash").to_numpy(), whole.column("key"), [*whole.columns[2 : 2 + columns]]
    )


def raw_of(batch: pa.RecordBatch, row: int) -> str:
    """A row as JSON text."""
    return as_json(batch.slice(row, 1).to_pylist()[0])


def each(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Kind, int, int, pa.Buffer | None]]:
    """Kind, split, rows and data of the pieces of one bucket."""
    for batch in batches:
        kinds, splits, rows = (batch.column(n).to_pylist() for n in ("kind", "split", "rows"))
        for kind, split, count, data in zip(kinds, splits, rows, batch.column("data"), strict=True):
            yield Kind(kind), split, count, data.as_buffer() if data.is_valid else None


def _one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
