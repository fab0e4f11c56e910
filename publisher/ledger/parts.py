"""Parts of ledgers: rows of one or more runs as tables, wherever they are.

The rows of small runs are in the ledger, or in the Parquet files of an hour; those of a large run are Parquet
files of its lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.ledger.hours import RUNS, Hour
from publisher.ledger.lane_result import part_name
from publisher.ledger.lane_rows import LaneRows, read_lines
from publisher.ledger.runs import StoredRun
from publisher.ledger.tables import (
    DOCUMENTS,
    RECORDS,
    Columns,
    RunTable,
    filter_rows,
    number_rows,
    read_batches,
    read_file,
)

_OF_RUN = ("run", "lane")
_OF_TEXTS = ("offset", "length", "text")
_TEXT_BYTES = 32 << 20
"""Bytes of documents that are read together."""


class LedgerPart:
    """Rows of one or more runs.  A row's ``run`` is the number of the run in ``runs``.

    All methods raise ``FatalError`` if a file of the ledger is missing or damaged."""

    runs: Sequence[StoredRun]
    """The runs of the part, oldest first."""
    lane: int | None = None
    """The only lane of the part; ``None`` if it has all lanes of its runs."""

    def records(self, columns: Columns, condition: pc.Expression | None = None) -> pa.Table:
        """Reads columns of records, and always ``run`` and ``lane``."""
        return self._read(RECORDS, columns, condition)

    def documents(self, columns: Columns, condition: pc.Expression | None = None) -> pa.Table:
        """Reads columns of the documents' index in its order, and always ``run`` and ``lane``."""
        return self._read(DOCUMENTS, columns, condition)

    def texts(self, rows: Sequence[int]) -> list[str | None]:
        """Reads documents by their row numbers in ``documents``; ``None`` if they were moved or deleted."""
        found = self.documents(_OF_TEXTS).take(pa.array(rows, pa.int64()))
        return [text for each in self._with_texts(found) for text in each["text"].to_pylist()]

    def rows(self, table: RunTable, condition: pc.Expression | None = None) -> Iterator[pa.Table]:
        """Yields the rows of ``batches`` that fit a condition.

        Documents have their ``text``; null if it was moved or deleted."""
        groups = self.batches(table) if condition is None else [self._read(table, None, condition)]
        for rows in groups:
            yield from self._with_texts(rows) if table == DOCUMENTS else (rows,)

    def _read(self, table: RunTable, columns: Columns, condition: pc.Expression | None) -> pa.Table:
        raise NotImplementedError

    def batches(self, table: RunTable, columns: Columns = None) -> Iterator[pa.Table]:
        """Yields columns of a table in its order, with ``run`` and ``lane``, some thousand rows at a time."""
        yield self._read(table, columns, None)

    def _with_texts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Adds the texts of documents that the table lacks; cuts rows with large texts into portions."""
        if not rows.num_rows:
            return
        portions = rows["length"].to_numpy().cumsum() // _TEXT_BYTES
        starts = [0, *(np.flatnonzero(np.diff(portions)) + 1).tolist(), rows.num_rows]
        for start, end in pairwise(starts):
            portion = rows.slice(start, end - start)
            entries = portion.select([*_OF_RUN, *_OF_TEXTS]).to_pylist()
            missing = [entry for entry in entries if entry["text"] is None]
            for (run, lane), places in groupby(missing, itemgetter(*_OF_RUN)):
                listed = list(places)
                texts = _read_texts(self._documents_of(run) / part_name(lane), listed)
                for place, text in zip(listed, texts, strict=True):
                    place["text"] = text
            column = pa.array([entry["text"] for entry in entries], pa.string())
            others = portion.select([name for name in rows.column_names if name != "text"])
            yield others.append_column("text", column)

    def _documents_of(self, run: int) -> Path:
        return self.runs[run].documents


class SmallRuns(LedgerPart):
    """Runs whose rows are in memory."""

    def __init__(self, runs: Sequence[StoredRun]) -> None:
        """``runs`` have tables."""
        self.runs = runs

    def _read(self, table: RunTable, columns: Columns, condition: pc.Expression | None) -> pa.Table:
        parts = [table.numbered.empty_table()]
        for place, run in enumerate(self.runs):
            assert run.tables is not None
            parts.append(number_rows(run.tables[table.name], place).cast(table.numbered))
        rows = pa.concat_tables(parts)
        rows = rows if condition is None else filter_rows(rows, condition)
        return rows if columns is None else rows.select([*columns, *_OF_RUN])


class HourPart(LedgerPart):
    """All runs of an hour."""

    def __init__(self, hour: Hour) -> None:
        self._hour = hour

    @cached_property
    def runs(self) -> Sequence[StoredRun]:  # type: ignore[override]
        """See ``LedgerPart``."""
        return self._hour.runs()

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The numbers of the runs, ascending; to read the runs would take many times as long."""
        numbers: np.ndarray = read_file(self._hour.file(RUNS), ["run"])["run"].to_numpy()
        return numbers

    def _read(self, table: RunTable, columns: Columns, condition: pc.Expression | None) -> pa.Table:
        wanted = None if columns is None else [*columns, *_OF_RUN]
        return self._with_places(read_file(self._hour.file(table.name), wanted, condition))

    def batches(self, table: RunTable, columns: Columns = None) -> Iterator[pa.Table]:
        """See ``LedgerPart``."""
        wanted = None if columns is None else [*columns, *_OF_RUN]
        for batch in read_batches(self._hour.file(table.name), wanted):
            yield self._with_places(pa.Table.from_batches([batch]))

    def _with_places(self, rows: pa.Table) -> pa.Table:
        """Replaces the numbers of runs by their places in ``runs``."""
        places = np.searchsorted(self._numbers, rows["run"].to_numpy()) if rows.num_rows else []
        return rows.set_column(rows.column_names.index("run"), "run", pa.array(places, pa.int64()))


