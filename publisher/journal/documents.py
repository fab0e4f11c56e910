"""The documents of a lane: a part file with one document on a line, and an index of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from publisher.change import Document

INDEX_SCHEMA = pa.schema(
    [
        ("source", pa.int32()),
        # place of the line in the part file, in bytes, without its line end
        ("offset", pa.int64()),
        ("length", pa.int64()),
        # position of the first change
        ("part", pa.string()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("ordinal", pa.int32()),
        ("poll", pa.int64()),
        ("operation", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("association", pa.string()),
        ("event_id", pa.string()),
        # positions of the records in it, joined with commas
        ("records", pa.string()),
    ]
)
"""One row for each document of a lane, in the order of the part file."""

_REPEATING = ["source", "part", "operation", "schema", "table"]
_ROWS_TO_WRITE = 20_000
_BUFFER = 1 << 20


class DocumentLog:
    """Writes the part file of one lane and its index."""

    def __init__(self, part: Path, index: Path) -> None:
        self._part = part.open("wb", buffering=_BUFFER)
        self._writer = pq.ParquetWriter(
            index, INDEX_SCHEMA, compression="zstd", use_dictionary=_REPEATING
        )
        self._pending: list[tuple[object, ...]] = []
        self.bytes = 0
        self.count = 0
        self.operations: dict[str, int] = {}

    def write(self, source: int, document: Document) -> int:
        """Appends a document; returns its number in the lane, from 0."""
        line = document.text.encode()
        self._part.write(line + b"\n")
        obj = document.object
        self._pending.append(
            (
                source,
                self.bytes,
                len(line),
                *document.position,
                document.poll,
                document.operation,
                obj.schema,
                obj.table,
                document.association,
                document.event_id,
                document.records,
            )
        )
        if len(self._pending) >= _ROWS_TO_WRITE:
            self._write_index()
        self.operations[document.operation] = self.operations.get(document.operation, 0) + 1
        self.bytes += len(line) + 1
        self.count += 1
        return self.count - 1

    def close(self) -> None:
        """Writes the rest of the index and closes both files."""
        self._write_index()
        self._writer.close()
        self._part.close()

    def abandon(self) -> None:
        """Closes the files as they are."""
        try:
            self._writer.close()
        finally:
            self._part.close()

    def _write_index(self) -> None:
        if not self._pending:
            return
        columns = zip(*self._pending, strict=True)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, INDEX_SCHEMA, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=INDEX_SCHEMA))
        self._pending.clear()
