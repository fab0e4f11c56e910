"""The numbers of a report: where every record went, by source, outcome, reason, table, lane and time."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.dispatch.refusals import Refusal, apply_refusals, refusals_in, refusals_of
from publisher.ledger.conservation import report_of
from publisher.ledger.job import RUN
from publisher.ledger.manifest import Manifest, RunEnd
from publisher.ledger.parts import LedgerPart, document_rows, rows_of_places
from publisher.ledger.runs import StoredRun
from publisher.model.change import Object, Outcome
from publisher.model.clock import microseconds
from publisher.reports.page.reject_samples import Rejects, RejectSamples
from publisher.reports.page.timeline import Timeline, Timespan

_RUNS = 100
"""Maximum number of runs that a report lists: the newest."""
_COUNTED = ("source", "outcome", "reason", "schema", "table", "records", "event_time", "document")
_OF_DOCUMENTS = ("operation", "schema", "table")


@dataclass(frozen=True, slots=True)
class Flow:
    """Records of one source with one outcome and reason."""

    source: str
    outcome: str
    reason: str | None
    records: int


@dataclass(frozen=True, slots=True)
class TableSums:
    """Records of a table by outcome, and documents by operation."""

    name: str | None
    """With its schema; ``None`` for records whose table cannot be read."""
    outcomes: Mapping[str, int]
    operations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """Documents, bytes and seconds of planning of a lane."""

    lane: int
    documents: int
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PhaseSeconds:
    """The time that a phase took in all runs together, and in the run where it took longest."""

    phase: str
    seconds: float
    longest: float
    longest_run: str


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in one line."""

    run: str
    clock: str
    """ISO 8601, UTC."""
    read: int
    documents: int
    bytes: int
    outcomes: Mapping[str, int]
    engine: str | None
    seconds: Mapping[str, float]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """One or more runs in numbers."""

    jobs: tuple[str, ...]
    runs: int
    first: str
    last: str
    """Times of the first and the last run in ISO 8601, UTC."""
    newest: tuple[RunLine, ...]
    read: int
    documents: int
    bytes: int
    outcomes: Mapping[str, int]
    flows: tuple[Flow, ...]
    rejects: tuple[Rejects, ...]
    tables: tuple[TableSums, ...]
    operations: Timespan
    lanes: tuple[LaneCounts, ...]
    phases: tuple[PhaseSeconds, ...]
    rejected_now: int = 0
    """Number of rejected records and refused documents that no later run has read again."""

    @property
    def skew(self) -> float | None:
        """The documents of the largest lane as a multiple of the average; ``None`` without documents."""
        return _largest_by_average([lane.documents for lane in self.lanes])

    @property
    def skew_of_seconds(self) -> float | None:
        """The seconds of the slowest lane as a multiple of the average; ``None`` if none are known."""
        return _largest_by_average([lane.seconds for lane in self.lanes])


