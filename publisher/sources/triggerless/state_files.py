"""The state of tables on disk: partitioned Parquet, each file a range of the hashes of keys.

Files hold their rows by hash and key.  A range of hashes falls into one file or is made of whole ones,
whatever the number of files was when they were written: it may differ from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.sources.triggerless.compare import Known, nothing_known
from publisher.sources.triggerless.comparison import Kept
from publisher.sources.triggerless.options import Keeps
from publisher.sources.triggerless.shuffle_pieces import bucket_of

_ROWS = 1 << 16
_COLUMN = "="
"""What stands before the names of the table's own columns; ``row`` has one without a name."""


def write_known(path: Path, known: Known, columns: Sequence[str], keeps: Keeps) -> None:
    """Writes the state of one bucket."""
    names = [""] if keeps == "row" else list(columns)
    table = pa.table(
        {
            "hash": pa.array(known.hashes),
            "key": known.keys,
            **{
                f"{_COLUMN}{name}": kept if isinstance(kept, pa.Array) else pa.array(kept)
                for name, kept in zip(names, known.kept, strict=True)
            },
        }
    )
    text = "zstd" if keeps == "values" else "none"  # hashes cannot be made smaller
    codecs = {name: "none" if name == "hash" else text for name in table.schema.names}
    pq.write_table(
        table,
        path,
        row_group_size=_ROWS,
        use_dictionary=False,
        compression=codecs | {"key": "lz4"},
        write_statistics=False,
    )


def read_known(
    kept: Kept, bucket: int, buckets: int, columns: Sequence[str], keeps: Keeps
) -> Known:
    """What is known of the rows of one of ``buckets``.

    Raises ``FatalError`` where a file is missing or damaged.
    """
    parts = [
        _read(Path(kept.folder) / name, columns, keeps) for name in _files(kept, bucket, buckets)
    ]
    known = _joined(parts) if len(parts) > 1 else parts[0]
    if len(kept.files) >= buckets:
        return known
    inside = np.flatnonzero(bucket_of(known.hashes, buckets) == bucket)
    which = pa.array(inside)
    taken = [k.take(which) if isinstance(k, pa.Array) else k[inside] for k in known.kept]
    return Known(known.hashes[inside], known.keys.take(which), taken)


def _files(kept: Kept, bucket: int, buckets: int) -> Sequence[str]:
    if len(kept.files) <= buckets:
        return [kept.files[bucket * len(kept.files) // buckets]]
    each = len(kept.files) // buckets
    return kept.files[bucket * each : (bucket + 1) * each]


def _read(path: Path, columns: Sequence[str], keeps: Keeps) -> Known:
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(use_threads=False).combine_chunks()
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the state cannot be read ({error}): restore it, or remove the state and migrate"
        ) from error
    empty = nothing_known(keeps, 1).kept[0]
    kept: list[pa.Array] = []
    for name in [""] if keeps == "row" else columns:
        if f"{_COLUMN}{name}" in table.schema.names:
            column = _flat(table.column(f"{_COLUMN}{name}"))
            kept.append(column if keeps == "values" else column.to_numpy())
        elif isinstance(empty, pa.Array):  # a column that is new was NULL
            kept.append(pa.nulls(table.num_rows, pa.string()))
        else:
            kept.append(np.zeros(table.num_rows, np.uint64))
    return Known(_flat(table.column("hash")).to_numpy(), _flat(table.column("key")), kept)


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def _joined(parts: Sequence[Known]) -> Known:
    kept: list[pa.Array] = []
    for columns in zip(*(part.kept for part in parts), strict=True):
        of_texts = isinstance(columns[0], pa.Array)
        kept.append(pa.concat_arrays(columns) if of_texts else np.concatenate(columns))
    return Known(
        np.concatenate([part.hashes for part in parts]),
        pa.concat_arrays([part.keys for part in parts]),
        kept,
    )
