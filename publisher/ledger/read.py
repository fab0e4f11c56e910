"""Reads the runs of a ledger, wherever their rows are: packed in it, in the files of hours, in folders.

Two ways: runs one by one, for questions about few records, and parts with the rows of many runs.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError, UsageError
from publisher.ledger import storage
from publisher.ledger.hours import RUNS_FILE, Hour, hour_of, hours_of
from publisher.ledger.job import RUN, Ledger
from publisher.ledger.key_hashes import find_hashes
from publisher.ledger.lane_result import LaneNames
from publisher.ledger.manifest import Manifest, RunEnd
from publisher.ledger.runs import LedgerRun, RunContent, read_end, read_manifest, unpack_tables
from publisher.ledger.storage import LEDGER
from publisher.ledger.tables import (
    DOCUMENTS,
    LOOKUPS,
    RECORDS,
    RunTable,
    explain_damage,
    number_rows,
)
from publisher.model.plain import restore

OF_REPLAY = "_ledger"
"""Folder of a replay's ledger inside its output directory."""
_OF_RUN = ("run", "lane")
_RUNS_AT_ONCE = 500
"""Small runs whose rows are read together."""
_ROWS = 1 << 16
"""Maximum number of rows of a batch."""
_TEXT_BYTES = 32 << 20
"""Bytes of documents that are read together."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The runs that have certain records, or may have them; without conditions all runs."""

    records: pc.Expression | None = None
    """A condition on records."""
    keys: Collection[str] | None = None
    """Key texts of objects."""
    between: tuple[int, int] | None = None
    """The least and the greatest number of positions."""
    failed: bool = False
    """Only runs with rejected records, or documents that a sink refused."""


ALL_RUNS = Wanted()


def find_job(directory: Path) -> Ledger | None:
    """The ledger of a job, if this is its folder; otherwise ``None``."""
    if not (directory / LEDGER).exists():
        return None
    folder = directory.absolute()
    is_of_job = storage.query(folder, "SELECT 1 FROM job WHERE name = 'identity'")
    return Ledger(folder, folder.resolve().name) if is_of_job else None


def find_run(directory: Path) -> LedgerRun:
    """Finds the run of a directory: of a job's ledger by its name, of a replay, or the run that its documents
    were published from.

    Raises:
        UsageError: The directory has no run.
        FatalError: The ledger is damaged, or of another version of the program.
    """
    for root in (directory, directory / OF_REPLAY):
        if (run := _run_at(root.absolute())) is not None:
            return run
    named = _named_in(directory / RUN)
    if named is None:
        if not directory.exists():
            raise UsageError(
                f"{directory} has no ledger: it does not exist; publish first, or give another directory"
            )
        if directory.suffix == ".toml":
            raise UsageError(
                f"{directory} has no ledger: name a job file with -c {directory}, or give a directory"
            )
        raise UsageError(
            f"{directory} has no ledger: give the directory of a job's ledger, or one that this program wrote"
        )
    if (run := _run_at(named)) is None:
        raise UsageError(
            f"{directory} was published from {named}, which does not exist: give the place to which it was "
            "moved"
        )
    return run


def _run_at(root: Path) -> LedgerRun | None:
    """The run with this folder; ``None`` if there is none."""
    if (root / LEDGER).exists() and find_job(root) is None:
        return LedgerRun(root)
    job = find_job(root.parent)
    number = None if job is None else job.number_of(root.name)
    if job is None or number is None:
        return None
    run = job.run(root.name)
    if run.is_committed:
        return run
    hour = hour_of(job.root, number)
    return next(iter([] if hour is None else hour.load([number])), None)


def _named_in(report: Path) -> Path | None:
    """The place of the run that a ``run.json`` names; ``None`` if it names none."""
    try:
        return Path(json.loads(report.read_text(encoding="utf-8"))["ledger"])
    except (OSError, ValueError, KeyError, TypeError):  # a file of another program
        return None


def read_runs(ledger: Ledger, wanted: Wanted = ALL_RUNS) -> Iterator[LedgerRun]:
    """Reads committed runs of a job with their rows, oldest first; large ones have files.

    Raises:
        FatalError: The ledger is damaged.
    """
    # the ledger first: a run that moves after this line is found in its hour
    found: dict[int, Hour | None] = dict.fromkeys(_find_in_ledger(ledger, wanted))
    for hour in hours_of(ledger.root):
        found |= dict.fromkeys(_find_in(hour, wanted), hour)
    for hour, each in groupby(sorted(found.items(), key=itemgetter(0)), key=itemgetter(1)):
        numbers = [number for number, _ in each]
        for start in range(0, len(numbers), _RUNS_AT_ONCE):
            some = numbers[start : start + _RUNS_AT_ONCE]
            yield from load_runs(ledger, some) if hour is None else hour.load(some)