class LanePart(LedgerPart):
    """One lane of a large run, or of a run that is not committed yet."""

    def __init__(self, run: StoredRun, rows: LaneRows) -> None:
        self.runs = (run,)
        self.lane = rows.lane
        self._rows = rows

    def _documents_of(self, run: int) -> Path:  # noqa: ARG002 - there is one
        return self._rows.documents

    def _read(self, table: RunTable, columns: Columns, condition: pc.Expression | None) -> pa.Table:
        return self._with_numbers(self._rows.read(table, columns, condition))

    def batches(self, table: RunTable, columns: Columns = None) -> Iterator[pa.Table]:
        """See ``LedgerPart``."""
        for batch in self._rows.batches(table, columns):
            yield self._with_numbers(pa.Table.from_batches([batch]))

    def _with_numbers(self, rows: pa.Table) -> pa.Table:
        for column, number in zip(_OF_RUN, (0, self.lane), strict=True):
            rows = rows.append_column(column, pa.array(np.full(rows.num_rows, number, np.int64)))
        return rows


def parts_of(runs: Sequence[StoredRun]) -> Iterator[LedgerPart]:
    """Yields the small runs between large ones together, and each lane of a large one."""
    for is_small, each in groupby(runs, key=lambda run: run.tables is not None):
        if is_small:
            yield SmallRuns(list(each))
            continue
        for run in each:
            yield from lane_parts(run)


def lane_parts(run: StoredRun) -> list[LanePart]:
    """The lanes of a run, planned or committed."""
    return [LanePart(run, rows) for rows in run.handle.lanes(run.manifest)]


def document_rows(records: pa.Table, documents: pa.Table) -> np.ndarray:
    """The row of each record's document in ``documents``; -1 for records without one, and for those of
    lanes that the part does not have.

    ``documents`` is the whole index of the part: ``document`` counts within a run and lane."""
    lanes, firsts = np.unique(_lane_numbers(documents), return_index=True)
    numbers: np.ndarray = records["document"].to_numpy()
    if not len(lanes):
        return np.full(len(numbers), -1)
    wanted = _lane_numbers(records)
    at = np.minimum(np.searchsorted(lanes, wanted), len(lanes) - 1)
    has_document = (numbers >= 0) & (lanes[at] == wanted)
    rows: np.ndarray = np.where(has_document, numbers + firsts[at], -1)
    return rows


def rows_of_places(places: Iterable[tuple[int, int, int]], documents: pa.Table) -> np.ndarray:
    """The rows of documents, given by run, lane and number, in the whole index of a part."""
    columns = np.array([*places], np.int64).reshape(-1, 3).T
    return document_rows(pa.table([*columns], ["run", "lane", "document"]), documents)


def _lane_numbers(table: pa.Table) -> np.ndarray:
    """One number for each pair of run and lane, ascending in the order of a ledger."""
    runs: np.ndarray = table["run"].to_numpy().astype(np.int64)
    numbers: np.ndarray = (runs << 32) | table["lane"].to_numpy()
    return numbers


def _read_texts(path: Path, places: Sequence[Mapping[str, int]]) -> list[str | None]:
    """Reads documents of a part file by ``offset`` and ``length``; ``None`` if there is no such file."""
    offsets, lengths = (np.array([each[name] for each in places]) for name in ("offset", "length"))
    try:
        return [line.decode() for line in read_lines(path, offsets, lengths)]
    except FileNotFoundError:
        return [None] * len(places)
    except (OSError, UnicodeDecodeError) as error:
        raise FatalError(f"{path} cannot be read ({error}): publish again") from error
