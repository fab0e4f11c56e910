"""The rows of one lane of a run: in memory while they are few, else Parquet files and a part file.

Whoever looks at a run lane by lane reads it here, whether it is planned, committed, or old.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.ledger.lane_result import part_name
from publisher.ledger.table_writer import TableWriter
from publisher.ledger.tables import (
    DOCUMENTS,
    ROWS_AT_ONCE,
    TABLES,
    Columns,
    RunTable,
    RunTables,
    by_lane,
    explain_damage,
    filter_rows,
    read_batches,
    read_file,
)

_PORTION = 4 << 20
"""Bytes of documents that are read together, unless one has more."""


@dataclass(frozen=True, slots=True)
class LaneRows:
    """The rows of one lane.  All methods raise ``FatalError`` if a file is missing or damaged."""

    lane: int
    folder: Path
    """The folder of the files of tables."""
    documents: Path
    """The folder of the part file."""
    tables: RunTables | None = None
    """The rows in memory; ``None``: they are in files."""

    @property
    def part(self) -> Path:
        """The part file; a lane in memory has one only in the directory of a sink."""
        return self.documents / part_name(self.lane)

    @property
    def files(self) -> list[Path]:
        """The files of the tables; none for rows in memory."""
        if self.tables is not None:
            return []
        return [self.folder / table.file_of(self.lane) for table in TABLES]

    @property
    def size(self) -> int:
        """The approximate size of the rows in bytes."""
        if self.tables is not None:
            return sum(rows.nbytes for rows in self.tables.values())
        paths = [path for path in (*self.files, self.part) if path.exists()]
        return sum(path.stat().st_size for path in paths)

    def read(
        self, table: RunTable, columns: Columns = None, condition: pc.Expression | None = None
    ) -> pa.Table:
        """Reads columns of a table, in its order, of the rows that fit a condition."""
        if self.tables is None:
            return read_file(self.folder / table.file_of(self.lane), columns, condition)
        rows = self.tables[table.name]
        rows = rows if condition is None else filter_rows(rows, condition)
        return rows if columns is None else rows.select(list(columns))

    def batches(
        self, table: RunTable, columns: Columns = None, start: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yields columns of a table from a row on, some thousand rows at a time."""
        if self.tables is not None:
            yield from self.read(table, columns).slice(start).to_batches(ROWS_AT_ONCE)
        else:
            yield from read_batches(self.folder / table.file_of(self.lane), columns, start)

    def lines(self, rows: pa.RecordBatch) -> list[bytes]:
        """Reads documents, given by rows with ``offset``, ``length`` and ``text``."""
        texts = rows.column("text")
        if not texts.null_count:
            return texts.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
        with explain_damage(self.part):
            return read_lines(self.part, rows["offset"].to_numpy(), rows["length"].to_numpy())

    def texts(self) -> Iterator[str]:
        """Yields the documents."""
        for batch in self.batches(DOCUMENTS, ["offset", "length", "text"]):
            for start, end in cut(batch["length"].to_numpy(), _PORTION):
                for line in self.lines(batch.slice(start, end - start)):
                    yield line.decode()

    def load(self, *, with_texts: bool) -> LaneRows:
        """The lane with its rows in memory, and the texts of its documents."""
        if self.tables is not None:
            return self
        tables = {table.name: self.read(table) for table in TABLES}
        if with_texts:
            batches = tables[DOCUMENTS.name].to_batches()
            batches = [_with_text(batch, self.lines(batch)) for batch in batches]
            tables[DOCUMENTS.name] = pa.Table.from_batches(batches, DOCUMENTS.schema)
        return replace(self, tables=tables)

    def write_part(self, folder: Path) -> Path:
        """Writes the documents as a part file into a folder; returns its path."""
        path = folder / self.part.name
        if self.part.exists():
            shutil.copyfile(self.part, path)
            return path
        with path.open("wb") as file:
            file.writelines(f"{text}\n".encode() for text in self.texts())
        return path

    def discard(self) -> None:
        """Removes the files that an attempt has staged."""
        for folder in (self.folder, self.documents):
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, folder: Path, documents: Path | None) -> LaneRows:
        """Writes rows in memory to files in a folder, and the texts of documents into ``documents``."""
        assert self.tables is not None
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = self.documents
        if documents is not None:
            documents.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.write_part(documents).chmod(0o600)
            place = documents
        for table in TABLES:
            rows = self.tables[table.name]
            if table == DOCUMENTS:
                rows = without_texts(rows)
            target = TableWriter(folder / table.file_of(self.lane), table)
            target.spill()
            target.add(rows)
            target.close()
        return LaneRows(self.lane, folder, place)


def rows_in_memory(
    tables: RunTables, lanes: int, folder: Path, documents: Path
) -> tuple[LaneRows, ...]:
    """Divides the rows of a small run into its lanes."""
    divided = {name: list(by_lane(rows, lanes)) for name, rows in tables.items()}
    return tuple(
        LaneRows(lane, folder, documents, {name: each[lane] for name, each in divided.items()})
        for lane in range(lanes)
    )


def first_documents(lanes: Iterable[LaneRows], count: int) -> Iterator[str]:
    """Yields the first ``count`` documents, alternating between the lanes."""
    turns = zip_longest(*(islice(lane.texts(), count) for lane in lanes))
    yield from islice((text for turn in turns for text in turn if text is not None), count)


def without_texts(documents: pa.Table) -> pa.Table:
    """The index of documents whose texts are in a part file."""
    place = documents.schema.get_field_index("text")
    return documents.set_column(place, "text", pa.nulls(len(documents), pa.large_string()))


def _with_text(documents: pa.RecordBatch, lines: Iterable[bytes]) -> pa.RecordBatch:
    place = documents.schema.get_field_index("text")
    texts = pa.array([line.decode() for line in lines], pa.large_string())
    return documents.set_column(place, "text", texts)


def cut(lengths: np.ndarray, size: int, count: int = 1 << 62) -> Iterator[tuple[int, int]]:
    """Cuts rows into pieces of limited number and bytes; a single document may exceed the bytes.

    >>> list(cut(np.array([3, 3, 9, 1]), 6))
    [(0, 2), (2, 3), (3, 4)]
    """
    ends = np.cumsum(lengths)
    low = 0
    while low < len(lengths):
        start = ends[low] - lengths[low]
        high = int(np.searchsorted(ends, start + size, "right"))
        high = min(max(high, low + 1), low + count, len(lengths))
        yield low, high
        low = high


def read_lines(part: Path, offsets: np.ndarray, lengths: np.ndarray) -> list[bytes]:
    """Reads documents of a part file, consecutive ones together.

    Raises:
        FatalError: The file has other documents.
        OSError: The file is missing, or cannot be read.
    """
    lines: list[bytes] = []
    breaks = np.flatnonzero(offsets[1:] != offsets[:-1] + lengths[:-1] + 1) + 1
    starts = [0, *breaks.tolist()] if len(offsets) else []
    with part.open("rb") as file:
        for start, end in zip(starts, [*starts[1:], len(offsets)], strict=True):
            first = int(offsets[start])
            size = int(offsets[end - 1] + lengths[end - 1]) - first
            data = os.pread(file.fileno(), size, first)
            found = data.split(b"\n")
            if len(data) != size or len(found) != end - start:
                raise FatalError(
                    f"{part} does not fit its index at byte {first}: restore it, or publish again"
                )
            lines += found
    return lines
