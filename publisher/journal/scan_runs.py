"""Scans whole journals in large parts: the lanes of runs with a folder, and whole segments.

Other readers look single records up; a scan reads every row of the columns that it names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError, UsageError
from publisher.journal.find_journal import find_job, open_journal
from publisher.journal.job_journals import Journals
from publisher.journal.lane_result import LaneNames
from publisher.journal.manifest import SENT, Journal, Manifest
from publisher.journal.scanned_run import ScannedRun, describe_run
from publisher.journal.segment_files import (
    DECISIONS,
    DOCUMENTS,
    LOOKUPS,
    RUNS,
    SegmentTable,
    file_of,
    read_columns,
    read_rows,
)
from publisher.journal.segments import Segment
from publisher.model.plain import restore

T = TypeVar("T")

_OF_RUN = ("run", "lane")
_ATTEMPTS = 5
_ROWS = 1 << 16
"""Maximum number of rows of a batch."""
_TEXT_BYTES = 32 << 20
"""Bytes of documents that are read together."""


class JournalPart(Protocol):
    """Rows of one or more runs.  A row's ``run`` is the number of the run in ``runs``."""

    @property
    def runs(self) -> Sequence[ScannedRun]:
        """The runs of the part, oldest first."""

    def decisions(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        """Reads columns of decisions, and always ``run`` and ``lane``.

        Raises:
            FatalError: A file of the journal is missing or damaged.
        """

    def documents(self, columns: Sequence[str]) -> pa.Table:
        """Reads columns of the documents' index in its order, and always ``run`` and ``lane``.

        Raises:
            FatalError: A file of the journal is missing or damaged.
        """

    def document_batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields the rows of ``documents``, some thousands at a time."""

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        """Reads documents by their row numbers in ``documents``; ``None`` if they were moved or deleted.

        Raises:
            FatalError: The documents are damaged.
        """

    def rows(self, table: SegmentTable) -> Iterator[pa.Table]:
        """Yields all rows of a table in its order, with ``run`` and ``lane``, some thousands at a time.

        Documents have their ``text``; null if it was moved or deleted.

        Raises:
            FatalError: A file of the journal is missing or damaged.
        """


def document_rows(decisions: pa.Table, documents: pa.Table) -> np.ndarray:
    """The row of each decision's document in ``documents``; -1 for decisions without one, and for those of
    lanes that the part does not have.

    ``documents`` is the whole index of the part: ``document`` counts within a run and lane."""
    lanes, firsts = np.unique(_lane_numbers(documents), return_index=True)
    numbers: np.ndarray = decisions["document"].to_numpy()
    if not len(lanes):
        return np.full(len(numbers), -1)
    wanted = _lane_numbers(decisions)
    at = np.minimum(np.searchsorted(lanes, wanted), len(lanes) - 1)
    has_document = (numbers >= 0) & (lanes[at] == wanted)
    rows: np.ndarray = np.where(has_document, numbers + firsts[at], -1)
    return rows


def _lane_numbers(table: pa.Table) -> np.ndarray:
    """One number for each pair of run and lane, ascending in the order of a journal."""
    runs: np.ndarray = table["run"].to_numpy().astype(np.int64)
    numbers: np.ndarray = (runs << 32) | table["lane"].to_numpy()
    return numbers


def scan_runs(directory: Path) -> Iterator[JournalPart]:
    """Yields all parts of a journal, of a directory of ``replay``, or of all runs of a job, oldest first.

    Raises:
        UsageError: There is no journal with a complete run.
        FatalError: The journal is damaged, or another version of the program wrote it.
    """
    with ExitStack() as stack:
        yield from open_parts(directory, stack)


def open_parts(directory: Path, stack: ExitStack) -> Iterator[JournalPart]:
    """Yields the parts of ``scan_runs``; they can be read until ``stack`` is closed."""
    if find_job(directory) is None:
        journal = stack.enter_context(open_journal(directory))
        manifest = journal.manifest()
        if manifest is None:
            raise UsageError(f"{journal.root} has no complete run: start it again, then report")
        yield from _lanes_of(journal, manifest)
        return
    part = None
    for part in scan_kept_runs(directory):
        yield part
    if part is None:
        raise UsageError(
            f"{directory} has no complete run: publish first, or give another directory"
        )


def scan_kept_runs(directory: Path) -> Iterator[JournalPart]:
    """Yields the parts of all runs of a job, oldest first; nothing if there is no job, or no complete run.

    Raises ``FatalError`` as ``scan_runs``.
    """
    job = find_job(directory)
    if job is not None:
        yield from _scan_job(job)


def read_settled(directories: Sequence[Path], read: Callable[[], T]) -> T:
    """Calls ``read``, which scans these directories; again if a publisher that runs beside moved runs.

    Raises:
        UsageError: A directory has no journal with a complete run.
        FatalError: A journal is damaged, or another version of the program wrote it.
    """
    for _ in range(_ATTEMPTS - 1):
        before = _folders(directories)
        try:
            return read()
        except (FatalError, OSError):
            if _folders(directories) == before:
                raise
    return read()


def _folders(directories: Sequence[Path]) -> list[object]:
    """The folders of runs and segments, to find out whether some were moved."""
    jobs = [find_job(directory) for directory in directories]
    return [(job.numbers(), job.segments.current()) for job in jobs if job is not None]


def _scan_job(journals: Journals) -> Iterator[JournalPart]:
    # folders first: a run that is moved after this line is found in a segment
    numbers = journals.numbers()
    segments = journals.segments.current()
    moved = {number for segment in segments for number in journals.segments.runs(segment)}
    for segment in segments:
        segment.header()  # checks the version
        yield _SegmentPart(journals, segment)
    for number in numbers:
        if number in moved:
            continue
        journal = journals.journal(journals.run_id(number))
        manifest = journal.manifest()
        if manifest is not None:
            yield from _lanes_of(journal, manifest)
        elif found := journals.segments.find(number):  # it was moved in the meantime
            yield _SegmentPart(journals, found, number)


def _lanes_of(journal: Journal, manifest: Manifest) -> Iterator[JournalPart]:
    paths = [*journal.root.glob("*.json"), journal.root / SENT]
    texts = {path.name: path.read_text("utf-8") for path in paths if path.exists()}
    run = describe_run(manifest, journal.place, texts, journal.documents(manifest))
    for lane in range(manifest.lanes):
        yield _LanePart(journal.root, run, lane)


@dataclass(frozen=True)
class _LanePart:
    """One lane of a run with a folder."""

    root: Path
    run: ScannedRun
    lane: int

    @property
    def runs(self) -> Sequence[ScannedRun]:
        return (self.run,)

    def decisions(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        return self._read(LaneNames(self.lane).decisions, columns, condition)

    def documents(self, columns: Sequence[str]) -> pa.Table:
        return self._read(LaneNames(self.lane).index, columns, None)

    def document_batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        path = self.root / LaneNames(self.lane).index
        with _report_damage(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, columns=list(columns), use_threads=False):
                yield self._with_numbers(pa.Table.from_batches([batch]))

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        places = self.documents(("offset", "length")).take(pa.array(rows, pa.int64()))
        return _read_texts(self.run.documents / LaneNames(self.lane).part, places.to_pylist())

    def rows(self, table: SegmentTable) -> Iterator[pa.Table]:
        if table == LOOKUPS and not self.run.manifest.has_lookups(self.lane):
            return
        path = self.root / file_of(table, LaneNames(self.lane))
        with _report_damage(path), pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows = self._with_numbers(file.read_row_group(group, use_threads=False))
                yield from _with_texts(self.runs, rows) if table == DOCUMENTS else (rows,)

    def _read(self, name: str, columns: Sequence[str], condition: pc.Expression | None) -> pa.Table:
        path = self.root / name
        with _report_damage(path):
            table = pq.read_table(path, columns=list(columns), filters=condition)
        return self._with_numbers(table)

    def _with_numbers(self, table: pa.Table) -> pa.Table:
        for column, number in zip(_OF_RUN, (0, self.lane), strict=True):
            table = table.append_column(column, pa.array(np.full(table.num_rows, number, np.int64)))
        return table


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the journal cannot be read ({error}): publish again"
        ) from error


@dataclass(frozen=True)
class _SegmentPart:
    """All runs of a segment, or one."""

    journals: Journals
    segment: Segment
    number: int | None = None
    """The number of the only run; ``None`` for all runs."""

    @cached_property
    def runs(self) -> Sequence[ScannedRun]:
        return [self._run(row) for row in self._read_columns(RUNS).to_pylist()]

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The numbers of the runs, ascending."""
        numbers: np.ndarray = self._read_columns(RUNS, ["run"])["run"].to_numpy()
        return numbers

    def _run(self, row: Mapping[str, Any]) -> ScannedRun:
        manifest = restore(Manifest, json.loads(row["manifest"]))
        place = self.journals.root / manifest.run
        return describe_run(manifest, place, dict(row["files"]), Journal(place).documents(manifest))

    def decisions(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        return self._read(DECISIONS, columns, condition)

    def documents(self, columns: Sequence[str]) -> pa.Table:
        return self._read(DOCUMENTS, columns, None)

    def document_batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        rows = self.documents(columns)
        for start in range(0, len(rows), _ROWS):
            yield rows.slice(start, _ROWS)

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        found = self.documents(("offset", "length", "text")).take(pa.array(rows, pa.int64()))
        return [
            entry["text"] if entry["text"] is not None else self._text_of_sink(entry)
            for entry in found.to_pylist()
        ]

    def _text_of_sink(self, entry: Mapping[str, Any]) -> str | None:
        """Reads a document that the run published to a directory."""
        part = self.runs[entry["run"]].documents / LaneNames(entry["lane"]).part
        return _read_texts(part, [entry])[0]

    def rows(self, table: SegmentTable) -> Iterator[pa.Table]:
        for rows in read_rows(self.segment.folder, table):
            if self.number is not None:
                rows = rows.filter(pc.equal(rows["run"], self.number))  # noqa: PLW2901
            placed = self._with_places(rows)
            yield from _with_texts(self.runs, placed) if table == DOCUMENTS else (placed,)

    def _read(
        self, table: SegmentTable, columns: Sequence[str], condition: pc.Expression | None
    ) -> pa.Table:
        return self._with_places(self._read_columns(table, [*columns, *_OF_RUN], condition))

    def _read_columns(
        self,
        table: SegmentTable,
        columns: Sequence[str] | None = None,
        condition: pc.Expression | None = None,
    ) -> pa.Table:
        if self.number is not None:
            is_run = pc.field("run") == self.number
            condition = is_run if condition is None else is_run & condition
        return read_columns(self.segment.folder, table, columns, condition)

    def _with_places(self, rows: pa.Table) -> pa.Table:
        """Replaces the numbers of runs by their places in ``runs``."""
        places = np.searchsorted(self._numbers, rows["run"].to_numpy())
        return rows.set_column(rows.column_names.index("run"), "run", pa.array(places))


def _with_texts(runs: Sequence[ScannedRun], rows: pa.Table) -> Iterator[pa.Table]:
    """Adds the texts of documents that the table lacks; cuts rows with large texts into portions."""
    portions = rows["length"].to_numpy().cumsum() // _TEXT_BYTES
    starts = [0, *(np.flatnonzero(np.diff(portions)) + 1).tolist(), rows.num_rows]
    for start, end in pairwise(starts):
        portion = rows.slice(start, end - start)
        entries = portion.select(
            [name for name in (*_OF_RUN, "offset", "length", "text") if name in rows.column_names]
        ).to_pylist()
        missing = [entry for entry in entries if entry.get("text") is None]
        for (run, lane), places in groupby(missing, itemgetter(*_OF_RUN)):
            listed = list(places)
            texts = _read_texts(runs[run].documents / LaneNames(lane).part, listed)
            for place, text in zip(listed, texts, strict=True):
                place["text"] = text
        column = pa.array([entry["text"] for entry in entries], pa.string())
        others = portion.select([name for name in rows.column_names if name != "text"])
        yield others.append_column("text", column)


def _read_texts(path: Path, places: Sequence[Mapping[str, int]]) -> list[str | None]:
    """Reads documents of a part file by ``offset`` and ``length``; ``None`` if there is no such file."""
    texts: list[str | None] = []
    try:
        with path.open("rb") as file:
            for place in places:
                file.seek(place["offset"])
                texts.append(file.read(place["length"]).decode())
    except FileNotFoundError:
        return [None] * len(places)
    except (OSError, UnicodeDecodeError) as error:
        raise FatalError(f"{path} cannot be read ({error}): publish again") from error
    return texts
