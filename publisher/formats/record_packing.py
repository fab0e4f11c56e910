"""Packs records for the shuffle: many in one binary value instead of a row with 25 columns each.

A shuffle of rows converts each value to a row of the engine and back, which costs more than all other
steps of reading.  If records are packed, the engine moves and sorts *pieces*: Arrow record batches of one
lane and one block of ranks.  A lane merges the pieces of a block, so it holds at most one block in memory,
whatever the order of the records in the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.time_ranks import TIME_BASE
from publisher.model.arrays import Int64Array, begins_island, integers, island_bounds, order_by
from publisher.model.packed_batches import concat, gather, pack_batch, unpack_batch
from publisher.model.repeated_values import has_one_value

BLOCK_BITS = 16
"""Bits of the ranks of a block: 65,536 ranks, several polls of the default size."""
_BITS_OF_TIME = 26
"""Bits of a block of event times: about a minute."""

ROWS = 1 << 15
BYTES = 4 << 20
"""Rows and bytes that are collected before they are cut into pieces; whichever comes first."""
ROWS_TOGETHER = 16_000
"""Number of records at which pieces are yielded together: two blocks of one of eight lanes."""
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


_OF_PIECE = PIECE_SCHEMA.names[:3]
"""Columns of a piece that records have, too."""
_ORDER = ("rank", "high", "low", "ordinal", "split", "row")
"""Order of the records of a block."""


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs batches of ``RECORD_SCHEMA`` into batches of ``PIECE_SCHEMA``."""
    return map(_cut_pieces, gather(batches, BYTES, ROWS))


def sort_lanes(records: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the lanes of records that need no shuffle, each in the order of ``unpack``."""
    keys = _keys(records)
    order = _order_of(records, *keys)
    records, lanes = records.take(pa.array(order)), keys[0][order]
    for start, end in pairwise([0, *(np.flatnonzero(np.diff(lanes)) + 1), len(lanes)]):
        yield int(lanes[start]), records.slice(start, end - start)


def unpack(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the records of one lane in order, from its pieces, which are sorted by ``KEYS``.

    Small blocks are yielded together: if record ids have large gaps, a block has few records.  A block with
    many records, or with long values, is yielded in several batches.
    """
    in_order = chain.from_iterable(map(_in_order, _blocks(pieces)))
    return gather(in_order, BYTES, ROWS_TOGETHER)


def _blocks(pieces: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yields the records of each block, by its pieces."""
    keyed = chain.from_iterable(map(_by_key, pieces))
    for _, block in groupby(keyed, key=itemgetter(0)):
        yield [unpack_batch(data.as_buffer()) for _, data in block]


def _by_key(pieces: pa.RecordBatch) -> Iterator[tuple[tuple[object, ...], pa.BinaryScalar]]:
    keys = zip(*(pieces.column(name).to_pylist() for name in KEYS), strict=True)
    return zip(keys, pieces.column("data"), strict=True)


def _in_order(block: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the records of a block in order; often its pieces are in order already."""
    last = -1
    for piece in block:
        rank = integers(piece.column("rank"))
        if rank[0] <= last or not np.all(rank[1:] > rank[:-1]):
            joined = concat(block)
            block.clear()  # frees their memory
            yield joined.take(pa.array(_order_of(joined)))
            return
        last = int(rank[-1])
    block.reverse()
    while block:
        yield block.pop()


def _cut_pieces(records: pa.RecordBatch) -> pa.RecordBatch:
    """Sorts records by lane and block, and packs the records of each block."""
    keys = _keys(records)
    varying = [key for key in keys if np.any(key != key[0])] or keys[:1]  # often the lane only
    order = order_by(*varying)
    if np.any(order[1:] < order[:-1]):
        records, keys = records.take(pa.array(order)), [key[order] for key in keys]
    bounds = island_bounds(begins_island(*keys)).tolist()
    pieces = [
        (start, pack_batch(piece))
        for start, end in pairwise(bounds)
        for piece in _split_large(records.slice(start, end - start))
    ]
    firsts = np.array([start for start, _ in pieces], np.int64)
    block, split, rows = (key[firsts] for key in keys[3:])
    return pa.RecordBatch.from_arrays(
        [
            *records.select(_OF_PIECE).take(pa.array(firsts)).columns,
            pa.array(block),
            pa.array(split, pa.int32()),
            pa.array(rows),
            pa.array([piece for _, piece in pieces], pa.binary()),
        ],
        schema=PIECE_SCHEMA,
    )


def _keys(records: pa.RecordBatch) -> list[Int64Array]:
    """Lane and ``KEYS`` of each record as integers.

    Records without a rank (below 1) are grouped by their place in the input instead, so that their
    pieces are no larger than the others.
    """
    rank = integers(records.column("rank"))
    ranked = rank > 0
    return [
        integers(records.column("lane")),
        integers(records.column("source")),
        _part_numbers(records.column("part")),
        np.where(ranked, rank >> np.where(rank < TIME_BASE, BLOCK_BITS, _BITS_OF_TIME), -1),
        np.where(ranked, 0, integers(records.column("split"))),
        np.where(ranked, 0, integers(records.column("row")) >> BLOCK_BITS),
    ]


def _part_numbers(parts: pa.Array) -> Int64Array:
    """Numbers the parts in their order, null first."""
    if has_one_value(parts):
        return np.zeros(len(parts), np.int64)
    encoded = pc.dictionary_encode(parts, null_encoding="encode")
    names = encoded.dictionary.to_pylist()
    numbers = np.empty(len(names), np.int64)
    numbers[sorted(range(len(names)), key=lambda n: (names[n] is not None, names[n]))] = range(
        len(names)
    )
    codes: Int64Array = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return codes


def _order_of(records: pa.RecordBatch, *before: Int64Array) -> Int64Array:
    """Places of the records in the order of the keys ``before``, then of ``_ORDER``."""
    return order_by(*before, *(integers(records.column(name)) for name in _ORDER))


def _split_large(piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if piece.num_rows < 2 or piece.nbytes <= PIECE_BYTES:
        yield piece
        return
    middle = piece.num_rows // 2
    yield from _split_large(piece.slice(0, middle))
    yield from _split_large(piece.slice(middle))
