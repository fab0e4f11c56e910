"""The documents of a lane: a part file with one document on each line, and its index."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.ledger.lane_table import LaneTable
from publisher.model.document_schema import DOCUMENT_SCHEMA

_OF_DOCUMENTS = [
    field for field in DOCUMENT_SCHEMA if field.name not in {"rank", "key", "text", "rows"}
]
INDEX_SCHEMA = pa.schema(
    [
        ("source", pa.int32()),
        # number in the lane, from 0
        ("number", pa.int64()),
        # offset and length of the line in the part file, in bytes, without its line end
        ("offset", pa.int64()),
        ("length", pa.int64()),
        *_OF_DOCUMENTS,
    ]
)
"""One row for each document of a lane, in the order of the part file."""

_REPEATING = ["source", "part", "operation", "schema", "table"]
_ASCENDING = ["number", "offset", "length", "high", "low", "ordinal", "poll"]
_ROWS_TO_WRITE = 1 << 14
_BUFFER = 1 << 16
"""Bytes that wait for further lines; portions are written without a copy."""
_PORTION = 1 << 18
"""Bytes of the lines that are joined at once; more if a line is longer."""
_LINE_END = pa.scalar("\n", pa.large_string())


class DocumentLog:
    """Writes the part file of one lane and its index."""

    def __init__(
        self, part: Path, index: Path, convert: Callable[[str], str] | None = None
    ) -> None:
        """``convert`` gives the text of a document another form."""
        self._convert = convert
        self._part = part.open("wb", buffering=_BUFFER)
        self._index = LaneTable(index, INDEX_SCHEMA, _REPEATING, _ASCENDING)
        self._pending: list[pa.RecordBatch] = []
        self._digest = hashlib.sha256()
        self.bytes = 0
        self.count = 0
        self.operations = Counter[str]()

    def write(self, source: int, documents: pa.RecordBatch) -> int:
        """Appends documents (``DOCUMENT_SCHEMA``); returns the number of the first in the lane, from 0."""
        first, count = self.count, documents.num_rows
        if not count:
            return first
        texts = documents.column("text")
        if self._convert is not None:
            converted = [self._convert(text) for text in texts.to_pylist()]
            texts = pa.array(converted, texts.type)
        lengths = pc.binary_length(texts).to_numpy()
        ends = self.bytes + np.cumsum(lengths + 1)
        self._write_lines(texts, ends - self.bytes)
        places = [
            pa.array(np.full(count, source, np.int32)),
            pa.array(np.arange(first, first + count)),
            pa.array(ends - lengths - 1),
            pa.array(lengths),
        ]
        columns = places + [documents.column(field.name) for field in _OF_DOCUMENTS]
        self._pending.append(pa.RecordBatch.from_arrays(columns, schema=INDEX_SCHEMA))
        self.bytes = int(ends[-1])
        self.count += count
        for kind in documents.column("operation").value_counts().to_pylist():
            self.operations[kind["values"]] += kind["counts"]
        if sum([batch.num_rows for batch in self._pending]) >= _ROWS_TO_WRITE:
            self._write_index()
        return first

    def _write_lines(self, texts: pa.LargeStringArray, ends: np.ndarray) -> None:
        """Writes texts in portions: a copy of all of them would need memory."""
        cuts = [0, *(np.flatnonzero(np.diff(ends // _PORTION)) + 1).tolist(), len(ends)]
        for start, stop in pairwise(cuts):
            portion = texts.slice(start, stop - start)
            lines = pa.LargeListArray.from_arrays([0, len(portion)], portion)
            for piece in (pc.binary_join(lines, _LINE_END)[0].as_buffer(), b"\n"):
                self._part.write(piece)
                self._digest.update(piece)

    @property
    def digest(self) -> str:
        """SHA-256 of all bytes of the part file, in hex."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Writes the remaining entries of the index and closes both files."""
        self._write_index()
        self._index.close()
        self._part.close()

    def abandon(self) -> None:
        """Closes incomplete files."""
        try:
            self._index.abandon()
        finally:
            self._part.close()

    def _write_index(self) -> None:
        if self._pending:
            self._index.write(pa.Table.from_batches(self._pending))
            self._pending.clear()