def _find_in(hour: Hour, wanted: Wanted) -> list[int]:
    if wanted.between is not None:
        bounds = storage.query(
            hour.root, "SELECT least, greatest FROM hour WHERE first = ?", (hour.first,)
        )
        if not bounds or bounds[0][0] is None or not _overlap(wanted.between, bounds[0]):
            return []
    if wanted.failed:
        return hour.find_failed()
    if wanted.records is not None:
        return hour.find_runs(wanted.records)
    numbers: list[int] = hour.read(RUNS_FILE, ["run"])["run"].to_pylist()
    return numbers


def _overlap(wanted: tuple[int, int], bounds: tuple[int, int]) -> bool:
    return wanted[0] <= bounds[1] and bounds[0] <= wanted[1]


def _find_in_ledger(ledger: Ledger, wanted: Wanted) -> list[int]:
    """The numbers of the runs in the ledger, also of large ones that may not have the records."""
    conditions, parameters = list[str](), list[object]()
    if wanted.between is not None:
        conditions.append("least <= ? AND greatest >= ?")
        parameters += [wanted.between[1], wanted.between[0]]
    if wanted.keys is not None:
        hashes = find_hashes(wanted.keys)
        marks = ", ".join("?" * len(hashes))
        conditions.append(f"number IN (SELECT run FROM key_run WHERE hash IN ({marks}))")  # noqa: S608
        parameters += hashes
    if wanted.failed:
        conditions.append("(rejected > 0 OR refusals > 0)")
    fits = " AND ".join(conditions) or "1"
    rows = storage.query(
        ledger.root,
        "SELECT number FROM run WHERE "  # noqa: S608 - names and marks
        f"(records IS NULL OR ({fits} AND {NOT_IN_HOUR})) ORDER BY number",
        parameters,
    )
    return [number for (number,) in rows if number not in ledger.hidden]


NOT_IN_HOUR = "NOT EXISTS (SELECT 1 FROM hour WHERE run.number BETWEEN hour.first AND hour.last)"


def load_runs(ledger: Ledger, numbers: Sequence[int]) -> Iterator[LedgerRun]:
    """Reads runs of the ledger with their rows; those that are deleted meanwhile are left out."""
    for number in numbers:
        rows = storage.query(
            ledger.root,
            "SELECT name, ended, outcome, manifest, records, documents, lookups FROM run WHERE number = ?",
            (number,),
        )
        if not rows and (hour := hour_of(ledger.root, number)) is not None:
            yield from hour.load([number])  # it moved meanwhile
        for name, ended, outcome, stored, *packed in rows:
            run = LedgerRun(ledger.root / name, ledger.root)
            manifest = read_manifest(stored, name)
            tables = None if packed[0] is None else unpack_tables(packed, name, manifest.lanes)
            content = RunContent(manifest, run.texts(), read_end(outcome), ended or 0.0, tables)
            yield replace(run, content=content)


@dataclass(frozen=True, slots=True)
class ScannedRun:
    """A committed run: its plan and its end."""

    manifest: Manifest
    place: Path
    """The folder of the run, as users name it."""
    documents: Path
    """Folder of the part files."""
    texts: Mapping[str, str]
    """Small texts of the run by their names."""
    end: RunEnd
    """The end of the run, with seconds and engine as far as they are known."""

    @classmethod
    def of(cls, run: LedgerRun) -> ScannedRun:
        """Describes a run with its content."""
        content = run.content
        assert content is not None
        documents = run.documents(content.manifest)
        end = content.end or RunEnd()
        if not end.seconds:
            end = _with_seconds(end, documents / RUN, run.root / RUN)
        return cls(content.manifest, run.root, documents, content.texts, end)


def _with_seconds(end: RunEnd, *reports: Path) -> RunEnd:
    """Takes seconds and engine from the report of the run: a replay has no other record of them."""
    for report in reports:
        try:
            content = json.loads(report.read_text("utf-8"))
        except OSError:  # the documents were moved
            continue
        engine = content.get("engine") or {}
        return replace(end, seconds=content.get("seconds", {}), engine=engine.get("name"))
    return end


