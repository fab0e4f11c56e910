"""Gathers Arrow batches, and packs them for the shuffle: compressed, so that the engine moves less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

_SIZE = 8
"""Length in bytes of the prefix that states the size of the data before compression."""


@dataclass(slots=True)
class BatchGatherer:
    """Joins small batches until they reach a number of bytes or rows."""

    size: int
    """Minimum number of bytes of a joined batch."""
    rows: int | None = None
    """Number of rows that completes a batch with fewer bytes; ``None``: only bytes count."""
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _rows: int = 0
    _size: int = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Adds a batch; yields the waiting batches as one if they reach a limit."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._size += batch.nbytes
        if self._size >= self.size or (self.rows is not None and self._rows >= self.rows):
            yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yields the waiting batches as one, if they have rows."""
        waiting, rows = self._waiting, self._rows
        self._waiting, self._rows, self._size = [], 0, 0
        if rows:
            joined = concat(waiting)
            waiting.clear()  # frees their memory while the joined batch is processed
            yield joined


def gather(
    batches: Iterable[pa.RecordBatch], size: int, rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Joins small batches to batches of at least ``size`` bytes or ``rows`` rows."""
    gatherer = BatchGatherer(size, rows)
    for batch in batches:
        yield from gatherer.add(batch)
    yield from gatherer.flush()


def pack_batch(batch: pa.RecordBatch) -> bytes:
    """Serialises a batch with its schema, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return compress(sink.getvalue())


def unpack_batch(data: pa.Buffer) -> pa.RecordBatch:
    """Restores a batch that ``pack_batch`` serialised."""
    with pa.ipc.open_stream(decompress(data)) as reader:
        return reader.read_next_batch()


def compress(data: pa.Buffer) -> bytes:
    """Compresses a serialised batch."""
    compressed: bytes = pa.compress(data, codec="lz4_raw", asbytes=True)
    return int(data.size).to_bytes(_SIZE) + compressed


def decompress(data: pa.Buffer) -> pa.Buffer:
    """Restores a batch that ``compress`` compressed."""
    size = int.from_bytes(data.slice(0, _SIZE).to_pybytes())
    return pa.decompress(data.slice(_SIZE), size, codec="lz4_raw")


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins batches; returns a single batch without copying it."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
