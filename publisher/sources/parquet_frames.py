"""Framing of Parquet: batches of bounded size, whatever the size of the row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.sources.columns import plain
from publisher.sources.frames import Frame
from publisher.sources.snapshot_options import Columns, SnapshotOptions

BATCH_BYTES = 8 << 20
BATCH_ROWS = 16_384
WIDE_ROW = 1 << 10
"""Bytes; from rows of this mean size on, few are read at once: sizes within a row group differ."""
WIDE_ROWS = 256


def row_groups(
    path: str, columns: Columns, options: SnapshotOptions, target: int
) -> list[tuple[int, int, int, int]]:
    """Runs of row groups of about ``target`` bytes: first, after the last, first row, bytes."""
    with _opened(path) as file:
        _places(file, path, columns, options)
        # Not the sizes of column chunks: asking for a damaged one ends the process.
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        weights = [(group.num_rows, max(0, group.total_byte_size)) for group in groups]
    scale = Path(path).stat().st_size / max(1, sum(weight for _, weight in weights))
    runs: list[tuple[int, int, int, int]] = []
    start, first, row, size = 0, 1, 1, 0.0
    for i, (count, weight) in enumerate(weights):
        stored = weight * scale
        if i > start and size + stored / 2 > target:
            runs.append((start, i, first, int(size)))
            start, first, size = i, row, 0.0
        size += stored
        row += count
    return [*runs, (start, len(weights), first, int(size))]


def frames(
    path: str, groups: range, first: int, columns: Columns, options: SnapshotOptions
) -> Iterator[Frame]:
    """Frames of some row groups, whose first row has number ``first``."""
    with _opened(path) as file:
        places = _places(file, path, columns, options)
        names = [file.schema_arrow.names[i] for i in places]
        metadata = file.metadata
    for group in groups:
        claimed, begin = metadata.row_group(group), first
        rows = _batch_rows(claimed)
        with _opened(path, metadata) as file:  # no more of it stays in memory than one group
            for batch in file.iter_batches(rows, [group], names, use_threads=False):
                for piece in _pieces(_sound(batch.select(names), columns)):
                    numbers = np.arange(first, first + piece.num_rows, dtype=np.int64)
                    yield Frame(piece, numbers)
                    first += piece.num_rows
        if first - begin != claimed.num_rows:
            raise FatalError(
                f"{path} is damaged: its row group {group + 1} has {first - begin:,} rows and should"
                f" have {claimed.num_rows:,}; export it again"
            )


def group_of(path: str, groups: range, first: int, row: int) -> tuple[int, int]:
    """The row group that holds a row, and the number of its own first row."""
    with _opened(path) as file:
        for group in groups:
            count = file.metadata.row_group(group).num_rows
            if row < first + count:
                return group, first
            first += count
    return groups.stop, first


def column_names(path: str) -> list[str]:
    """The columns of a file.  Raises ``FatalError`` where it is no Parquet file."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _opened(path: str, known: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
    """A Parquet file; what is wrong with it becomes ``FatalError``, here and while it is read.

    Mapped: a reader of streams makes room for whatever size a damaged page claims, up to 2 GiB.
    """
    try:
        with pq.ParquetFile(
            path,
            metadata=known,
            memory_map=True,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as file:
            yield file
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as problem:
        raise FatalError(
            f"{path} is no Parquet file, or cut or damaged ({problem}); export it again"
        ) from problem


def _places(
    file: pq.ParquetFile, path: str, columns: Columns, options: SnapshotOptions
) -> list[int]:
    found = file.schema_arrow.names
    if options.header != "no":
        return columns.locate(found, path)
    if len(found) != len(columns.names):
        raise FatalError(
            f'{path} has {len(found)} columns, not {len(columns.names)}; set header = "yes"'
        )
    return list(range(len(found)))


def _batch_rows(group: pq.RowGroupMetaData) -> int:
    mean = max(1, group.total_byte_size // max(1, group.num_rows))
    most = BATCH_ROWS if mean < WIDE_ROW else WIDE_ROWS
    return int(max(1, min(most, BATCH_BYTES // mean)))


def _sound(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """The batch under our names; text that is no UTF-8 goes on as bytes, a reader does not check it."""
    arrays = [_sound_text(plain(column)) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.names))


def _sound_text(array: pa.Array) -> pa.Array:
    if not pa.types.is_string(array.type):
        return array
    raw = array.cast(pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return raw


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= 2 * BATCH_BYTES or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))
