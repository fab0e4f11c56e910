"""The files of a segment: many finished runs in the Parquet files of one folder, written once.

A segment is written under another name, synced and then renamed, so it is complete or does not exist.
Rows of a run lie together, in the order of its lanes; row numbers in them count within the lane.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.journal.decisions import DECISION_SCHEMA
from publisher.journal.documents import INDEX_SCHEMA
from publisher.journal.durable import make_private, sync_folder, write_durably
from publisher.journal.lane_result import LaneNames
from publisher.journal.lookups import LOOKUP_SCHEMA
from publisher.journal.manifest import MANIFEST, SENT, Journal, Manifest
from publisher.journal.segment_header import HEADER, SegmentHeader, SegmentSource

_OF_RUN = [pa.field("run", pa.int64()), pa.field("lane", pa.int32())]
RUN_SCHEMA = pa.schema(
    [
        ("run", pa.int64()),
        # seconds since 1970-01-01 UTC
        ("ended", pa.float64()),
        ("plan", pa.string()),
        # documents that sinks refused
        ("refusals", pa.int64()),
        ("manifest", pa.string()),
        # the other text files of the run's folder by their names
        ("files", pa.map_(pa.string(), pa.string())),
    ]
)
"""One row for each run; ``run`` is its number."""
DOCUMENT_TEXTS = pa.field("text", pa.large_string())
"""The documents; null if the run published them to a directory, which has them."""

_TEXT_FILES = ("*.json", "*.jsonl", SENT)
_ROWS_OF_GROUP = 20_000


@dataclass(frozen=True, slots=True)
class SegmentTable:
    """One of the tables of a segment."""

    name: str
    schema: pa.Schema
    of_lane: str | None = None
    """Property of ``LaneNames`` with the file that the rows come from; ``None`` if they come from no lane."""
    bytes_of_group: int = 1 << 24
    """Approximate size of a row group, before compression: readers of one run read whole row groups."""
    repeating: tuple[str, ...] = ()
    """Columns of texts that repeat: whole row groups are read in half the time if these stay encoded."""

    @property
    def file(self) -> str:
        """Name of the Parquet file."""
        return f"{self.name}.parquet"


RUNS = SegmentTable("runs", RUN_SCHEMA, bytes_of_group=1 << 20)
DECISIONS = SegmentTable(
    "decisions",
    pa.schema([*_OF_RUN, *DECISION_SCHEMA]),
    "decisions",
    repeating=("part", "schema", "table", "key", "perpetrator"),
)
DOCUMENTS = SegmentTable(
    "documents",
    pa.schema([*_OF_RUN, *INDEX_SCHEMA, DOCUMENT_TEXTS]),
    "index",
    repeating=("part", "schema", "table", "operation"),
)
LOOKUPS = SegmentTable("lookups", pa.schema([*_OF_RUN, *LOOKUP_SCHEMA]), "lookups")
TABLES = (RUNS, DECISIONS, DOCUMENTS, LOOKUPS)


class RunRows(NamedTuple):
    """The journal of a finished run as rows of the tables of a segment."""

    ended: float
    bytes: int
    """See ``SegmentHeader``."""
    sources: tuple[SegmentSource, ...]
    tables: Mapping[SegmentTable, Sequence[pa.Table]]


class SegmentWriter:
    """Writes a segment into a new folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._tables = {table: _TableWriter(folder, table) for table in TABLES}
        self._runs = self._records = self._bytes = 0
        self._ends: list[float] = []
        self._sources: list[SegmentSource] = []

    def add_run(self, run: RunRows) -> None:
        """Adds a finished run; runs are added in the order of their numbers."""
        for table, rows in run.tables.items():
            for part in rows:
                self._tables[table].add(part)
        self._records += sum(part.num_rows for part in run.tables[DECISIONS])
        self._bytes += run.bytes
        self._note(1, run.ended, run.ended, run.sources)

    def add_segment(self, folder: Path, header: SegmentHeader) -> None:
        """Adds all runs of a segment, whose numbers follow those that were added."""
        for table, writer in self._tables.items():
            for rows in read_rows(folder, table):
                writer.add(rows)
        self._records += header.records
        self._bytes += header.bytes
        self._note(header.runs, header.oldest, header.youngest, header.sources)

    def close(self) -> None:
        """Completes and syncs the segment; the header is written last."""
        for writer in self._tables.values():
            writer.close()
        ends = (min(self._ends), max(self._ends))
        header = SegmentHeader(
            self._runs, self._records, self._bytes, *ends, sources=tuple(self._sources)
        )
        write_durably(self._folder / HEADER, json.dumps(asdict(header), indent=1) + "\n")
        sync_folder(self._folder)

    def _note(
        self, runs: int, oldest: float, youngest: float, sources: Iterable[SegmentSource]
    ) -> None:
        self._runs += runs
        self._ends += [oldest, youngest]
        self._sources += [source for source in sources if source not in self._sources]


class _TableWriter:
    """Writes a table of a segment in row groups of useful size; memory holds one of them."""

    def __init__(self, folder: Path, table: SegmentTable) -> None:
        self._path = folder / table.file
        self._table = table
        self._writer = pq.ParquetWriter(
            self._path, table.schema, compression="zstd", write_page_checksum=True
        )
        self._pending: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.Table) -> None:
        self._pending.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= _ROWS_OF_GROUP or self._bytes >= self._table.bytes_of_group:
            self._write()

    def close(self) -> None:
        self._write()
        self._writer.close()
        make_private(self._path)

    def _write(self) -> None:
        if self._rows:
            self._writer.write_table(join_rows(self._table, self._pending).combine_chunks())
        self._pending.clear()
        self._rows = self._bytes = 0


