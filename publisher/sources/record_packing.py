"""Packs records for the shuffle: many in one binary value instead of a row with 25 columns each.

A shuffle of rows converts each value to a row of the engine and back, which costs more than all other
steps of reading.  If records are packed, the engine moves and sorts *pieces*: Arrow record batches of one
lane and one block of ranks.  A lane merges the pieces of a block, so it holds at most one block in memory,
whatever the order of the records in the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.packed_batches import gather
from publisher.model.repeated_values import has_one_value
from publisher.sources.packed_records import (
    PackedRecords,
    join_records,
    read_piece,
    write_constants,
    write_piece,
)
from publisher.sources.time_ranks import TIME_BASE

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
_CODES = 1 << 62
"""Limit of numbers that combine keys."""
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
    waiting: list[PackedRecords] = []
    rows = size = 0
    for block in _blocks(pieces):
        _sort_block(block)
        block.reverse()
        while block:
            waiting.append(block.pop())
            rows += waiting[-1].varying.num_rows
            size += waiting[-1].varying.nbytes
            if size >= BYTES or rows >= ROWS_TOGETHER:
                yield _release(waiting)
                rows = size = 0
    if rows:
        yield _release(waiting)


def _release(waiting: list[PackedRecords]) -> pa.RecordBatch:
    """Joins the waiting pieces, and frees their memory while the records are processed."""
    joined = join_records(waiting)
    waiting.clear()
    return joined.records()


def _blocks(pieces: Iterable[pa.RecordBatch]) -> Iterator[list[PackedRecords]]:
    """Yields the pieces of each block."""
    pieces_of_block: list[PackedRecords] = []
    last: _Key | None = None
    for batch in pieces:
        keys = zip(*(batch.column(name).to_pylist() for name in KEYS), strict=True)
        lanes = batch.column("lane").to_pylist()
        for key, lane, data in zip(map(_Key._make, keys), lanes, batch.column("data"), strict=True):
            if pieces_of_block and key != last:
                block, pieces_of_block = pieces_of_block, []
                yield block
            last = key
            pieces_of_block.append(read_piece(data.as_buffer(), lane))
    if pieces_of_block:
        yield pieces_of_block


def _cut_pieces(records: pa.RecordBatch) -> pa.RecordBatch:
    keys = _keys(records)
    packed = PackedRecords.of(records)
    codes = _codes_of(keys)
    order = np.arange(len(codes))
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        codes, packed = codes[order], packed.take(order)
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    constants = write_constants(packed)
    pieces: list[bytes] = []
    starts: list[int] = []
    for start, end in pairwise([0, *changes.tolist(), records.num_rows]):
        for piece in _split_large(packed.varying.slice(start, end - start)):
            starts.append(start)
            pieces.append(write_piece(constants, piece))
    firsts = order[starts]
    block, split, rows = (key[firsts] for key in keys[3:])
    return pa.RecordBatch.from_arrays(
        [
            *records.select(_OF_PIECE).take(pa.array(firsts)).columns,
            pa.array(block),
            pa.array(split, pa.int32()),
            pa.array(rows),
            pa.array(pieces, pa.binary()),
        ],
        schema=PIECE_SCHEMA,
    )


def _codes_of(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Combines keys into one number for each record, in the same order; small numbers are sorted faster."""
    codes = np.zeros(len(keys[0]), np.int64)
    size = 1
    for key in keys:
        first, last = int(key.min()), int(key.max())
        if first == last:  # often all but the lane
            continue
        if size * (last - first + 1) >= _CODES:
            return _ranks_of(keys)
        codes = codes * (last - first + 1) + (key - first)
        size *= last - first + 1
    return codes.astype(np.uint16) if size <= 1 << 16 else codes


def _ranks_of(keys: Sequence[np.ndarray]) -> np.ndarray:
    """As ``_codes_of``, for keys of any size."""
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order), np.bool_)
    for key in keys:
        changes[1:] |= key[order][1:] != key[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(changes)
    return ranks


def _keys(records: pa.RecordBatch) -> list[np.ndarray]:
    """Lane and ``KEYS`` of each record as integers.

    Records without a rank (below 1) are grouped by their place in the input instead, so that their
    pieces are no larger than the others.
    """
    rank = _integers(records, "rank")
    ranked = rank > 0
    return [
        _integers(records, "lane"),
        _integers(records, "source"),
        _part_numbers(records.column("part")),
        np.where(ranked, rank >> np.where(rank < TIME_BASE, BLOCK_BITS, _BITS_OF_TIME), -1),
        np.where(ranked, 0, _integers(records, "split")),
        np.where(ranked, 0, _integers(records, "row") >> BLOCK_BITS),
    ]


def _part_numbers(parts: pa.Array) -> np.ndarray:
    """Numbers the parts in their order, null first."""
    if has_one_value(parts):
        return np.zeros(len(parts), np.int64)
    encoded = pc.dictionary_encode(parts, null_encoding="encode")
    names = encoded.dictionary.to_pylist()
    numbers = np.empty(len(names), np.int64)
    numbers[sorted(range(len(names)), key=lambda n: (names[n] is not None, names[n]))] = range(
        len(names)
    )
    codes: np.ndarray = numbers[encoded.indices.to_numpy(zero_copy_only=False)]
    return codes


def _order_of(records: pa.RecordBatch, *before: np.ndarray) -> np.ndarray:
    """Places of the records in the order of the keys ``before``, then of ``_ORDER``; absent columns are
    equal."""
    columns = [_integers(records, name) for name in _ORDER if name in records.schema.names]
    return np.lexsort([*before, *columns][::-1])


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


def _sort_block(pieces: list[PackedRecords]) -> None:
    """Sorts the records of a block in place; often they are in order already."""
    last = -1
    for piece in pieces:
        rank = _integers(piece.varying, "rank")
        if rank[0] <= last or not np.all(rank[1:] > rank[:-1]):
            joined = join_records(pieces)
            pieces.clear()  # frees their memory
            pieces.append(joined.take(_order_of(joined.varying)))
            return
        last = rank[-1]
