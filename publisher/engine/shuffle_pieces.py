"""Records packed for the shuffle: many in one binary value instead of a row with 25 columns each.

A shuffle of rows turns each value into an engine's row and back; that costs more than all the rest of
reading.  Packed, the engine moves and sorts *pieces*: Arrow record batches of one lane and one block
of ranks.  A lane merges the pieces of a block, and so holds one block at most, whatever the order of
the records in the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import RECORD_SCHEMA
from publisher.model.packed_batches import compress, concat, decompress

BLOCK_BITS = 16
"""Ranks of a block: 65,536, some polls as they are by default, so that a lane has enough at once."""

ROWS = 1 << 15
BYTES = 4 << 20
"""What is collected before it is cut into pieces; whichever comes first."""
_ROWS_TOGETHER = 1 << 13
"""Records that come together from several blocks; a block may have more."""
PIECE_BYTES = 2 << 20
"""Size of a piece that has more than one record."""

PIECE_SCHEMA = pa.schema(
    [
        ("lane", pa.int32()),
        # pieces with equal keys belong together; the keys are in the order of sorting
        ("source", pa.int32()),
        ("part", pa.string()),
        ("block", pa.int64()),
        ("split", pa.int32()),
        ("rows", pa.int64()),
        ("data", pa.binary()),
    ]
)
"""One row for each piece."""

KEYS = PIECE_SCHEMA.names[1:-1]
"""What a lane's pieces are to be sorted by."""


_ORDER = ("rank", "high", "low", "ordinal", "split", "row")
"""Order of the records of a block."""


class _Key(NamedTuple):
    source: int
    part: str | None
    block: int
    split: int
    rows: int


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of ``RECORD_SCHEMA`` as batches of ``PIECE_SCHEMA``."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS or size >= BYTES:
            yield _pieces(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield _pieces(waiting)


def unpack(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of one lane in order, from its pieces, which are sorted by ``KEYS``.

    Small blocks come together: where record ids have large gaps, a block has few records.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for block in _blocks(pieces):
        waiting.append(block)
        rows += block.num_rows
        size += block.nbytes
        if rows >= _ROWS_TOGETHER or size >= BYTES:
            yield concat(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield concat(waiting)


def _blocks(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of each block in order."""
    held: list[pa.RecordBatch] = []
    last: _Key | None = None
    for batch in pieces:
        keys = zip(*(batch.column(name).to_pylist() for name in KEYS), strict=True)
        for key, data in zip(map(_Key._make, keys), batch.column("data"), strict=True):
            if held and key != last:
                yield _merged(held)
                held = []
            last = key
            held.append(pa.ipc.read_record_batch(decompress(data.as_buffer()), RECORD_SCHEMA))
    if held:
        yield _merged(held)


def _pieces(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    records = concat(batches)
    keys = _keys(records)
    order = np.lexsort(keys[::-1])
    keys = keys[:, order]
    records = records.take(pa.array(order))
    changes = np.flatnonzero(np.any(np.diff(keys), axis=0)) + 1
    cut: list[pa.RecordBatch] = []
    firsts: list[int] = []
    for start, end in pairwise([0, *changes.tolist(), records.num_rows]):
        for piece in _small_enough(records.slice(start, end - start)):
            firsts.append(start)
            cut.append(piece)
    heads = records.take(pa.array(firsts))
    block, split, rows = keys[3:, firsts]
    return pa.RecordBatch.from_arrays(
        [
            *(heads.column(name) for name in ("lane", "source", "part")),
            pa.array(block),
            pa.array(split, pa.int32()),
            pa.array(rows),
            pa.array([compress(piece.serialize()) for piece in cut], pa.binary()),
        ],
        schema=PIECE_SCHEMA,
    )


def _keys(records: pa.RecordBatch) -> np.ndarray:
    """Lane and ``KEYS`` of each record as integers.

    Records that have no rank (below 1) are cut by their place in the input instead, so that any
    number of them is no more in a piece than others are.
    """
    rank = _integers(records, "rank")
    ranked = rank > 0
    part = pc.dictionary_encode(records.column("part"), null_encoding="encode").indices
    return np.stack(
        [
            _integers(records, "lane"),
            _integers(records, "source"),
            part.to_numpy(zero_copy_only=False).astype(np.int64),
            np.where(ranked, rank >> BLOCK_BITS, -1),
            np.where(ranked, 0, _integers(records, "split")),
            np.where(ranked, 0, _integers(records, "row") >> BLOCK_BITS),
        ]
    )


def _integers(records: pa.RecordBatch, name: str) -> np.ndarray:
    column = records.column(name)
    if column.null_count:
        column = pc.fill_null(column, 0)
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64, copy=False)


def _small_enough(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if piece.num_rows < 2 or piece.nbytes <= PIECE_BYTES:
        yield piece
        return
    middle = piece.num_rows // 2
    yield from _small_enough(piece.slice(0, middle))
    yield from _small_enough(piece.slice(middle))


def _merged(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The records of a block in order."""
    records = concat(pieces)
    keys = [_integers(records, name) for name in _ORDER]
    rank = keys[0]
    if np.all(rank[1:] > rank[:-1]):
        return records
    return records.take(pa.array(np.lexsort(keys[::-1])))
