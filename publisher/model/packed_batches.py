"""Compressed Arrow data for the shuffle: compressed once, by column, so that the engine moves less."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

_SIZE = 8
"""Bytes of the size before compression, which precede the data."""


def compress(data: pa.Buffer) -> bytes:
    """Compresses a serialised batch."""
    compressed: bytes = pa.compress(data, codec="lz4_raw", asbytes=True)
    return int(data.size).to_bytes(_SIZE) + compressed


def decompress(data: pa.Buffer) -> pa.Buffer:
    """Restores a batch that ``compress`` compressed."""
    size = int.from_bytes(data.slice(0, _SIZE).to_pybytes())
    return pa.decompress(data.slice(_SIZE), size, codec="lz4_raw")


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins batches; a single one without a copy."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
