"""Writes the rows of one table, of a lane or of an hour: to memory, or to a Parquet file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.ledger.tables import RunTable

ROWS_TO_WRITE, BYTES_TO_WRITE = 1 << 14, 1 << 24


@dataclass(slots=True)
class TableWriter:
    """Holds the rows of a table until ``spill`` begins its file, then writes them in row groups."""

    path: Path
    table: RunTable
    count: int = field(default=0, init=False)
    """Number of all rows."""
    rows_in_memory: int = field(default=0, init=False)
    bytes_in_memory: int = field(default=0, init=False)
    _pending: list[pa.Table] = field(default_factory=list, init=False)
    _writer: pq.ParquetWriter | None = field(default=None, init=False)

    def add(self, rows: pa.Table) -> None:
        """Adds the next rows."""
        self._pending.append(rows)
        self.count += rows.num_rows
        self.rows_in_memory += rows.num_rows
        self.bytes_in_memory += rows.nbytes
        is_much = self.rows_in_memory >= ROWS_TO_WRITE or self.bytes_in_memory >= BYTES_TO_WRITE
        if self._writer is not None and is_much:
            self._writer.write_table(self._take())

    def replace(self, change: Callable[[pa.Table], pa.Table]) -> None:
        """Replaces the rows in memory, if there are any."""
        if self._pending:
            rows = change(self._take())
            self.count -= rows.num_rows
            self.add(rows)

    def spill(self) -> None:
        """Begins the file."""
        self._writer = pq.ParquetWriter(
            self.path,
            self.table.schema,
            compression="zstd",
            use_dictionary=list(self.table.repeating) or True,
            column_encoding=dict.fromkeys(self.table.ascending, "DELTA_BINARY_PACKED") or None,
            write_page_checksum=True,
        )
        self.path.chmod(0o600)

    def close(self) -> pa.Table | None:
        """Completes the file; without one, returns the rows."""
        rows = self._take()
        if self._writer is None:
            return rows
        if rows.num_rows:
            self._writer.write_table(rows)
        self._writer.close()
        return None

    def abandon(self) -> None:
        """Closes an incomplete file."""
        if self._writer is not None:
            self._writer.close()

    def _take(self) -> pa.Table:
        rows = pa.concat_tables([self.table.schema.empty_table(), *self._pending])
        self._pending.clear()
        self.rows_in_memory = self.bytes_in_memory = 0
        return rows.combine_chunks()
