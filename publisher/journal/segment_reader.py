"""Reads runs back from the files of a segment, see ``segment_files``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.journal.key_index import KeyIndexBuilder
from publisher.journal.lane_result import LaneNames
from publisher.journal.manifest import MANIFEST, Journal, Manifest
from publisher.journal.segment_files import (
    DECISIONS,
    DOCUMENT_TEXTS,
    DOCUMENTS,
    LOOKUPS,
    RUNS,
    SegmentTable,
    file_of,
    has_documents,
    join_rows,
    report_damage,
)
from publisher.journal.unpacked_runs import FilesInMemory, PlaceInSegment

_OF_LANES = (DECISIONS, DOCUMENTS, LOOKUPS)


class SegmentReader:
    """Reads runs of a segment, in any thread; keeps its files open, and the last row group of each table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, pq.ParquetFile] = {}
        self._last: dict[str, tuple[int, pa.Table]] = {}
        self._lock = Lock()

    def read(self, origins: Mapping[int, Path]) -> Iterator[tuple[Journal, Manifest]]:
        """Reads runs into memory and yields them, oldest first; leaves out those that are not here.

        ``origins`` are the places where their journals were, by the numbers of the runs.  States of sources
        are not in segments.

        Raises:
            FatalError: A file of the segment is missing or damaged.
        """
        numbers = sorted(origins)
        of_runs = [_RowsOfRuns.of(table, self._rows(table, numbers)) for table in _OF_LANES]
        for row in self._rows(RUNS, numbers).to_pylist():
            number, lanes = row["run"], dict[str, pa.Table]()
            files = FilesInMemory({MANIFEST: row["manifest"], **dict(row["files"])}, lanes)
            origin = origins[number]
            journal = Journal(origin, PlaceInSegment(origin, self._folder), files)
            manifest = journal.manifest()
            assert manifest is not None
            for rows in of_runs:
                lanes.update(rows.of_lanes(number, manifest.lanes))
            yield journal, manifest

    def _rows(self, table: SegmentTable, numbers: Sequence[int]) -> pa.Table:
        """Reads the rows of some runs, whose numbers ascend."""
        parts = []
        with self._lock, report_damage(self._folder, table) as path:
            file = self._open(path, table)
            for group in _groups(file.metadata, numbers):
                rows = self._row_group(file, table, group)
                runs = rows["run"].to_numpy()  # in ascending order
                starts, ends = (np.searchsorted(runs, numbers, side) for side in ("left", "right"))
                places = zip(starts, ends - starts, strict=True)
                parts.append(_decoded(table, pa.concat_tables(rows.slice(*at) for at in places)))
        return join_rows(table, parts).combine_chunks()  # copies the rows: the groups are large

    def _open(self, path: Path, table: SegmentTable) -> pq.ParquetFile:
        if table.name not in self._files:
            self._files[table.name] = pq.ParquetFile(
                pa.OSFile(str(path)),  # a path takes longer
                read_dictionary=table.repeating,
                page_checksum_verification=True,
            )
        return self._files[table.name]

    def _row_group(self, file: pq.ParquetFile, table: SegmentTable, group: int) -> pa.Table:
        number, rows = self._last.get(table.name, (None, None))
        if number != group:
            rows = file.read_row_group(group, use_threads=False)
            self._last[table.name] = (group, rows)
        return rows


def _groups(metadata: pq.FileMetaData, numbers: Sequence[int]) -> list[int]:
    """Lists the row groups that may have rows of some runs, whose numbers ascend."""
    groups = range(metadata.num_row_groups)
    limits = [metadata.row_group(group).column(0).statistics for group in groups]
    starts = np.searchsorted(numbers, [of_group.min for of_group in limits])
    ends = np.searchsorted(numbers, [of_group.max for of_group in limits], "right")
    return np.flatnonzero(starts < ends).tolist()


def _decoded(table: SegmentTable, rows: pa.Table) -> pa.Table:
    """Decodes the columns of repeating texts."""
    for name in table.repeating:
        place = rows.schema.get_field_index(name)
        if place < 0:  # an older version did not write it
            continue
        rows = rows.set_column(place, name, rows.column(place).cast(table.schema.field(name).type))
    return rows


class _RowsOfRuns(NamedTuple):
    """Rows of a table in the order of runs and lanes, without the numbers of these."""

    table: SegmentTable
    rows: pa.Table
    runs: np.ndarray
    lanes: np.ndarray

    @classmethod
    def of(cls, table: SegmentTable, rows: pa.Table) -> _RowsOfRuns:
        numbers = (rows[name].to_numpy() for name in ("run", "lane"))
        return cls(table, rows.drop_columns(["run", "lane"]), *numbers)

    def of_lanes(self, run: int, lanes: int) -> Iterator[tuple[str, pa.Table]]:
        """Yields the tables of the lanes of a run by the names of their files; documents with their texts."""
        first, last = np.searchsorted(self.runs, [run, run + 1])
        ends = first + np.searchsorted(self.lanes[first:last], np.arange(lanes + 1))
        for lane, (start, end) in enumerate(pairwise(ends.tolist())):
            yield file_of(self.table, LaneNames(lane)), self.rows.slice(start, end - start)


def write_run(run: Journal, manifest: Manifest, folder: Path) -> Journal:
    """Writes the files of a run that was read into memory into an empty folder, as they were before."""
    assert run.in_memory is not None
    for name, text in run.in_memory.texts.items():
        (folder / name).write_text(text, "utf-8", newline="\n")
    journal = Journal(folder, run.unpacked_from)
    _write_lanes(journal, manifest, run.in_memory.tables)
    return journal


def _write_lanes(journal: Journal, manifest: Manifest, tables: Mapping[str, pa.Table]) -> None:
    for names in map(LaneNames, range(manifest.lanes)):
        if has_documents(journal, manifest):
            documents = journal.documents(manifest)
            documents.mkdir(exist_ok=True)
            texts = tables[names.index][DOCUMENT_TEXTS.name].to_pylist()
            lines = "".join(f"{text}\n" for text in texts)
            (documents / names.part).write_text(lines, "utf-8", newline="\n")
        index = tables[names.index].drop_columns([DOCUMENT_TEXTS.name])
        pq.write_table(index, journal.root / names.index)
        pq.write_table(tables[names.decisions], journal.root / names.decisions)
        if manifest.has_lookups(names.lane):
            pq.write_table(tables[names.lookups], journal.root / names.lookups)
        keys = KeyIndexBuilder(journal.root / names.keys)
        keys.add(tables[names.decisions]["key"])
        keys.close()