def read_run(number: int, journal: Journal, manifest: Manifest) -> RunRows:
    """Reads the journal of a finished run.

    Raises:
        FatalError: A file of the journal is missing or damaged.
    """
    tables: dict[SegmentTable, list[pa.Table]] = {table: [] for table in TABLES}
    try:
        texts = _read_texts(journal.root)
        tables[RUNS].append(_row_of_run(number, journal, manifest, texts))
        for lane in range(manifest.lanes):
            for table in (DECISIONS, DOCUMENTS, LOOKUPS):
                rows = _read_lane(journal, manifest, table, LaneNames(lane))
                tables[table].append(_add_numbers(rows, number, lane))
        ended = journal.sent_at
    except (OSError, pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise FatalError(
            f"the journal {journal.root} of a finished run was damaged ({error}): remove it"
        ) from error
    size = len(texts[MANIFEST]) + sum(result.bytes for result in manifest.results)
    return RunRows(ended, size, tuple(map(SegmentSource.of, manifest.sources)), tables)


def _row_of_run(
    number: int, journal: Journal, manifest: Manifest, texts: Mapping[str, str]
) -> pa.Table:
    others = {name: text for name, text in texts.items() if name != MANIFEST}
    row = {
        "run": number,
        "ended": journal.sent_at,
        "plan": manifest.plan,
        "refusals": sum(map(_count_refusals, others.values())),
        "manifest": texts[MANIFEST],
        "files": list(others.items()),
    }
    return pa.Table.from_pylist([row], RUN_SCHEMA)


def _read_lane(
    journal: Journal, manifest: Manifest, table: SegmentTable, names: LaneNames
) -> pa.Table:
    if table is LOOKUPS and not manifest.has_lookups(names.lane):
        return LOOKUP_SCHEMA.empty_table()
    with pq.ParquetFile(journal.root / file_of(table, names)) as file:
        rows = file.read(use_threads=False)
    if table is not DOCUMENTS:
        return rows
    texts = _document_texts(journal, manifest, names, rows.num_rows)
    return rows.append_column(DOCUMENT_TEXTS, texts)


def _add_numbers(rows: pa.Table, number: int, lane: int) -> pa.Table:
    numbers = [
        pa.array(np.full(rows.num_rows, number, np.int64)),
        pa.array(np.full(rows.num_rows, lane, np.int32)),
    ]
    return pa.Table.from_arrays(
        [*numbers, *rows.columns], schema=pa.schema([*_OF_RUN, *rows.schema])
    )


def join_rows(table: SegmentTable, parts: Iterable[pa.Table]) -> pa.Table:
    """Joins rows of a table; columns that older versions did not write are null."""
    each = [table.schema.empty_table(), *parts]
    if all(rows.schema.equals(table.schema) for rows in each):
        return pa.concat_tables(each)
    return pa.concat_tables(each, promote_options="default")


def read_rows(folder: Path, table: SegmentTable) -> Iterator[pa.Table]:
    """Reads the rows of a table of a segment.

    Raises:
        FatalError: The file is missing or damaged.
    """
    with (
        report_damage(folder, table) as path,
        pq.ParquetFile(path, page_checksum_verification=True) as file,
    ):
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, use_threads=False)


def read_columns(
    folder: Path,
    table: SegmentTable,
    columns: Sequence[str] | None = None,
    condition: pc.Expression | None = None,
) -> pa.Table:
    """Reads columns of a table of a segment, or all, of the rows that fit a condition.

    Raises:
        FatalError: The file is missing or damaged.
    """
    with report_damage(folder, table) as path:
        return pq.read_table(
            path,
            columns=None if columns is None else list(columns),
            filters=condition,
            page_checksum_verification=True,
        )


@contextmanager
def report_damage(folder: Path, table: SegmentTable) -> Iterator[Path]:
    """Yields the path of a table of a segment, to be read in the block.

    Raises:
        FatalError: The file is missing or damaged.
    """
    path = folder / table.file
    try:
        yield path
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the journal cannot be read ({error}): restore it, or remove the directory "
            f"{folder}, whose finished runs can then no longer be explained"
        ) from error


def file_of(table: SegmentTable, names: LaneNames) -> str:
    """The file of a lane that has the rows of a table."""
    assert table.of_lane is not None
    return str(getattr(names, table.of_lane))


def _document_texts(journal: Journal, manifest: Manifest, names: LaneNames, count: int) -> pa.Array:
    if not has_documents(journal, manifest):
        return pa.nulls(count, DOCUMENT_TEXTS.type)
    lines = (journal.documents(manifest) / names.part).read_bytes().split(b"\n")
    if len(lines) != count + 1:
        raise FatalError(
            f"{names.part} of the finished run {manifest.run} has other documents than its index: "
            f"{journal.root} was damaged; remove it"
        )
    return pa.array(lines[:-1], DOCUMENT_TEXTS.type)


def has_documents(journal: Journal, manifest: Manifest) -> bool:
    """Returns whether the documents are inside the journal, not in the directory of a sink."""
    return journal.documents(manifest).resolve().is_relative_to(journal.root.resolve())


def _read_texts(root: Path) -> dict[str, str]:
    paths = (path for pattern in _TEXT_FILES for path in root.glob(pattern))
    return {path.name: path.read_text("utf-8") for path in paths if path.stat().st_size}


def _count_refusals(text: str) -> int:
    try:
        content = json.loads(text)
    except ValueError:  # several lines of rejected records
        return 0
    refusals = content.get("refusals", ()) if isinstance(content, dict) else ()
    return len(refusals)
