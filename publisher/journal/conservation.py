"""What a run did, in numbers, and the proof that nothing was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from publisher.errors import InternalError
from publisher.journal.lane_writer import LaneResult
from publisher.journal.manifest import Manifest, SourceEntry
from publisher.model.change import Outcome, Reason

PLANNED = "planned"
"""State of a rehearsal."""
NOTHING_NEW = "nothing new to read"
"""State of the report of a run that was not kept."""
_AS_BEFORE = (Reason.UNCHANGED, Reason.REPORTED)


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Records of one source: read, and by outcome."""

    name: str
    read: int
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run in numbers.  ``state`` is ``published``, ``already published``, ``planned`` or
    ``nothing new to read``."""

    run: str
    state: str
    journal: str
    target: str
    read: int
    outcomes: dict[str, int]
    reasons: dict[str, dict[str, int]]
    sources: tuple[SourceCounts, ...]
    documents: int
    operations: dict[str, int]
    bytes: int
    seconds: dict[str, float] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    """Rows of event logs by the status that was written; D were deleted."""
    notes: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether there is a journal of it."""
        return bool(self.journal)

    @property
    def is_idle(self) -> bool:
        """Whether all that was read is as it was, or waits as before."""
        ignored = self.reasons.get("ignored", {})
        changed = self.read - self.outcomes["held"] - sum(ignored.get(why, 0) for why in _AS_BEFORE)
        return not self.documents and not changed

    @property
    def rejected(self) -> int:
        """Records that were rejected."""
        return self.outcomes[Outcome.REJECTED.label]


def conserve(results: Sequence[LaneResult], splits_of_sources: Sequence[Sequence[int]]) -> int:
    """Proves that every record read has exactly one outcome; returns the number of records read.

    ``splits_of_sources`` has the numbers of the splits of each source.  The records read are counted
    by the reading tasks, the outcomes by the lanes.

    Raises:
        InternalError: A split did not report, or the numbers differ.
    """
    read: dict[int, int] = {}
    for result in results:
        for split, records in result.tallies:
            if split in read:
                raise InternalError(f"split {split} was counted twice: publish again, report this")
            read[split] = records
    unknown = set(read).difference(*splits_of_sources)
    if unknown:
        raise InternalError(
            f"splits {sorted(unknown)} were counted as read, and the run has none such"
        )
    for source, splits in enumerate(splits_of_sources):
        missing = [split for split in splits if split not in read]
        if missing:
            raise InternalError(f"splits {missing} of source {source} were not counted as read")
        records = sum(read[split] for split in splits)
        decided = sum(
            count.records for result in results for count in result.counts if count.source == source
        )
        if records != decided:
            raise InternalError(
                f"source {source}: {records} records were read, {decided} have an outcome; nothing "
                "was published: run again, and report this if it stays so"
            )
    return sum(read.values())


def outcome_counts(results: Sequence[LaneResult], source: int | None = None) -> dict[str, int]:
    """Records by outcome, all five named, of one source or of all."""
    counts = Counter[str]({outcome.label: 0 for outcome in Outcome})
    for result in results:
        for count in result.counts:
            if source is None or count.source == source:
                counts[count.outcome.label] += count.records
    return dict(counts)


def reason_counts(results: Sequence[LaneResult]) -> dict[str, dict[str, int]]:
    """Records by outcome and reason, of the outcomes that have one."""
    counts: dict[str, dict[str, int]] = {}
    for result in results:
        for count in result.counts:
            if count.reason is not None:
                reasons = counts.setdefault(count.outcome.label, {})
                reasons[count.reason] = reasons.get(count.reason, 0) + count.records
    return {outcome: dict(sorted(reasons.items())) for outcome, reasons in sorted(counts.items())}


def report_of(
    manifest: Manifest, *, state: str, journal: str, target: str, seconds: dict[str, float]
) -> RunReport:
    """The numbers of a committed run."""
    operations = Counter[str]()
    for result in manifest.results:
        for name, count in result.operations:
            for kind in name.split():
                operations[kind] += count
    sources = []
    for number, entry in enumerate(manifest.sources):
        outcomes = outcome_counts(manifest.results, number)
        sources.append(SourceCounts(entry.name, sum(outcomes.values()), outcomes))
    return RunReport(
        run=manifest.run,
        state=state,
        journal=journal,
        target=target,
        read=manifest.records_read,
        outcomes=outcome_counts(manifest.results),
        reasons=reason_counts(manifest.results),
        sources=tuple(sources),
        documents=sum(result.documents for result in manifest.results),
        operations=dict(sorted(operations.items())),
        bytes=sum(result.bytes for result in manifest.results),
        seconds=seconds,
        notes=tuple(note for entry in manifest.sources for note in _notes(entry)),
    )


def _notes(entry: SourceEntry) -> Iterator[str]:
    yield from (f"{entry.name}: {note}" for note in entry.notes)
    empty = [file.path for file in entry.files if not file.bytes]
    if empty:
        yield f"empty: {', '.join(empty[:3])}{' ...' if empty[3:] else ''}; see whether an export failed"
    refused = [file.path for file in entry.files if file.refused is not None]
    if refused:
        yield (
            f"all records were rejected of {', '.join(refused[:3])}{' ...' if refused[3:] else ''}: "
            "not marked as published, and read again once the settings or the content have changed; "
            "see the rejected records"
        )
    if entry.again:
        yield f"read again: {entry.again:,} record(s) of {entry.name}, which an earlier run had held"
    for split in entry.splits:
        notes = split.get("notes")
        if isinstance(notes, list | tuple):
            yield from (f"{entry.name}: {note}" for note in notes)


def nothing_read(run: str) -> RunReport:
    """The report of a start that found nothing new."""
    outcomes = outcome_counts(())
    return RunReport(run, NOTHING_NEW, "", "", 0, outcomes, {}, (), 0, {}, 0)
