"""Rejected records over runs: how many of each reason, what to do, and what became of retried ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.refusals import refusals_in
from publisher.errors import FatalError, UsageError
from publisher.journal.retried_records import RetryResult, file_of, read_retries, reject_id
from publisher.journal.scan_runs import JournalPart, scan_kept_runs, scan_runs
from publisher.journal.scanned_run import ScannedRun
from publisher.masking.masker import Masking
from publisher.masking.sealed_files import use_masking
from publisher.masking.sealed_rejects import is_sealed, open_reject
from publisher.model.change import Outcome, Position
from publisher.reports.selectors import PositionTexts
from publisher.runs.known_rejects import KnownReject, read_again

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
    retry: RetryResult | None


@dataclass(frozen=True, slots=True)
class RejectGroup:
    """Rejected records of one source and reason; ``sample`` is the newest that was not retried, or else the
    newest."""

    source: str
    reason: str
    records: int
    retried: int
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
    """Yields the rejected records of journals, oldest run first.

    ``directories`` are journals, directories of ``replay``, or journal directories of jobs.

    Raises:
        UsageError: There is no journal.
        FatalError: A journal is damaged, or another version of the program wrote it.
    """
    for directory in directories:
        retries = read_retries(scan_runs(directory))
        refused_in: set[str] = set()
        for part in scan_runs(directory):
            yield from _read_rejects(part, retries)
            yield from _read_refusals(part, refused_in)


def read_to_export(
    read: Callable[[], Iterator[RejectedRecord]],
    selection: RejectSelection,
    known: Mapping[str, KnownReject],
    masking: Masking | None,
) -> Iterator[RejectedRecord]:
    """Yields the selected records as they were in their source, and all others of their transactions, which
    are published as a whole.

    Raises:
        UsageError: Records are masked, and there is no ``masking`` to open them.
        FatalError: They were masked with another key.
    """
    use_masking(masking)
    selected = {record.id for record in read() if selection.matches(record)}
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
        record = _unmask(record, masking)  # noqa: PLW2901
        if reject is not None and reject.is_change:
            record = replace(record, raw=raws.get(record.id or ""))  # noqa: PLW2901
        yield record


def _unmask(record: RejectedRecord, masking: Masking | None) -> RejectedRecord:
    if record.raw is None or not is_sealed(record.raw):
        return record
    if masking is None:
        raise UsageError(
            f"the records of run {record.run} are masked: add --unmasked to export them as they were, which "
            "needs the key of the run; the file will not be masked"
        )
    try:
        detail, raw = open_reject(record.raw, masking.masker)
    except FatalError as error:
        raise FatalError(f"run {record.run}: {error}") from None
    return replace(record, detail=detail or "", raw=raw)


def group_rejects(records: Iterable[RejectedRecord]) -> list[RejectGroup]:
    """Groups records by source and reason, most frequent first."""
    groups: dict[tuple[str, str], list[RejectedRecord]] = {}
    counts: dict[tuple[str, str], tuple[int, int, set[str]]] = {}
    for record in records:
        name = record.source, record.reason
        total, retried, runs = counts.get(name, (0, 0, set()))
        counts[name] = total + 1, retried + (record.retry is not None), runs | {record.run}
        groups.setdefault(name, [record])
        if record.retry is None or groups[name][0].retry is not None:
            groups[name] = [record]
    found = [
        RejectGroup(*name, counts[name][0], counts[name][1], len(counts[name][2]), sample)
        for name, (sample,) in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.records, group.source, group.reason))


def _read_rejects(
    part: JournalPart, retries: Mapping[str, RetryResult]
) -> Iterator[RejectedRecord]:
    rejected = part.decisions(_COLUMNS, pc.field("outcome") == int(Outcome.REJECTED))
    positions = PositionTexts(part.runs)
    seen: set[tuple[int, int, int]] = set()
    for batch in rejected.to_batches(1_000):
        for entry in batch.to_pylist():
            place = entry["run"], entry["split"], entry["row"]
            if place in seen:  # a record may give several changes
                continue
            seen.add(place)
            yield _record(part.runs[entry["run"]], entry, positions.of(entry), retries)


def _record(
    run: ScannedRun,
    entry: Mapping[str, Any],
    position: str,
    retries: Mapping[str, RetryResult],
) -> RejectedRecord:
    source = run.manifest.sources[entry["source"]]
    name = reject_id(run.manifest.run, entry["split"], entry["row"])
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
        retry=retries.get(name),
    )


def _read_refusals(part: JournalPart, seen: set[str]) -> Iterator[RejectedRecord]:
    """The documents that sinks refused; a run with several parts is read once."""
    for run in part.runs:
        if run.manifest.run in seen:
            continue
        seen.add(run.manifest.run)
        for refusal in refusals_in(run.texts):
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
                retry=None,
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


def read_dead_letters(options: KafkaOptions, journals: Path) -> Iterator[RejectedRecord]:
    """Yields the rejected records of a dead-letter topic, each once.

    ``journals`` is the journal directory of the job, which knows what was retried.

    Raises:
        UsageError: The job has no such topic.
        UnreachableError: The brokers do not answer.
    """
    from publisher.dispatch.kafka.read_offsets import read_topic  # noqa: PLC0415 - an extra

    if options.dead_letter_topic is None:
        raise UsageError("the job has no dead letters: set dead_letter_topic in [dispatch]")
    retries = read_retries(scan_kept_runs(journals))
    seen: set[tuple[str, str]] = set()
    for letter in read_topic(options, options.dead_letter_topic):
        headers = letter.headers
        name, reason = headers.get("reject-id") or None, headers.get("reason", "")
        if name is not None:
            if (name, reason) in seen:  # sent again
                continue
            seen.add((name, reason))
        source = headers.get("source", "")
        yield RejectedRecord(
            id=name,
            run=(name or "").rpartition(":")[0].rpartition(":")[0],
            source=source,
            position=headers.get("position", ""),
            file=None,
            reason=reason,
            object=None,
            detail=headers.get("detail", ""),
            raw=(letter.value or b"").decode("utf-8", "replace") or None,
            retry=retries.get(name or ""),
        )


def export_form(record: RejectedRecord) -> ExportedReject | None:
    """Builds the exported form of a record; ``None`` for records that cannot be retried, or were."""
    if record.id is None or record.raw is None or record.retry is not None:
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
