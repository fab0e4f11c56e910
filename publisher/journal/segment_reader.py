"""Reads runs back from the files of a segment, see ``segment_files``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.journal.key_index import KeyIndexBuilder
from publisher.journal.lane_result import LaneNames
from publisher.journal.lookups import SEALED
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


class SegmentReader:
    """Reads the rows of single runs of a segment; keeps the rows that were read last of each table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._metadata: dict[SegmentTable, pq.FileMetaData] = {}
        self._last: dict[SegmentTable, tuple[int, pa.Table]] = {}

    def read(self, table: SegmentTable, run: int) -> pa.Table:
        """Reads the rows of a run.

        Raises:
            FatalError: The file is missing or damaged.
        """
        with report_damage(self._folder, table) as path:
            groups = [
                self._row_group(path, table, group) for group in self._groups(path, table, run)
            ]
        parts = []
        for rows in groups:
            runs = rows["run"].to_numpy()  # in ascending order
            start, end = np.searchsorted(runs, [run, run + 1]).tolist()
            parts.append(rows.slice(start, end - start))
        return join_rows(table, parts)

    def _groups(self, path: Path, table: SegmentTable, run: int) -> Iterator[int]:
        """Yields the row groups that may have rows of a run."""
        if table not in self._metadata:
            self._metadata[table] = pq.read_metadata(path)
        metadata = self._metadata[table]
        for group in range(metadata.num_row_groups):
            limits = metadata.row_group(group).column(0).statistics
            if limits.min <= run <= limits.max:
                yield group

    def _row_group(self, path: Path, table: SegmentTable, group: int) -> pa.Table:
        number, rows = self._last.get(table, (None, None))
        if number != group:
            with pq.ParquetFile(
                path, metadata=self._metadata[table], page_checksum_verification=True
            ) as file:
                rows = file.read_row_group(group, use_threads=False)
            self._last[table] = (group, rows)
        return rows


def unpack_texts(segment: SegmentReader, number: int, target: Path) -> Manifest | None:
    """Writes the text files of a run of a segment into an empty folder, as they were before.

    States of sources are not in segments.  Returns ``None`` if the segment does not have the run.

    Raises:
        FatalError: A file of the segment is missing or damaged.
    """
    rows = segment.read(RUNS, number).to_pylist()
    if not rows:
        return None
    for name, text in [(MANIFEST, rows[0]["manifest"]), *rows[0]["files"]]:
        (target / name).write_text(text, "utf-8", newline="\n")
    manifest = Journal(target).manifest()
    assert manifest is not None
    return manifest


def read_lanes(segment: SegmentReader, number: int, manifest: Manifest) -> dict[str, pa.Table]:
    """Reads the tables of the lanes of a run, by the names of their files; documents with their texts.

    Raises:
        FatalError: A file of the segment is missing or damaged.
    """
    tables: dict[str, pa.Table] = {}
    for table in (DECISIONS, DOCUMENTS, LOOKUPS):
        of_run = segment.read(table, number)
        ends = np.searchsorted(of_run["lane"].to_numpy(), np.arange(manifest.lanes + 1)).tolist()
        rows = of_run.drop_columns(["run", "lane"])
        if table is LOOKUPS and rows[SEALED.name].null_count == rows.num_rows:  # is not masked
            rows = rows.drop_columns([SEALED.name])
        for lane, (start, end) in enumerate(pairwise(ends)):
            tables[file_of(table, LaneNames(lane))] = rows.slice(start, end - start)
    return tables


def write_lanes(journal: Journal, manifest: Manifest, tables: Mapping[str, pa.Table]) -> None:
    """Writes the tables of ``read_lanes`` into the files of a journal, as they were before."""
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
