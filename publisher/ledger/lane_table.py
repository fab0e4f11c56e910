"""One Parquet file of a planned lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_FEW_ROWS = 1_000
"""Rows up to which a file is compressed by Snappy: zstd would take three times as long to write it and to
read it, because each column needs memory of its own for the compression."""


@dataclass(slots=True)
class LaneTable:
    """Writes the rows of a file; the first rows decide how the file is compressed."""

    path: Path
    schema: pa.Schema
    repeating: Sequence[str]
    """Columns with few different values."""
    ascending: Sequence[str]
    """Integers that are close to those of the row before, or constant: their differences take less space."""
    _writer: pq.ParquetWriter | None = field(default=None, init=False)

    def write(self, rows: pa.Table) -> None:
        """Writes rows as a row group."""
        if self._writer is None:
            self._writer = self._open("snappy" if rows.num_rows <= _FEW_ROWS else "zstd")
        self._writer.write_table(rows)

    def close(self) -> None:
        """Completes the file, also if it has no rows."""
        (self._writer or self._open("snappy")).close()

    def abandon(self) -> None:
        """Closes an incomplete file."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, compression: str) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self.path,
            self.schema,
            compression=compression,
            use_dictionary=list(self.repeating),
            column_encoding=dict.fromkeys(self.ascending, "DELTA_BINARY_PACKED"),
        )
