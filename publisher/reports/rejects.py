"""Records of all runs that are rejected now: how many of each reason, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from publisher.dispatch.refusals import refusals_in
from publisher.ledger.parts import LedgerPart
from publisher.ledger.read import scan_runs
from publisher.ledger.retried_records import file_of, reject_id
from publisher.ledger.runs import StoredRun
from publisher.model.change import Outcome, Position
from publisher.reports.selectors import PositionTexts
from publisher.runs.known_rejects import KnownReject, read_again
from publisher.runs.settled_rejects import read_settled_rejects, refused_id
from publisher.sources.registry import FORMATS

_COLUMNS = ("source", "split", "row", *Position._fields, "reason", "table", "key", "detail", "raw")


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A rejected record, or a document that a sink refused.

    ``id`` is ``None`` for a refused document; ``detail`` says what to do."""

    id: str | None
    run: str
    source: str
    position: str
    file: str | None
    reason: str
    object: str | None
    detail: str
    raw: str | None
    format: str
    table: str | None = None
    """The table of a live source."""
    record_id: int | None = None
    """The id of a row of a log, whose status may say what became of it; ``None`` for other records."""


@dataclass(frozen=True, slots=True)
class RejectGroup:
    """Rejected records of one source and reason; ``sample`` is the newest."""

    source: str
    reason: str
    records: int
    runs: int
    sample: RejectedRecord


@dataclass(frozen=True, slots=True)
class RejectSelection:
    """The rejected records to show: those that match every criterion that is not empty."""

    sources: frozenset[str] = frozenset()
    reasons: frozenset[str] = frozenset()

    def matches(self, record: RejectedRecord) -> bool:
        """Returns whether a record is selected."""
        is_of_source = not self.sources or record.source in self.sources
        return is_of_source and (not self.reasons or record.reason in self.reasons)

    def notes(self, groups: Sequence[RejectGroup]) -> Iterator[str]:
        """Notes the criteria that no rejected record meets; ``groups`` are those of all records."""
        for name, wanted, known in (
            ("source", self.sources, {group.source for group in groups}),
            ("reason", self.reasons, {group.reason for group in groups}),
        ):
            if wanted - known:
                yield (
                    f"no rejected record has {name} {', '.join(sorted(wanted - known))}; "
                    f"known {name}s: {', '.join(sorted(known)) or 'none'}"
                )


def read_rejects(directories: Sequence[Path]) -> Iterator[RejectedRecord]:
    """Yields the records of ledgers that are rejected now, oldest run first.

    Records that were retried, or that a later run has read again, are left out.
    ``directories`` are ledger, directories of ``replay``, or ledger directories of jobs.

    Raises:
        UsageError: There is no ledger.
        FatalError: A ledger is damaged, or another version of the program wrote it.
    """
    for directory in directories:
        settled = read_settled_rejects(partial(scan_runs, directory))
        refused_in: set[str] = set()
        for part in scan_runs(directory):
            yield from _read_rejects(part, settled)
            yield from _read_refusals(part, refused_in, settled)


def read_to_export(
    read: Callable[[], Iterator[RejectedRecord]],
    selection: RejectSelection,
    known: Mapping[str, KnownReject],
) -> Iterator[RejectedRecord]:
    """Yields the selected records as they were in their source, and all others of their transactions, which
    are published as a whole."""
    present, selected = set[str | None](), set[str | None]()
    for record in read():  # a record may be there once in each lane
        present.add(record.id)
        if selection.matches(record):
            selected.add(record.id)
    known = {name: reject for name, reject in known.items() if name in present}
    groups = {reject.group for name, reject in known.items() if name in selected} - {None}
    chosen = {
        name: reject for name, reject in known.items() if name in selected or reject.group in groups
    }
    raws = read_again({name: reject for name, reject in chosen.items() if reject.is_change})
    written: set[str] = set()
    for record in read():
        reject = chosen.get(record.id or "")
        if record.id in written or (reject is None and not selection.matches(record)):
            continue
        written |= {record.id} if record.id is not None else set()
        if reject is not None and reject.is_change:
            record = replace(record, raw=raws.get(record.id or ""))  # noqa: PLW2901
        yield record


