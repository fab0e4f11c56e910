"""The documents of a lane: in a table, or in a part file with one document on each line, and its index."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.ledger.lane_rows import cut, without_texts
from publisher.ledger.table_writer import TableWriter
from publisher.ledger.tables import DOCUMENTS, OF_DOCUMENTS

_BUFFER = 1 << 16
"""Bytes that wait for further lines; portions are written without a copy."""
_PORTION = 1 << 18
"""Bytes of the lines that are joined at once; more if a line is longer."""
_LINE_END = pa.scalar("\n", pa.large_string())


class DocumentLog:
    """Collects the documents of one lane in a table, or in a part file with the table as index."""

    def __init__(
        self, table: TableWriter, part: Path, convert: Callable[[str], str] | None, *, to_sink: bool
    ) -> None:
        """``convert`` gives the text of a document another form; ``to_sink``: the part file is that of a
        sink, and the texts are nowhere else."""
        self._convert = convert
        self._table = table
        self._path = part
        self._part: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self.bytes = 0
        self.count = 0
        self.operations = Counter[str]()
        if to_sink:
            self.spill()

    def spill(self) -> None:
        """Begins the part file, and moves the texts in memory into it."""
        if self._part is None:
            self._part = self._path.open("wb", buffering=_BUFFER)
            self._path.chmod(0o600)
            self._table.replace(self._move_texts)

    def _move_texts(self, documents: pa.Table) -> pa.Table:
        assert self._part is not None
        for batch in documents.to_batches():
            for piece in _pieces(batch["text"]):
                self._part.write(piece)
        return without_texts(documents)

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
        for piece in _pieces(texts):
            self._digest.update(piece)
            if self._part is not None:
                self._part.write(piece)
        places = [
            pa.array(np.full(count, source, np.int32)),
            pa.array(np.arange(first, first + count)),
            pa.array(ends - lengths - 1),
            pa.array(lengths),
        ]
        others = [documents.column(field.name) for field in OF_DOCUMENTS]
        texts = texts if self._part is None else pa.nulls(count, texts.type)
        columns = [*places, *others, texts]
        self._table.add(pa.Table.from_arrays(columns, schema=DOCUMENTS.schema))
        self.bytes = int(ends[-1])
        self.count += count
        for kind in documents.column("operation").value_counts().to_pylist():
            self.operations[kind["values"]] += kind["counts"]
        return first

    @property
    def digest(self) -> str:
        """SHA-256 of all bytes of the part file, in hex."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Closes the part file, which may be incomplete."""
        if self._part is not None:
            self._part.close()


def _pieces(texts: pa.LargeStringArray) -> Iterator[pa.Buffer | bytes]:
    """Yields texts as lines, in portions: a copy of all of them would need memory."""
    lengths = pc.binary_length(texts).to_numpy()
    for start, stop in cut(lengths, _PORTION):
        portion = texts.slice(start, stop - start)
        lines = pa.LargeListArray.from_arrays([0, len(portion)], portion)
        yield pc.binary_join(lines, _LINE_END)[0].as_buffer()
        yield b"\n"