class OverviewBuilder:
    """Adds up the parts of ledgers.  Memory depends on the numbers of tables, reasons and lanes only."""

    def __init__(self) -> None:
        self._newest = deque[RunLine](maxlen=_RUNS)
        self.runs = 0
        """Number of runs so far."""
        self._last_run: Path | None = None
        self._jobs: dict[str, None] = {}
        self._first = self._last_clock = ""
        self._flows = Counter[tuple[str, str, str | None]]()
        self._tables = Counter[tuple[str | None, str]]()
        self._operations = Counter[tuple[str | None, str]]()
        self._lanes: dict[int, LaneCounts] = {}
        self._phases: dict[str, PhaseSeconds] = {}
        self._samples = RejectSamples()
        self._timeline = Timeline()

    def add(self, part: LedgerPart) -> None:
        """Adds a part; the parts of a run follow one another."""
        for run in part.runs:
            if run.place != self._last_run:
                self._last_run = run.place
                self._add_run(run, list(refusals_in(run.texts)))
        records = part.records(_COUNTED)
        self._add_changes(part, records)
        is_rejected = pc.equal(records["outcome"], int(Outcome.REJECTED))
        reasons = pc.unique(records["reason"].filter(is_rejected)).to_pylist()
        if self._samples.lack(reasons):
            self._samples.add_part(part)

    def finish(self) -> Overview:
        """Returns the sums."""
        flows = [Flow(*flow, records) for flow, records in self._flows.items() if records]
        outcomes = Counter({outcome.label: 0 for outcome in Outcome})
        for flow in flows:
            outcomes[flow.outcome] += flow.records
        lanes = [self._lanes[lane] for lane in sorted(self._lanes)]
        return Overview(
            jobs=tuple(self._jobs),
            runs=self.runs,
            first=self._first,
            last=self._last_clock,
            newest=tuple(self._newest),
            read=outcomes.total(),
            documents=sum(lane.documents for lane in lanes),
            bytes=sum(lane.bytes for lane in lanes),
            outcomes=dict(outcomes),
            flows=tuple(sorted(flows, key=lambda flow: -flow.records)),
            rejects=tuple(self._samples.of(_rejects_by_reason(flows))),
            tables=tuple(self._table_counts()),
            operations=self._timeline.timespan(),
            lanes=tuple(lanes),
            phases=tuple(self._phases.values()),
        )

    def _add_run(self, run: StoredRun, refusals: Sequence[Refusal]) -> None:
        manifest, end = run.manifest, _end_of(run)
        self.runs += 1
        self._jobs[manifest.job or run.place.parent.name] = None
        self._first = min(self._first or manifest.clock, manifest.clock)
        self._last_clock = max(self._last_clock, manifest.clock)
        report = apply_refusals(
            report_of(manifest, state="", ledger="", target="", seconds={}), refusals
        )
        self._newest.append(
            RunLine(
                manifest.run,
                manifest.clock,
                report.read,
                report.documents,
                report.bytes,
                report.outcomes,
                end.engine,
                end.seconds,
                tuple(dict.fromkeys([*report.notes, *end.notes])),
            )
        )
        self._add_seconds(manifest.run, end.seconds)
        self._add_flows(manifest, refusals)
        for result in manifest.results:
            lane = self._lanes.get(result.lane, LaneCounts(result.lane, 0, 0, 0.0))
            self._lanes[result.lane] = LaneCounts(
                result.lane,
                lane.documents + result.documents,
                lane.bytes + result.bytes,
                round(lane.seconds + result.seconds, 3),
            )

    def _add_seconds(self, run: str, seconds: Mapping[str, float]) -> None:
        for phase, spent in seconds.items():
            known = self._phases.get(phase, PhaseSeconds(phase, 0, -1, run))
            longest = max((known.longest, known.longest_run), (spent, run), key=itemgetter(0))
            self._phases[phase] = PhaseSeconds(phase, round(known.seconds + spent, 3), *longest)

    def _add_flows(self, manifest: Manifest, refusals: Sequence[Refusal]) -> None:
        names = [entry.name for entry in manifest.sources]
        for result in manifest.results:
            for count in result.counts:
                flow = (names[count.source], count.outcome.label, count.reason)
                self._flows[flow] += count.records
        self._samples.add_refusals(manifest.run, refusals)
        for refusal in refusals:
            records = refusal.records.count(",") + 1
            self._flows[refusal.source, Outcome.PUBLISHED.label, None] -= records
            self._flows[refusal.source, Outcome.REJECTED.label, refusal.reason] += records

    def _add_changes(self, part: LedgerPart, records: pa.Table) -> None:
        """Counts records by table and outcome, documents by table and by the time of their last change."""
        documents = part.documents(_OF_DOCUMENTS)
        rows = document_rows(records, documents)
        if refused := refusals_of(part.runs):
            records = _move_refusals(records, rows, rows_of_places(refused, documents))
        for entry in _count(records, ["schema", "table", "outcome"], ("records", "sum")):
            outcome = Outcome(entry["outcome"]).label
            self._tables[_table_name(entry), outcome] += entry["records_sum"]
        for entry in _count(documents, ["schema", "table", "operation"], ([], "count_all")):
            self._operations[_table_name(entry), entry["operation"]] += entry["count_all"]
        times = _times_of_documents(part.runs, records, documents, rows)
        operations = documents["operation"].to_numpy()
        for operation in pc.unique(documents["operation"]).to_pylist():
            self._timeline.add(operation, times[operations == operation])

    def _table_counts(self) -> list[TableSums]:
        """The tables by number of records, the largest first."""
        names = {name for name, _ in [*self._tables, *self._operations]}
        counts = [
            TableSums(
                name,
                {outcome: n for (table, outcome), n in self._tables.items() if table == name},
                {kind: n for (table, kind), n in self._operations.items() if table == name},
            )
            for name in names
        ]
        return sorted(counts, key=lambda table: (-sum(table.outcomes.values()), table.name or ""))


def _end_of(run: StoredRun) -> RunEnd:
    """The end of a run; seconds and engine of a replay are in its report only."""
    end = run.end or RunEnd()
    for folder in (run.documents, run.place) if not end.seconds else ():
        try:
            content = json.loads((folder / RUN).read_text("utf-8"))
        except OSError:  # the documents were moved
            continue
        engine = content.get("engine") or {}
        return replace(end, seconds=content.get("seconds", {}), engine=engine.get("name"))
    return end


def _largest_by_average(values: Sequence[float]) -> float | None:
    total = sum(values)
    return max(values) * len(values) / total if total else None


def _rejects_by_reason(flows: Iterable[Flow]) -> Counter[str]:
    counts = Counter[str]()
    for flow in flows:
        if flow.outcome == Outcome.REJECTED.label:
            counts[flow.reason or ""] += flow.records
    return counts


def _count(table: pa.Table, keys: list[str], sum_: tuple[object, str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.group_by(keys).aggregate([sum_]).to_pylist()
    return rows


def _table_name(entry: Mapping[str, Any]) -> str | None:
    if entry["table"] is None:
        return None
    return Object(entry["schema"], entry["table"], "").qualified_table


def _move_refusals(records: pa.Table, rows: np.ndarray, refused: np.ndarray) -> pa.Table:
    """Counts the records of refused documents as rejected."""
    is_refused = (rows >= 0) & np.isin(rows, refused)
    outcomes = np.where(is_refused, int(Outcome.REJECTED), records["outcome"].to_numpy())
    at = records.column_names.index("outcome")
    return records.set_column(at, "outcome", pa.array(outcomes))


def _times_of_documents(
    runs: Sequence[StoredRun], records: pa.Table, documents: pa.Table, rows: np.ndarray
) -> np.ndarray:
    """The time of each document in microseconds: of its last change, or of its run if changes have none."""
    times = pc.fill_null(records["event_time"], -1).to_numpy()
    latest = np.full(documents.num_rows, -1, np.int64)
    with_document = rows >= 0
    np.maximum.at(latest, rows[with_document], times[with_document])
    clocks = np.array([_clock(run.manifest.clock) for run in runs], np.int64)
    return np.where(latest < 0, clocks[documents["run"].to_numpy()], latest)


def _clock(text: str) -> int:
    return microseconds(datetime.fromisoformat(text)) if text else 0
