"""The documents of a lane: a part file with one document on a line, and an index of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
_WRITTEN_AT_ONCE = 50
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
        self.operations = Counter[str]()

    def write(self, source: int, documents: Sequence[Document]) -> int:
        """Appends documents; returns the number of the first in the lane, from 0."""
        first = self.count
        for start in range(0, len(documents), _WRITTEN_AT_ONCE):
            self._append(source, documents[start : start + _WRITTEN_AT_ONCE])
        return first

    def _append(self, source: int, documents: Sequence[Document]) -> None:
        lines = [document.text.encode() for document in documents]
        self._part.write(b"\n".join(lines) + b"\n")
        offset = self.bytes
        for line, document in zip(lines, documents, strict=True):
            obj, position, poll, operation, association, event_id, _, _, records = document
            length = len(line)
            place = (source, offset, length, *position, poll, operation, obj.schema, obj.table)
            self._pending.append((*place, association, event_id, records))
            offset += length + 1
        self.bytes = offset
        self.count += len(documents)
        self.operations.update([document.operation for document in documents])
        if len(self._pending) >= _ROWS_TO_WRITE:
            self._write_index()

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
