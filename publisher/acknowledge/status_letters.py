"""The status of each record of a live event log, computed from a committed ledger.

S published, W nothing to publish, E rejected, F permanently refused by the sink (event log page,
status); a superseded record has the status of its superseding record.  Held records stay N; records that were
ignored because of their status keep that status.

Works by the column: memory holds one byte for each record of the ledger and the ids of one window.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.dispatch.refusals import Refusal
from publisher.errors import FatalError
from publisher.ledger.lane_result import LaneNames
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.model.change import STATUS_OF, Outcome, Reason, Status

Ids = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

WINDOW = 1 << 20
"""Number of records whose ids are sorted together."""

NONE = 0
BIT_OF = {status: 1 << place for place, status in enumerate(Status)}
STATUS_OF_BIT = {bit: status for status, bit in BIT_OF.items()}
"""Statuses as bits, since records of one id may ask for different ones."""
_N, _S, _W, _E, _F = BIT_OF.values()

_BIT_OF_OUTCOME = np.zeros(8, np.uint8)
_BIT_OF_OUTCOME[list(STATUS_OF)] = [BIT_OF[status] for status in STATUS_OF.values()]
_UNCHANGED = pa.array([Reason.STATUS, Reason.OUT_OF_RANGE, Reason.REPORTED], pa.string())
_COLUMNS = ["source", "part", "high", "outcome", "reason", "by", "document"]
_REPEATING = ["part", "reason"]
_PROGRESS = ["source", "part", "high", "outcome"]
_SMALL = 10_000
"""Maximum records of a lane whose columns are read at once and kept."""


def _letter_of(bits: int) -> int:
    """The letter of a row with these records, as ASCII code; 0 for a row that stays as it is.

    Ids are unique by the log's definition.  If they are not, rows of one id cannot be told apart and
    get one letter: the gravest of F and E, else S before W.  A held row makes all rows of its id wait.
    If one of them was published, it would be published again at each poll, so that is an error.
    """
    if bits & _F:
        return ord(Status.FATAL)
    if bits & _E or bits & (_S | _N) == _S | _N:
        return ord(Status.ERROR)
    if bits & _N:
        return 0
    return ord(Status.SUCCESS) if bits & _S else ord(Status.WARNING) if bits & _W else 0


_LETTERS = np.array([_letter_of(bits) for bits in range(32)], np.uint8)


@dataclass(frozen=True, slots=True)
class StatusWindow:
    """Record ids, sorted and unique, and the letter of each as ASCII code."""

    ids: Ids
    letters: Codes
    contradictory: Ids
    """Ids that got E because one of their records was published and another is held."""
    fingerprints: Ids
    """Fingerprints of all rows of these ids, sorted."""


RefusedDocuments = Mapping[tuple[int, int], tuple[str, str]]
"""Reason and detail of permanently refused documents, by lane and number in the lane."""


def refused_documents(refusals: Iterable[Refusal]) -> RefusedDocuments:
    """The refusals of dispatch records, by document."""
    return {(entry.lane, entry.document): (entry.reason, entry.detail) for entry in refusals}


class ReadProgress(NamedTuple):
    """Progress of a run in a live source."""

    greatest: int = 0
    """Greatest record id; 0 for none."""
    late: int = 0
    """Number of published records with ids below the greatest that an earlier run had read."""

    def add(self, other: ReadProgress) -> ReadProgress:
        """Joins the progress in parts of a source."""
        return ReadProgress(max(self.greatest, other.greatest), self.late + other.late)


class RowGroup(NamedTuple):
    """A row group of a records file: number, rows in the lane, least and greatest id."""

    number: int
    rows: slice
    least: int
    greatest: int
    source: int | None
    """The source of its records, if the statistics show that there is only one and all have a record id."""


class LaneLetters:
    """The letters of one lane's records of one source.

    Raises:
        FatalError: A file of the ledger is missing or damaged.
    """

    def __init__(
        self, root: Path, lane: int, source: int, refused: Collection[int] = (), behind: int = 0
    ) -> None:
        """``refused`` are numbers of documents of the lane; ``behind`` is the greatest record id that
        an earlier run had read."""
        self._source = source
        self._refused = np.array(sorted(refused), np.int64)
        self.lane = lane
        self.file = _open_records(root, lane)
        self._kept: pa.Table | None = None
        self.groups: list[RowGroup] = list(_groups(self.file.metadata))
        self.bits: Codes = np.zeros(self.file.metadata.num_rows, np.uint8)
        """Status bit of each record of the lane; ``NONE`` for records of other sources."""
        self.superseded: Ids = np.empty(0, np.int64)
        """Rows of the superseded records."""
        self.by: Ids = np.empty(0, np.int64)
        """Rows of the records that superseded them; -1 for a record that is not in the lane."""
        self.progress = ReadProgress()
        self._fill(behind)

    def read(self, group: RowGroup, columns: list[str]) -> pa.Table:
        """Reads columns of a row group; the columns of a small lane only once."""
        if self.file.metadata.num_rows <= _SMALL and {*columns} <= {*_COLUMNS, "fingerprint"}:
            if self._kept is None:
                self._kept = self.file.read([*_COLUMNS, "fingerprint"], use_threads=False)
            return self._kept.slice(group.rows.start, group.rows.stop - group.rows.start)
        return self.file.read_row_group(group.number, columns=columns, use_threads=False)

    def _fill(self, behind: int) -> None:
        superseded, by = [], []
        for group in self.groups:
            table = self.read(group, _COLUMNS)
            outcomes = array_of(table["outcome"])
            bits = _BIT_OF_OUTCOME[outcomes]
            is_unchanged = pc.is_in(table["reason"], value_set=_UNCHANGED)
            of_source = array_of(table["source"]) == self._source
            bits[~of_source | (flags(is_unchanged) & (outcomes == Outcome.IGNORED))] = NONE
            if len(self._refused):
                bits[np.isin(array_of(table["document"]), self._refused) & (bits == _S)] = _F
            self.bits[group.rows] = bits
            rows = np.flatnonzero(of_source & (outcomes == Outcome.SUPERSEDED))
            superseded.append(rows + group.rows.start)
            by.append(array_of(table["by"])[rows])
            self.progress = self.progress.add(_progress_in(table, self._source, behind))
        if superseded:
            self.superseded, self.by = np.concatenate(superseded), np.concatenate(by)
        self._resolve_superseded_records()

    def _resolve_superseded_records(self) -> None:
        """Gives superseded records the bits of their superseders; S if there is none."""
        self.bits[self.superseded] = np.where(self.by < 0, _S, NONE)
        unresolved = np.flatnonzero(self.by >= 0)
        while len(unresolved):
            bits = self.bits[self.by[unresolved]]
            self.bits[self.superseded[unresolved]] = bits
            remaining = unresolved[bits == NONE]
            if len(remaining) == len(unresolved):
                return  # the superseders have no status
            unresolved = remaining


def lanes_of(
    ledger_run: LedgerRun,
    manifest: Manifest,
    source: int,
    refused: RefusedDocuments,
    behind: int = 0,
) -> list[LaneLetters]:
    """The letters of all lanes of one source of a ledger; see ``LaneLetters`` for ``behind``."""
    by_lane: dict[int, list[int]] = {}
    for lane, document in refused:
        by_lane.setdefault(lane, []).append(document)
    return [
        LaneLetters(ledger_run.place, lane, source, by_lane.get(lane, ()), behind)
        for lane in range(manifest.lanes)
    ]


def join_progress(parts: Iterable[ReadProgress]) -> ReadProgress:
    """Joins the progress of a run in the lanes of a source."""
    return reduce(ReadProgress.add, parts, ReadProgress())


def read_progress(root: Path, lane: int, source: int, behind: int) -> ReadProgress:
    """Reads the progress of a run in a source from one lane; see ``LaneLetters``.

    Reads no records if the statistics of the file show that none of them is late.

    Raises:
        FatalError: A file of the ledger is missing or damaged.
    """
    with _open_records(root, lane) as file:
        return join_progress(
            ReadProgress(group.greatest)
            if group.source == source and group.least >= behind
            else _progress_in(
                file.read_row_group(group.number, columns=_PROGRESS, use_threads=False),
                source,
                behind,
            )
            for group in _groups(file.metadata)
        )


def _open_records(root: Path, lane: int) -> pq.ParquetFile:
    path = root / LaneNames(lane).records
    try:
        return pq.ParquetFile(path, read_dictionary=_REPEATING)
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the ledger cannot be read ({error}): restore it; its run cannot be acknowledged "
            "without it"
        ) from error


def _progress_in(table: pa.Table, source: int, behind: int) -> ReadProgress:
    ids = array_of(table["high"])
    of_source = (array_of(table["source"]) == source) & has_record_id(table)
    published = array_of(table["outcome"]) == Outcome.PUBLISHED
    late = int(np.count_nonzero(of_source & published & (ids < behind)))
    return ReadProgress(int(ids[of_source].max(initial=0)), late)


def status_windows(lanes: list[LaneLetters], window: int = WINDOW) -> Iterator[StatusWindow]:
    """Yields the letters by record id, in windows of about ``window`` records, sorted over all windows.

    Omits records whose id is not a positive number; ``rejected_ids`` yields them.
    """
    ends = _ends(lanes, window)
    for low, high in zip([None, *ends], [*ends, None], strict=True):
        requests = [request for lane in lanes for request in _requests(lane, low, high)]
        if not requests:
            continue
        ids = np.concatenate([request.ids for request in requests])
        bits = np.concatenate([request.bits for request in requests])
        fingerprints = np.sort(np.concatenate([request.fingerprints for request in requests]))
        merged = _merge(ids, bits, fingerprints)
        if len(merged.ids):
            yield merged


def _merge(ids: Ids, bits: Codes, fingerprints: Ids) -> StatusWindow:
    """Gives each id one letter and removes ids whose rows stay as they are."""
    if not len(ids):
        return StatusWindow(ids, bits, ids, fingerprints)
    order = np.argsort(ids, kind="stable")
    ids, bits = ids[order], bits[order]
    firsts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    if len(firsts) < len(ids):
        ids, bits = ids[firsts], np.bitwise_or.reduceat(bits, firsts)
    letters = _LETTERS[bits]
    changes = letters != 0
    contradictory = ids[(bits & (_S | _E | _F | _N)) == _S | _N]
    if not changes.all():
        ids, letters = ids[changes], letters[changes]
    return StatusWindow(ids, letters, contradictory, fingerprints)


class _Requests(NamedTuple):
    """Ids, status bits and fingerprints of records that have a status."""

    ids: Ids
    bits: Codes
    fingerprints: Ids


def _requests(lane: LaneLetters, low: int | None, high: int | None) -> Iterator[_Requests]:
    """Reads the records with ids in [low, high) that have a status."""
    for group in lane.groups:
        if (high is not None and group.least >= high) or (low is not None and group.greatest < low):
            continue
        table = lane.read(group, ["part", "high", "fingerprint"])
        ids, fingerprints = array_of(table["high"]), fingerprints_in(table)
        bits = lane.bits[group.rows]
        selected = (bits != NONE) & has_record_id(table)
        if low is not None:
            selected &= ids >= low
        if high is not None:
            selected &= ids < high
        yield _Requests(ids[selected], bits[selected], fingerprints[selected])


_SAMPLES = 16
_ANY = (-(1 << 63), (1 << 63) - 1)


def _ends(lanes: list[LaneLetters], window: int) -> list[int]:
    """Record ids between the windows, estimated from the least and greatest ids of row groups."""
    samples: list[Ids] = []
    weights: list[npt.NDArray[np.float64]] = []
    for lane in lanes:
        for group in lane.groups:
            rows, least, greatest = group.rows.stop - group.rows.start, group.least, group.greatest
            # with integers: floating-point numbers cannot represent the largest ids
            step = (greatest - least) // (_SAMPLES - 1)
            samples.append(np.array([*range(least, greatest, step or 1)][:_SAMPLES] or [greatest]))
            weights.append(np.full(len(samples[-1]), rows / len(samples[-1])))
    if not samples:
        return []
    places = np.concatenate(samples)
    order = np.argsort(places)
    counted = np.cumsum(np.concatenate(weights)[order])
    cuts = np.arange(window, counted[-1], window)
    return np.unique(places[order][np.searchsorted(counted, cuts)]).tolist()  # type: ignore[no-any-return]


def _groups(metadata: Any) -> Iterator[RowGroup]:
    """The row groups of a records file."""
    paths = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)]
    high, source, part = map(paths.index, ("high", "source", "part"))
    first = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows = slice(first, first + group.num_rows)
        least, greatest = _limits(group.column(high).statistics) or _ANY
        sources, parts = (_limits(group.column(leaf).statistics) for leaf in (source, part))
        is_single = sources is not None and sources[0] == sources[1] and parts == ("", "")
        yield RowGroup(number, rows, least, greatest, sources[0] if sources and is_single else None)
        first = rows.stop


def _limits(statistics: Any) -> tuple[Any, Any] | None:
    """The least and greatest value of a column in a row group; ``None`` if they are not stored."""
    is_stored = statistics is not None and statistics.has_min_max
    return (statistics.min, statistics.max) if is_stored else None


def has_record_id(table: pa.Table) -> Flags:
    """Flags the records with a record id; the others have a place in the input instead."""
    return flags(pc.equal(pc.fill_null(table["part"].cast(pa.string()), ""), ""))


def fingerprints_in(table: pa.Table) -> Ids:
    """The fingerprints of records; 0 for those without."""
    fingerprints: Ids = array_of(pc.fill_null(table["fingerprint"], 0))
    return fingerprints


def array_of(column: pa.ChunkedArray) -> Any:
    """Converts a column without nulls to a NumPy array."""
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def flags(column: pa.ChunkedArray) -> Flags:
    """Converts a boolean column to a NumPy array; null becomes false."""
    values: Flags = array_of(pc.fill_null(column, False))
    return values
