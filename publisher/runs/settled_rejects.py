"""Rejected records that are rejected no longer: retried, or read again by a later run of the job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.compute as pc

from publisher.dispatch.refusals import refusals_of
from publisher.ledger.manifest import SourceEntry
from publisher.ledger.parts import LedgerPart
from publisher.ledger.retried_records import RetryResult, read_retries, reject_id
from publisher.model.change import Outcome, Reason
from publisher.sources.files.digest import digest_of_text
from publisher.sources.registry import FORMATS

Scan = Callable[[], Iterable[LedgerPart]]
"""Reads the parts of a ledger, oldest run first."""

_COLUMNS = ("source", "split", "row", "part", "high", "low", "table", "key", "outcome", "reason")
_READ = (*_COLUMNS, "raw", "document")
_ROWS = 1_000
_UNTOUCHED = {Reason.STATUS, Reason.OUT_OF_RANGE, Reason.DUPLICATE, Reason.REPORTED}
"""Reasons with which a run ignores a record that it does not handle again."""
_REJECTED = int(Outcome.REJECTED)


@dataclass(frozen=True, slots=True)
class ReadAgain(RetryResult):
    """The result of a later run that has read a rejected record again."""

    def text(self) -> str:
        """Describes the result."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"read again in run {self.run}: {self.outcome}{reason}"


class _Record(NamedTuple):
    """A record whatever run reads it: it has a value in a column of records, and others."""

    column: str
    value: Any
    others: tuple[object, ...]


class _Attempt(NamedTuple):
    """One reading of a record: the place of its run among all runs, and what became of it."""

    order: int
    result: ReadAgain


def refused_id(run: str, lane: int, document: int) -> str:
    """Names a document that a sink refused."""
    return f"{run}/{lane}/{document}"


def read_settled_rejects(scan: Scan) -> dict[str, RetryResult]:
    """Reads what became of records that are rejected no longer, by their ids (``reject_id``).

    Documents that a sink refused are settled when later runs have read all of their records
    (``refused_id``)."""
    runs: dict[str, int] = {}
    rejected = _read_rejected(scan(), runs)
    if not rejected:
        return {}
    last = _read_last(
        scan(), runs, {record for _, records in rejected.values() for record in records}
    )
    settled: dict[str, RetryResult] = {}
    for name, (order, records) in rejected.items():
        later = [last[record] for record in records if record is not None and record in last]
        if len(later) == len(records) and all(reading.order > order for reading in later):
            settled[name] = max(later, key=lambda reading: reading.order).result
    return settled | read_retries(scan())


def read_corrected_ids(scan: Scan, source: str, table: str) -> set[int]:
    """Reads the record ids of a live table that ``rejects --retry`` has published in a corrected form, and
    that no later run has rejected.  A correction that was rejected again is a record of a file."""
    retries = read_retries(scan())
    if not retries:
        return set()
    settled = read_settled_rejects(scan)
    corrected, open_ids = set(), set()
    for part in scan():
        for entry, run, row in _rows(part, pc.field("outcome") == _REJECTED, _COLUMNS):
            if row["part"] or entry.name != source or entry.table not in (None, table):
                continue
            name = reject_id(run, row["split"], row["row"])
            if name in retries and retries[name].outcome != Outcome.REJECTED.label:
                corrected.add(row["high"])
            elif name not in settled:
                open_ids.add(row["high"])
    return corrected - open_ids


def _read_rejected(
    parts: Iterable[LedgerPart], runs: dict[str, int]
) -> Mapping[str, tuple[int, list[_Record | None]]]:
    """Reads rejected records and refused documents: the places of their runs, and their records.

    Adds the runs to ``runs``."""
    rejected: dict[str, tuple[int, list[_Record | None]]] = {}
    for part in parts:
        refused = refusals_of(part.runs)
        for run in part.runs:
            runs.setdefault(run.manifest.run, len(runs))
        condition = pc.field("outcome") == _REJECTED
        if refused:
            condition |= pc.field("document").isin(sorted({place[2] for place in refused}))
        for entry, run_name, row in _rows(part, condition, _READ):
            if row["outcome"] == _REJECTED:
                name = reject_id(run_name, row["split"], row["row"])
            elif (row["run"], row["lane"], row["document"]) in refused:
                name = refused_id(run_name, row["lane"], row["document"])
            else:
                continue
            rejected.setdefault(name, (runs[run_name], []))[1].append(_record(entry, row))
    return rejected


def _read_last(
    parts: Iterable[LedgerPart], runs: dict[str, int], wanted: Collection[_Record | None]
) -> dict[_Record, _Attempt]:
    """Finds the last run that has handled each of the wanted records."""
    condition = pc.field("outcome") == _REJECTED
    for column in ("high", "key"):
        values = {record.value for record in wanted if record and record.column == column}
        if values:
            condition |= pc.field(column).isin(sorted(values))
    last: dict[_Record, _Attempt] = {}
    for part in parts:
        for entry, run, row in _rows(part, condition, _READ):
            record = _record(entry, row)
            if record is not None and record in wanted and row["reason"] not in _UNTOUCHED:
                order = runs.setdefault(run, len(runs))
                result = ReadAgain(run, Outcome(row["outcome"]).label, row["reason"])
                last[record] = _Attempt(order, result)
    return last


def _rows(
    part: LedgerPart, condition: pc.Expression, columns: Sequence[str]
) -> Iterator[tuple[SourceEntry, str, dict[str, Any]]]:
    """Yields the records of a part that meet a condition, with their sources and runs."""
    for batch in part.records(columns, condition).to_batches(_ROWS):
        for row in batch.to_pylist():
            manifest = part.runs[row["run"]].manifest
            yield manifest.sources[row["source"]], manifest.run, row


def _record(entry: SourceEntry, row: Mapping[str, Any]) -> _Record | None:
    """Returns what identifies a record in all runs; ``None`` if nothing does.

    A compared row has no lasting position, but a key.  A position in a file only identifies a record with the
    same content, because the next file may have the same name."""
    part = row["part"] or ""
    place: tuple[object, ...] = entry.name, part, row["low"], row["high"]
    if FORMATS[entry.format].compares:
        place = entry.name, part, row["table"]
        if row["key"] is not None:
            return _Record("key", row["key"], place)
    elif not part:
        return _Record("high", row["high"], place)
    if row["raw"] is None or row["outcome"] != _REJECTED:
        return None
    return _Record("raw", digest_of_text(row["raw"]), place)
