"""Framing of Parquet: batches of bounded size, whatever the size of the row groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.formats.columns.columns import plain
from publisher.formats.columns.record_batches import as_json
from publisher.formats.files.frame import Broken, Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.files.text_blocks import readable

Sizes = npt.NDArray[np.int64]

BATCH_BYTES = 8 << 20
BATCH_ROWS = 16_384
WIDE_ROW = 1 << 10
"""Bytes: if the mean row is this large, few rows are read at once, because sizes differ."""
WIDE_ROWS = 256
_FREE_BYTES = 256 << 20
"""Bytes that every file may unpack to, however small it is."""
_MOST_UNPACKED = 1_000
"""Maximum ratio of unpacked to stored bytes of a file that exceeds the free bytes."""
_ROW = 16
"""Minimum bytes that a row counts as: a row of NULLs takes none in the file."""
_NANOSECONDS_END = (1 << 63) // 1000 - 1
"""The last microsecond since 1970 that 64 bits of nanoseconds can count."""
TOO_LONG = (
    "the row is longer than max_record; raise that setting, or export the table without the row"
)
_SHOWN = 1 << 10


def row_groups(
    path: str, columns: ExpectedColumns, options: SnapshotOptions, target: int
) -> list[tuple[int, int, int, int]]:
    """Divides row groups into runs of about ``target`` bytes.

    Returns first group, group after the last, first row and bytes of each run.
    """
    with _open(path) as file:
        _places(file, path, columns, options)
        # not the sizes of column chunks: pyarrow ends the process if it reads a damaged one
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        weights = [(group.num_rows, max(0, group.total_byte_size)) for group in groups]
    _refuse_bomb(path, weights)
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


def _refuse_bomb(path: str, groups: Sequence[tuple[int, int]]) -> None:
    """Refuses a file that says that it unpacks to far more than its size warrants."""
    stored = Path(path).stat().st_size
    unpacked = sum(max(size, rows * _ROW) for rows, size in groups)
    if unpacked > max(_FREE_BYTES, _MOST_UNPACKED * stored):
        raise FatalError(
            f"{path}: its row groups unpack to {unpacked:,} bytes from {stored:,} bytes of the file; export"
            " it again, as CSV"
        )


def frames(
    path: str, groups: range, first: int, columns: ExpectedColumns, options: SnapshotOptions
) -> Iterator[Frame]:
    """Yields the frames of some row groups, whose first row has number ``first``."""
    with _open(path) as file:
        names = _names_in_file(file, path, columns, options)
        metadata = file.metadata
        dictionaries = {group: _dictionaries(metadata, group, names) for group in groups}
    for group in groups:
        row_count, group_first = metadata.row_group(group).num_rows, first
        # at most one group stays in memory
        rows = _batch_rows(metadata.row_group(group))
        with _open(path, metadata, dictionaries[group]) as file:
            batches = file.iter_batches(rows, [group], names, use_threads=False)
            for batch in _with_exact_moments(batches, path, metadata, group, rows):
                yield from _in_pieces(batch.select(names), columns, first, options.max_record)
                first += batch.num_rows
        if first - group_first != row_count:
            raise FatalError(
                f"{path} is damaged: its row group {group + 1} has {first - group_first:,} rows and should"
                f" have {row_count:,}; export it again"
            )


def _with_exact_moments(
    batches: Iterable[pa.RecordBatch],
    path: str,
    metadata: pq.FileMetaData,
    group: int,
    rows: int,
) -> Iterator[pa.RecordBatch]:
    """Replaces INT96 moments that do not fit 64 bits of nanoseconds, with which the reader wraps around.

    These are read in microseconds, and the column becomes text.
    """
    chunks = metadata.row_group(group)  # the schema would stay in a cycle with its file
    leaves = [chunks.column(place) for place in range(metadata.num_columns)]
    names = [leaf.path_in_schema for leaf in leaves if leaf.physical_type == "INT96"]
    if not names:
        yield from batches
        return
    with _open(path, metadata, int96_unit="us") as file:
        others = file.iter_batches(rows, [group], names, use_threads=False)
        for batch, wide in zip(batches, others, strict=True):
            for name in {*names} & {*batch.schema.names}:
                moments = wide.column(name)
                fits = pc.less_equal(pc.abs(moments.cast(pa.int64())), _NANOSECONDS_END)
                if not pc.all(fits, min_count=0).as_py():
                    place = batch.schema.get_field_index(name)
                    narrow = batch.column(name).cast(pa.string())
                    exact = pc.if_else(fits, narrow, moments.cast(pa.string()))
                    batch = batch.set_column(place, name, exact)  # noqa: PLW2901
            yield batch


def _in_pieces(
    batch: pa.RecordBatch, columns: ExpectedColumns, first: int, max_record: int
) -> Iterator[Frame]:
    """Yields the rows of a batch, the first of which has number ``first``, in pieces of bounded size."""
    if _max_bytes(batch) <= min(BATCH_BYTES, max_record):
        yield Frame(_rename_columns(batch, columns), np.arange(first, first + batch.num_rows))
        return
    sizes = _row_sizes(batch)
    ends = np.cumsum(np.minimum(sizes, max_record))
    begin = 0
    while begin < len(sizes):
        limit = (ends[begin - 1] if begin else 0) + BATCH_BYTES
        stop = max(begin + 1, int(np.searchsorted(ends, limit, side="right")))
        yield _frame(
            batch.slice(begin, stop - begin), sizes[begin:stop], columns, first + begin, max_record
        )
        begin = stop


def _frame(
    batch: pa.RecordBatch, sizes: Sizes, columns: ExpectedColumns, first: int, max_record: int
) -> Frame:
    """The rows of a batch without those that are too long."""
    numbers, long = np.arange(first, first + len(sizes), dtype=np.int64), sizes > max_record
    broken = tuple(
        Broken(int(numbers[i]), TOO_LONG, _beginnings(batch, i))
        for i in np.flatnonzero(long).tolist()
    )
    rest = batch.filter(pa.array(~long)) if broken else batch
    return Frame(_rename_columns(rest, columns), numbers[~long], broken)


def _max_bytes(batch: pa.RecordBatch) -> int:
    """Maximum bytes of the rows with their dictionaries unpacked."""
    total = 0
    for column in batch.columns:
        if not pa.types.is_dictionary(column.type):
            total += column.nbytes
        elif len(column.dictionary):
            total += len(column) * int(_lengths(column.dictionary).max())
    return total


def _row_sizes(batch: pa.RecordBatch) -> Sizes:
    """Bytes of each row with its dictionaries unpacked."""
    sizes: Sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if not pa.types.is_dictionary(column.type):
            sizes += _lengths(column)
        elif len(column.dictionary):
            entries = _lengths(column.dictionary)
            places = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
            sizes += np.where(column.is_null().to_numpy(zero_copy_only=False), 0, entries[places])
    return sizes


def _lengths(column: pa.Array) -> Sizes:
    """Bytes of each value; the mean size for values that are not texts."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        lengths = pc.binary_length(column).fill_null(0)
        sizes: Sizes = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
        return sizes
    return np.full(len(column), column.nbytes // max(1, len(column)), np.int64)


def _beginnings(batch: pa.RecordBatch, at: int) -> str:
    """Shows the beginning of each value of a row."""
    cells = (_text_or_bytes(plain(column.slice(at, 1)))[0].as_py() for column in batch.columns)
    values = (readable(cell) if isinstance(cell, bytes) else str(cell) for cell in cells)
    return as_json([text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…" for text in values])


def group_of(path: str, groups: range, first: int, row: int) -> tuple[int, int]:
    """Finds the row group of a row, and the number of the group's first row."""
    with _open(path) as file:
        for group in groups:
            count = file.metadata.row_group(group).num_rows
            if row < first + count:
                return group, first
            first += count
    return groups.stop, first


def column_names(path: str) -> list[str]:
    """Lists the columns of a file.  Raises ``FatalError`` if it is not a Parquet file."""
    with _open(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _open(
    path: str,
    known: pq.FileMetaData | None = None,
    dictionaries: Sequence[str] = (),
    int96_unit: str | None = None,
) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file; its errors become ``FatalError``, here and while it is read.

    The file is mapped into memory, because a stream reader allocates any size that a damaged page
    claims, up to 2 GiB.
    """
    try:
        with pq.ParquetFile(
            path,
            metadata=known,
            read_dictionary=[*dictionaries],
            coerce_int96_timestamp_unit=int96_unit,
            memory_map=True,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as file:
            yield file
    except (pa.ArrowInvalid, OSError, UnicodeDecodeError) as problem:
        raise FatalError(
            f"{path} is not a Parquet file, or cut or damaged ({problem}); export it again"
        ) from problem


def _places(
    file: pq.ParquetFile, path: str, columns: ExpectedColumns, options: SnapshotOptions
) -> list[int]:
    names = file.schema_arrow.names
    if options.header != "no":
        return columns.locate(names, path)
    if len(names) != len(columns.names):
        raise FatalError(
            f'{path} has {len(names)} columns, not {len(columns.names)}; set header = "yes"'
        )
    return list(range(len(names)))


def _names_in_file(
    file: pq.ParquetFile, path: str, columns: ExpectedColumns, options: SnapshotOptions
) -> list[str]:
    """The names in the file of the expected columns, in our order."""
    return [file.schema_arrow.names[i] for i in _places(file, path, columns, options)]


def _dictionaries(metadata: pq.FileMetaData, group: int, names: Sequence[str]) -> list[str]:
    """Columns that stay dictionaries until their rows are measured: each row may name a long entry."""
    chunks = metadata.row_group(group)
    leaves = [chunks.column(place) for place in range(metadata.num_columns)]
    return [
        leaf.path_in_schema
        for leaf in leaves
        if leaf.path_in_schema in names
        and leaf.physical_type == "BYTE_ARRAY"
        and {"PLAIN_DICTIONARY", "RLE_DICTIONARY"} & {*leaf.encodings}
    ]


def _batch_rows(group: pq.RowGroupMetaData) -> int:
    mean = max(1, group.total_byte_size // max(1, group.num_rows))
    max_rows = BATCH_ROWS if mean < WIDE_ROW else WIDE_ROWS
    return int(max(1, min(max_rows, BATCH_BYTES // mean)))


def _rename_columns(batch: pa.RecordBatch, columns: ExpectedColumns) -> pa.RecordBatch:
    """The batch with our names; text that is not UTF-8 becomes bytes, since the reader does not check it."""
    arrays = [_text_or_bytes(plain(column)) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns.names))


def _text_or_bytes(array: pa.Array) -> pa.Array:
    if not pa.types.is_string(array.type):
        return array
    raw = array.cast(pa.binary())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return raw