class LedgerPart(Protocol):
    """Rows of one or more runs.  A row's ``run`` is the number of the run in ``runs``."""

    @property
    def runs(self) -> Sequence[ScannedRun]:
        """The runs of the part, oldest first."""

    def decisions(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        """Reads columns of records, and always ``run`` and ``lane``.

        Raises:
            FatalError: A file of the ledger is missing or damaged.
        """

    def documents(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        """Reads columns of the documents' index in its order, and always ``run`` and ``lane``.

        Raises:
            FatalError: A file of the ledger is missing or damaged.
        """

    def document_batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields the rows of ``documents``, some thousands at a time."""

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        """Reads documents by their row numbers in ``documents``; ``None`` if they were moved or deleted.

        Raises:
            FatalError: The documents are damaged.
        """

    def rows(self, table: RunTable) -> Iterator[pa.Table]:
        """Yields all rows of a table in its order, with ``run`` and ``lane``, some thousands at a time.

        Documents have their ``text``; null if it was moved or deleted.

        Raises:
            FatalError: A file of the ledger is missing or damaged.
        """


def document_rows(decisions: pa.Table, documents: pa.Table) -> np.ndarray:
    """The row of each record's document in ``documents``; -1 for records without one, and for those of
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
    """One number for each pair of run and lane, ascending in the order of a ledger."""
    runs: np.ndarray = table["run"].to_numpy().astype(np.int64)
    numbers: np.ndarray = (runs << 32) | table["lane"].to_numpy()
    return numbers


def scan_runs(directory: Path) -> Iterator[LedgerPart]:
    """Yields all parts of a run, of a directory of ``replay``, or of all runs of a job, oldest first.

    Raises:
        UsageError: There is no complete run.
        FatalError: The ledger is damaged, or another version of the program wrote it.
    """
    if find_job(directory) is None:
        run = find_run(directory)
        manifest = run.manifest()
        if manifest is None:
            raise UsageError(f"{run.root} has no complete run: start it again, then report")
        yield from _parts_of([_with_content(run, manifest)])
        return
    part = None
    for part in scan_kept_runs(directory):
        yield part
    if part is None:
        raise UsageError(
            f"{directory} has no complete run: publish first, or give another directory"
        )


def scan_kept_runs(directory: Path) -> Iterator[LedgerPart]:
    """Yields the parts of all runs of a job, oldest first; nothing if there is no job, or no complete run.

    Raises ``FatalError`` as ``scan_runs``.
    """
    ledger = find_job(directory)
    if ledger is None:
        return
    numbers = _find_in_ledger(ledger, ALL_RUNS)
    large = storage.query(ledger.root, "SELECT number FROM run WHERE records IS NULL")
    hours = hours_of(ledger.root)  # last: a run that moved since then is found here
    moved = {n for n in numbers for hour in hours if hour.first <= n <= hour.last}
    places: list[tuple[int, Hour | None]] = [(hour.first, hour) for hour in hours]
    places += [(n, None) for n in numbers if n not in moved - {number for (number,) in large}]
    places.sort(key=itemgetter(0))
    for is_hour, each in groupby(places, key=lambda place: place[1] is not None):
        if is_hour:
            yield from (_HourPart(hour) for _, hour in each if hour is not None)
            continue
        numbers = [number for number, _ in each]
        for start in range(0, len(numbers), _RUNS_AT_ONCE):
            some = numbers[start : start + _RUNS_AT_ONCE]
            yield from _parts_of(list(load_runs(ledger, some)))


def _with_content(run: LedgerRun, manifest: Manifest) -> LedgerRun:
    if run.content is not None:
        return run
    content = RunContent(manifest, run.texts(), run.acknowledgement, run.sent_at, run.tables())
    return replace(run, content=content)


def _parts_of(runs: Sequence[LedgerRun]) -> Iterator[LedgerPart]:
    """Yields the small runs between large ones together, and each lane of a large one."""
    for is_small, each in groupby(runs, key=lambda run: run.content.tables is not None):  # type: ignore[union-attr]
        if is_small:
            yield _SmallRuns(list(each))
            continue
        for run in each:
            assert run.content is not None
            described = ScannedRun.of(run)
            for lane in range(run.content.manifest.lanes):
                yield _LanePart(run.place, described, lane)


class _InMemory:
    """The methods of a part that follow from ``_read``, which reads a table with places of runs."""

    runs: Sequence[ScannedRun]

    def decisions(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        return self._read(RECORDS, columns, condition)

    def documents(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        return self._read(DOCUMENTS, columns, condition)

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

    def _read(
        self, table: RunTable, columns: Sequence[str], condition: pc.Expression | None
    ) -> pa.Table:
        raise NotImplementedError


class _SmallRuns(_InMemory):
    """Small runs of the ledger."""

    def __init__(self, runs: Sequence[LedgerRun]) -> None:
        self.runs = [ScannedRun.of(run) for run in runs]
        self._tables = [(run.content and run.content.tables) or {} for run in runs]

    def rows(self, table: RunTable) -> Iterator[pa.Table]:
        rows = self._all(table)
        yield from _with_texts(self.runs, rows) if table == DOCUMENTS else (rows,)

    def _read(
        self, table: RunTable, columns: Sequence[str], condition: pc.Expression | None
    ) -> pa.Table:
        rows = self._all(table)
        if condition is not None:
            rows = rows.filter(condition)
        return rows.select([*columns, *_OF_RUN])

    def _all(self, table: RunTable) -> pa.Table:
        parts = [table.numbered.empty_table()]
        for place, tables in enumerate(self._tables):
            for lane in range(self.runs[place].manifest.lanes):
                rows = tables[table.file_of(lane)]
                if rows.num_rows:
                    lanes = pa.array(np.full(rows.num_rows, lane, np.int32))
                    parts.append(number_rows(rows.add_column(0, "lane", lanes), place))
        return pa.concat_tables([part.cast(table.numbered) for part in parts])


@dataclass(frozen=True)
class _HourPart(_InMemory):
    """All runs of an hour."""

    hour: Hour

    @cached_property
    def runs(self) -> Sequence[ScannedRun]:  # type: ignore[override]
        return [self._run(row) for row in self.hour.read(RUNS_FILE).to_pylist()]

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The numbers of the runs, ascending."""
        numbers: np.ndarray = self.hour.read(RUNS_FILE, ["run"])["run"].to_numpy()
        return numbers

    def _run(self, row: Mapping[str, Any]) -> ScannedRun:
        manifest = restore(Manifest, json.loads(row["manifest"]))
        end = read_end(row["outcome"])
        content = RunContent(manifest, dict(row["texts"]), end, row["ended"], None)
        run = LedgerRun(self.hour.root / row["name"], self.hour.root, content=content)
        return ScannedRun.of(run)

    def rows(self, table: RunTable) -> Iterator[pa.Table]:
        for group in self.hour.groups(f"{table.name}.parquet"):
            rows = self._with_places(group)
            yield from _with_texts(self.runs, rows) if table == DOCUMENTS else (rows,)

    def _read(
        self, table: RunTable, columns: Sequence[str], condition: pc.Expression | None
    ) -> pa.Table:
        rows = self.hour.read(f"{table.name}.parquet", [*columns, *_OF_RUN], condition)
        return self._with_places(rows)

    def _with_places(self, rows: pa.Table) -> pa.Table:
        """Replaces the numbers of runs by their places in ``runs``."""
        places = np.searchsorted(self._numbers, rows["run"].to_numpy())
        return rows.set_column(rows.column_names.index("run"), "run", pa.array(places))


@dataclass(frozen=True)
class _LanePart:
    """One lane of a large run."""

    root: Path
    run: ScannedRun
    lane: int

    @property
    def runs(self) -> Sequence[ScannedRun]:
        return (self.run,)

    def decisions(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        return self._read(RECORDS, columns, condition)

    def documents(self, columns: Sequence[str], condition: pc.Expression | None = None) -> pa.Table:
        return self._read(DOCUMENTS, columns, condition)

    def document_batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        path = self.root / DOCUMENTS.file_of(self.lane)
        with explain_damage(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, columns=list(columns), use_threads=False):
                yield self._with_numbers(pa.Table.from_batches([batch]))

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        places = self.documents(("offset", "length")).take(pa.array(rows, pa.int64()))
        return _read_texts(self.run.documents / LaneNames(self.lane).part, places.to_pylist())

    def rows(self, table: RunTable) -> Iterator[pa.Table]:
        if table == LOOKUPS and not self.run.manifest.has_lookups(self.lane):
            return
        path = self.root / table.file_of(self.lane)
        with explain_damage(path), pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows = self._with_numbers(file.read_row_group(group, use_threads=False))
                yield from _with_texts(self.runs, rows) if table == DOCUMENTS else (rows,)

    def _read(
        self, table: RunTable, columns: Sequence[str], condition: pc.Expression | None
    ) -> pa.Table:
        path = self.root / table.file_of(self.lane)
        with explain_damage(path):
            rows = pq.read_table(path, columns=list(columns), filters=condition)
        return self._with_numbers(rows)

    def _with_numbers(self, table: pa.Table) -> pa.Table:
        for column, number in zip(_OF_RUN, (0, self.lane), strict=True):
            table = table.append_column(column, pa.array(np.full(table.num_rows, number, np.int64)))
        return table


def _with_texts(runs: Sequence[ScannedRun], rows: pa.Table) -> Iterator[pa.Table]:
    """Adds the texts of documents that the table lacks; cuts rows with large texts into portions."""
    if not rows.num_rows:
        return
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
