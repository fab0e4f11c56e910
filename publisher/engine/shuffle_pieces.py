"""Packs records for the shuffle: many in one binary value instead of a row with 25 columns each.

A shuffle of rows converts each value to a row of the engine and back, which costs more than all other
steps of reading.  If records are packed, the engine moves and sorts *pieces*: Arrow record batches of one
lane and one block of ranks.  A lane merges the pieces of a block, so it holds at most one block in memory,
whatever the order of the records in the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.packed_batches import compress, concat, decompress, gather
from publisher.model.record_schema import RECORD_SCHEMA

BLOCK_BITS = 16
"""Bits of the ranks of a block: 65,536 ranks, several polls of the default size."""

ROWS = 1 << 15
BYTES = 4 << 20
"""Rows and bytes that are collected before they are cut into pieces; whichever comes first."""
ROWS_TOGETHER = 1 << 15
"""Number of records at which small blocks are yielded together; a block may have more."""
PIECE_BYTES = 2 << 20
"""Greatest size of a piece with more than one record."""

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
"""Sort columns of the pieces of a lane."""


_ORDER = ("rank", "high", "low", "ordinal", "split", "row")
"""Order of the records of a block."""


class _Key(NamedTuple):
    source: int
    part: str | None
    block: int
    split: int
    rows: int


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs batches of ``RECORD_SCHEMA`` into batches of ``PIECE_SCHEMA``."""
    yield from pack_gathered(gather_records(batches))


def gather_records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins batches of ``RECORD_SCHEMA`` to batches that are large enough to be packed."""
    return gather(batches, BYTES, ROWS)


def pack_gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs the batches of ``gather_records``."""
    return map(_cut_pieces, batches)


def sort_lanes(records: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the lanes of records that need no shuffle, each in the order of ``unpack``."""
    keys = _keys(records)
    order = np.lexsort([*_order_keys(records), *keys[::-1]])
    records, lanes = records.take(pa.array(order)), keys[0][order]
    for start, end in pairwise([0, *(np.flatnonzero(np.diff(lanes)) + 1), len(lanes)]):
        yield int(lanes[start]), records.slice(start, end - start)


def unpack(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the records of one lane in order, from its pieces, which are sorted by ``KEYS``.

    Small blocks are yielded together: if record ids have large gaps, a block has few records.
    """
    yield from gather(_blocks(pieces), BYTES, ROWS_TOGETHER)


def _blocks(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the records of each block in order."""
    pieces_of_block: list[pa.RecordBatch] = []
    last: _Key | None = None
    for batch in pieces:
        keys = zip(*(batch.column(name).to_pylist() for name in KEYS), strict=True)
        for key, data in zip(map(_Key._make, keys), batch.column("data"), strict=True):
            if pieces_of_block and key != last:
                block, pieces_of_block = _join_block(pieces_of_block), []
                yield block
            last = key
            pieces_of_block.append(
                pa.ipc.read_record_batch(decompress(data.as_buffer()), RECORD_SCHEMA)
            )
    if pieces_of_block:
        yield _join_block(pieces_of_block)


def _cut_pieces(records: pa.RecordBatch) -> pa.RecordBatch:
    keys = _keys(records)
    varying = keys[np.any(keys != keys[:, :1], axis=1)]  # often the lane only
    if len(varying):
        order = np.lexsort(varying[::-1])
        keys, varying = keys[:, order], varying[:, order]
        records = _permute(records, order)
    changes = np.flatnonzero(np.any(varying[:, 1:] != varying[:, :-1], axis=0)) + 1
    pieces: list[pa.RecordBatch] = []
    firsts: list[int] = []
    for start, end in pairwise([0, *changes.tolist(), records.num_rows]):
        for piece in _split_large(records.slice(start, end - start)):
            firsts.append(start)
            pieces.append(piece)
    heads = records.take(pa.array(firsts))
    block, split, rows = keys[3:, firsts]
    return pa.RecordBatch.from_arrays(
        [
            *(heads.column(name) for name in ("lane", "source", "part")),
            pa.array(block),
            pa.array(split, pa.int32()),
            pa.array(rows),
            pa.array([compress(piece.serialize()) for piece in pieces], pa.binary()),
        ],
        schema=PIECE_SCHEMA,
    )


def _permute(records: pa.RecordBatch, order: np.ndarray) -> pa.RecordBatch:
    """Puts records into another order; columns of nulls stay as they are."""
    places = pa.array(order)
    arrays = [
        column if column.null_count == len(column) else column.take(places)
        for column in records.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=records.schema)


def _keys(records: pa.RecordBatch) -> np.ndarray:
    """Lane and ``KEYS`` of each record as integers.

    Records without a rank (below 1) are grouped by their place in the input instead, so that their
    pieces are no larger than the others.
    """
    rank = _integers(records, "rank")
    ranked = rank > 0
    return np.stack(
        [
            _integers(records, "lane"),
            _integers(records, "source"),
            _part_numbers(records.column("part")),
            np.where(ranked, rank >> BLOCK_BITS, -1),
            np.where(ranked, 0, _integers(records, "split")),
            np.where(ranked, 0, _integers(records, "row") >> BLOCK_BITS),
        ]
    )


def _part_numbers(parts: pa.Array) -> np.ndarray:
    """Numbers the parts in their order, null first."""
    encoded = pc.dictionary_encode(parts, null_encoding="encode")
    names = encoded.dictionary.to_pylist()
    numbers = np.empty(len(names), np.int64)
    numbers[sorted(range(len(names)), key=lambda n: (names[n] is not None, names[n]))] = range(
        len(names)
    )
    codes: np.ndarray = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return codes


def _order_keys(records: pa.RecordBatch) -> list[np.ndarray]:
    """The columns of ``_ORDER``, the least important first."""
    return [_integers(records, name) for name in reversed(_ORDER)]


def _integers(records: pa.RecordBatch, name: str) -> np.ndarray:
    column = records.column(name)
    if column.null_count:
        column = pc.fill_null(column, 0)
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64, copy=False)


def _split_large(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if piece.num_rows < 2 or piece.nbytes <= PIECE_BYTES:
        yield piece
        return
    middle = piece.num_rows // 2
    yield from _split_large(piece.slice(0, middle))
    yield from _split_large(piece.slice(middle))


def _join_block(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins the pieces of a block, and sorts its records."""
    records = concat(pieces)
    rank = _integers(records, "rank")
    if np.all(rank[1:] > rank[:-1]):
        return records
    return _permute(records, np.lexsort(_order_keys(records)))