def group_rejects(records: Iterable[RejectedRecord]) -> list[RejectGroup]:
    """Groups records by source and reason, most frequent first."""
    groups: dict[tuple[str, str], list[RejectedRecord]] = {}
    for record in records:
        groups.setdefault((record.source, record.reason), []).append(record)
    found = [
        RejectGroup(*name, len(members), len({member.run for member in members}), members[-1])
        for name, members in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.records, group.source, group.reason))


def _read_rejects(part: LedgerPart, settled: Container[str]) -> Iterator[RejectedRecord]:
    rejected = part.records(_COLUMNS, pc.field("outcome") == int(Outcome.REJECTED))
    positions = PositionTexts(part.runs)
    seen: set[tuple[int, int, int]] = set()
    for batch in rejected.to_batches(1_000):
        for entry in batch.to_pylist():
            place = entry["run"], entry["split"], entry["row"]
            if place in seen:  # a record may give several changes
                continue
            seen.add(place)
            record = _record(part.runs[entry["run"]], entry, positions.of(entry))
            if record.id not in settled:
                yield record


def _record(run: StoredRun, entry: Mapping[str, Any], position: str) -> RejectedRecord:
    source = run.manifest.sources[entry["source"]]
    name = reject_id(run.manifest.run, entry["split"], entry["row"])
    has_id = FORMATS[source.format].has_status and not entry["part"]
    return RejectedRecord(
        id=name,
        run=run.manifest.run,
        source=source.name,
        position=position,
        file=file_of(source, entry["split"]),
        reason=entry["reason"],
        object=f"{entry['key']} of {entry['table']}" if entry["key"] else None,
        detail=entry["detail"] or "",
        raw=entry["raw"],
        format=source.format,
        table=source.table,
        record_id=entry["high"] if has_id else None,
    )


def _read_refusals(
    part: LedgerPart, seen: set[str], settled: Container[str]
) -> Iterator[RejectedRecord]:
    """The documents that sinks refused; a run with several parts is read once."""
    for run in part.runs:
        if run.manifest.run in seen:
            continue
        seen.add(run.manifest.run)
        sources = {source.name: source for source in run.manifest.sources}
        for refusal in refusals_in(run.texts):
            if refused_id(run.manifest.run, refusal.lane, refusal.document) in settled:
                continue
            yield RejectedRecord(
                id=None,
                run=run.manifest.run,
                source=refusal.source,
                position=refusal.records,
                file=None,
                reason=refusal.reason,
                object=None,
                detail=refusal.detail,
                raw=None,
                format=sources[refusal.source].format,
                table=sources[refusal.source].table,
            )


@dataclass(frozen=True, slots=True)
class ExportedReject:
    """A rejected record as ``rejects --export`` writes it: people correct ``raw``."""

    id: str
    source: str
    position: str
    file: str | None
    reason: str
    detail: str
    raw: Any
    """The record in the form of its format: JSON, with binary data in hex."""


def export_form(record: RejectedRecord) -> ExportedReject | None:
    """Builds the exported form of a record; ``None`` for a record that cannot be retried (``left_out``)."""
    if record.id is None or record.raw is None or FORMATS[record.format].compares:
        return None
    try:
        raw = json.loads(record.raw)
    except ValueError:
        raw = record.raw
    return ExportedReject(
        record.id,
        record.source,
        record.position,
        record.file,
        record.reason,
        record.detail,
        raw,
    )


def left_out(record: RejectedRecord, job: str) -> str:
    """Says why a record is not exported, and what to do; ``job`` is the job file of commands."""
    if record.table is not None and (record.id is None or record.record_id is not None):
        first = record.position.partition(",")[0]
        what = "row of a live table" if record.id else "document that the sink refused"
        cure = "correct it there" if record.id else f"remove the cause ({record.reason})"
        return f"{record.position}: {what}; {cure}, then: xds-publisher retry -c {job} --position {first}"
    if record.id is None:
        return (
            f"{record.position}: document that the sink refused; remove the cause ({record.reason}), then "
            f"send run {record.run} again: xds-publisher dispatch"
        )
    if FORMATS[record.format].compares:
        return (
            f"{record.position}: row of a compared table; correct it there for the next comparison"
        )
    if record.table is not None:
        return f"{record.position}: row of a live table; correct it where it comes from, as a new change"
    return (
        f"{record.position}: {record.file or 'its input'} has changed or is gone; restore it, then: "
        f"xds-publisher rejects -c {job} --export FILE.jsonl"
    )
