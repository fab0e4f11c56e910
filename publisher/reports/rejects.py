"""Records of all runs that are rejected now: how many of each reason, and what to do."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from publisher.dispatch.refusals import refusals_in
from publisher.formats.registry import FORMATS
from publisher.ledger.read import scan_runs
from publisher.runs.rejects import (
    KnownReject,
    RejectedRecord,
    read_again,
    read_known_rejects,
    read_rejected,
    read_settled_rejects,
    refused_id,
)


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
        for reject in read_rejected(scan_runs(directory)):
            if reject.record.id not in settled:
                yield reject.record
        yield from _read_refusals(directory, settled)


def read_to_export(
    directories: Sequence[Path], selection: RejectSelection, requeued: Container[str | None]
) -> Iterator[RejectedRecord]:
    """Yields the selected records as they were in their source, and all others of their transactions, which
    are published as a whole; leaves ``requeued`` records out."""
    present: dict[str, KnownReject] = {}
    refusals: list[RejectedRecord] = []
    for directory in directories:
        settled = read_settled_rejects(partial(scan_runs, directory))
        present |= {
            name: reject
            for name, reject in read_known_rejects(scan_runs(directory)).items()
            if name not in settled and name not in requeued
        }
        refusals += filter(selection.matches, _read_refusals(directory, settled))
    selected = {name for name, reject in present.items() if selection.matches(reject.record)}
    groups = {present[name].group for name in selected} - {None}
    chosen = {
        name: reject
        for name, reject in present.items()
        if name in selected or reject.group in groups
    }
    raws = read_again({name: reject for name, reject in chosen.items() if reject.is_change})
    for name, reject in chosen.items():
        yield replace(reject.record, raw=raws.get(name)) if reject.is_change else reject.record
    yield from refusals


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


def _read_refusals(directory: Path, settled: Container[str]) -> Iterator[RejectedRecord]:
    """The documents that sinks refused; a run with several parts is read once."""
    seen: set[str] = set()
    for run in (run for part in scan_runs(directory) for run in part.runs):
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
