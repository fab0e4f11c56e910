"""The known rows of tables on disk: Parquet files, each of which covers a range of the hashes of keys.

Files hold their rows in order of hash and key.  The number of files may differ from run to run: a bucket is
a part of one file, or consists of whole files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.sources.columns.private_tables import write_table
from publisher.sources.triggerless.compare import KnownRows, no_known_rows
from publisher.sources.triggerless.comparison import KnownFiles
from publisher.sources.triggerless.options import Keeps
from publisher.sources.triggerless.shuffle_pieces import bucket_of

_ROWS = 1 << 16
_COLUMN = "="
"""Prefix of the names of the table's columns."""


def write_known_rows(path: Path, known: KnownRows, columns: Sequence[str], keeps: Keeps) -> None:
    """Writes the known rows of one bucket."""
    table = pa.table(
        {
            "hash": pa.array(known.hashes),
            "key": known.keys,
            **{
                f"{_COLUMN}{name}": content if isinstance(content, pa.Array) else pa.array(content)
                for name, content in zip(columns, known.contents, strict=True)
            },
        }
    )
    text = "zstd" if keeps == "values" else "none"  # hashes are incompressible
    codecs = {name: "none" if name == "hash" else text for name in table.schema.names}
    write_table(
        table,
        path,
        row_group_size=_ROWS,
        use_dictionary=False,
        compression=codecs | {"key": "lz4"},
        write_statistics=False,
    )


def read_known_rows(
    files: KnownFiles, bucket: int, buckets: int, columns: Sequence[str], keeps: Keeps
) -> KnownRows:
    """Reads the known rows of one of ``buckets``.

    Raises ``FatalError`` if a file is missing or damaged.
    """
    names = _files_of(files.files, bucket, buckets)
    parts = [read_state_file(Path(files.folder) / name, columns, keeps) for name in names]
    known = concat_known_rows(parts) if len(parts) > 1 else parts[0]
    if len(files.files) >= buckets:
        return known
    inside = np.flatnonzero(bucket_of(known.hashes, buckets) == bucket)
    which = pa.array(inside)
    contents = [c.take(which) if isinstance(c, pa.Array) else c[inside] for c in known.contents]
    return KnownRows(known.hashes[inside], known.keys.take(which), contents)


def _files_of(files: Sequence[str], bucket: int, buckets: int) -> Sequence[str]:
    if len(files) <= buckets:
        return [files[bucket * len(files) // buckets]]
    count = len(files) // buckets
    return files[bucket * count : (bucket + 1) * count]


def read_state_file(path: Path, columns: Sequence[str], keeps: Keeps) -> KnownRows:
    """Reads the known rows of one file; raises as ``read_known_rows``."""
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(use_threads=False).combine_chunks()
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the state cannot be read ({error}): restore it, or remove the state and migrate"
        ) from error
    empty = no_known_rows(keeps, 1).contents[0]
    contents: list[pa.Array] = []
    for name in columns:
        if f"{_COLUMN}{name}" in table.schema.names:
            column = _flat(table.column(f"{_COLUMN}{name}"))
            contents.append(column if keeps == "values" else column.to_numpy())
        elif isinstance(empty, pa.Array):  # a column that is not in the state counts as NULL
            contents.append(pa.nulls(table.num_rows, pa.string()))
        else:
            contents.append(np.zeros(table.num_rows, np.uint64))
    return KnownRows(_flat(table.column("hash")).to_numpy(), _flat(table.column("key")), contents)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def concat_known_rows(parts: Sequence[KnownRows]) -> KnownRows:
    """Concatenates rows in their order."""
    contents: list[pa.Array] = []
    for columns in zip(*(part.contents for part in parts), strict=True):
        is_text = isinstance(columns[0], pa.Array)
        contents.append(pa.concat_arrays(columns) if is_text else np.concatenate(columns))
    return KnownRows(
        np.concatenate([part.hashes for part in parts]),
        pa.concat_arrays([part.keys for part in parts]),
        contents,
    )
