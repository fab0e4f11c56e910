"""Tables of records in Parquet files that only their owner can read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.ledger.durable import create_private


def write_table(table: pa.Table | pa.RecordBatch, path: Path, **options: Any) -> None:
    """Writes a table; the options are those of ``pyarrow.parquet.write_table``."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    with create_private(path) as file:
        pq.write_table(table, file, **options)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Reads a table, or some of its columns."""
    chosen = None if columns is None else [*columns]
    return pq.read_table(path, columns=chosen, use_threads=False)
