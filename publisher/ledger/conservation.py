"""The report of a run in numbers, and the proof that no record was lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from publisher.errors import InternalError
from publisher.ledger.lane_result import LaneResult
from publisher.ledger.manifest import Manifest, SourceEntry
from publisher.model.change import Outcome, Reason
from publisher.model.engine_use import EngineUse

PLANNED = "planned"
"""State of the report of a dry run."""
NOTHING_NEW = "nothing new to read"
"""State of the report of a start without new records."""
_WITHOUT_CHANGE = (Reason.UNCHANGED, Reason.REPORTED)


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Records of one source, in total and by outcome."""

    name: str
    read: int
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run in numbers.  ``state`` is ``published``, ``already published``, ``planned`` or
    ``nothing new to read``."""

    run: str
    state: str
    ledger: str
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
    """Rows of event logs by written status; D means deleted."""
    notes: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    engine: EngineUse | None = None
    """``None`` if an earlier start planned the run."""

    @property
    def has_ledger(self) -> bool:
        """True if the run has a ledger."""
        return bool(self.ledger)

    @property
    def is_idle(self) -> bool:
        """True if the run read only unchanged, reported or held records."""
        ignored = self.reasons.get(Outcome.IGNORED.label, {})
        unchanged = sum(ignored.get(reason, 0) for reason in _WITHOUT_CHANGE)
        changed = self.read - self.outcomes[Outcome.HELD.label] - unchanged
        return not self.documents and not changed

    @property
    def rejected(self) -> int:
        """Records that were rejected."""
        return self.outcomes[Outcome.REJECTED.label]


def check_conservation(
    results: Sequence[LaneResult], splits_of_sources: Sequence[Sequence[int]]
) -> int:
    """Checks that every record has exactly one outcome; returns the number of records.

    ``splits_of_sources`` has the numbers of the splits of each source.  Reading tasks count records,
    lanes count outcomes.

    Raises:
        InternalError: A split did not report, or the numbers differ.
    """
    read = gather_tallies(result.tallies for result in results)
    unknown = set(read).difference(*splits_of_sources)
    if unknown:
        raise InternalError(
            f"splits {sorted(unknown)} were counted, but the run does not have them: publish "
            "again, and report this"
        )
    for source, splits in enumerate(splits_of_sources):
        missing = [split for split in splits if split not in read]
        if missing:
            raise InternalError(
                f"splits {missing} of source {source} were not counted: publish again, and report this"
            )
        records = sum(read[split] for split in splits)
        decided = sum(
            count.records for result in results for count in result.counts if count.source == source
        )
        if records != decided:
            raise InternalError(
                f"source {source}: {records} records were read, {decided} have an outcome; nothing "
                "was published: run again, and report this if it repeats"
            )
    return sum(read.values())


def gather_tallies(tallies: Iterable[Iterable[tuple[int, int]]]) -> dict[int, int]:
    """Gathers the counts of splits.  Raises ``InternalError`` if a split was counted twice."""
    counts: dict[int, int] = {}
    for split, count in chain.from_iterable(tallies):
        if split in counts:
            raise InternalError(f"split {split} was counted twice: publish again, and report this")
        counts[split] = count
    return counts


def outcome_counts(results: Sequence[LaneResult], source: int | None = None) -> dict[str, int]:
    """Counts the records of one source or of all by outcome, including outcomes without records."""
    counts = Counter[str]({outcome.label: 0 for outcome in Outcome})
    for result in results:
        for count in result.counts:
            if source is None or count.source == source:
                counts[count.outcome.label] += count.records
    return dict(counts)


def reason_counts(results: Sequence[LaneResult]) -> dict[str, dict[str, int]]:
    """Counts records by outcome and reason, omitting outcomes without reasons."""
    counts: dict[str, dict[str, int]] = {}
    for result in results:
        for count in result.counts:
            if count.reason is not None:
                reasons = counts.setdefault(count.outcome.label, {})
                reasons[count.reason] = reasons.get(count.reason, 0) + count.records
    return {outcome: dict(sorted(reasons.items())) for outcome, reasons in sorted(counts.items())}


def report_of(
    manifest: Manifest,
    *,
    state: str,
    ledger: str,
    target: str,
    seconds: dict[str, float],
    engine: EngineUse | None = None,
) -> RunReport:
    """Reports a committed run."""
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
        ledger=ledger,
        target=target,
        read=manifest.records_read,
        outcomes=outcome_counts(manifest.results),
        reasons=reason_counts(manifest.results),
        sources=tuple(sources),
        documents=sum(result.documents for result in manifest.results),
        operations=dict(sorted(operations.items())),
        bytes=sum(result.bytes for result in manifest.results),
        seconds=seconds,
        engine=engine,
        notes=tuple(note for entry in manifest.sources for note in _notes(entry)),
    )


def _notes(entry: SourceEntry) -> Iterator[str]:
    yield from (f"{entry.name}: {note}" for note in entry.notes)
    empty = [file.path for file in entry.files if not file.bytes]
    if empty:
        names = f"{', '.join(empty[:3])}{' ...' if empty[3:] else ''}"
        yield f"empty files: {names}; check whether an export failed"
    refused = [
        file.path for file in entry.files if file.refused is not None and not file.is_left_out
    ]
    if refused:
        yield (
            f"all records of {', '.join(refused[:3])}{' ...' if refused[3:] else ''} were rejected: "
            "these files are not marked as published, and a change of settings or content makes the job "
            "read them again; see the rejected records"
        )
    if entry.again:
        yield f"read again: {entry.again:,} record(s) of {entry.name}, which an earlier run had held"
    for split in entry.splits:
        notes = split.get("notes")
        if isinstance(notes, list | tuple):
            yield from (f"{entry.name}: {note}" for note in notes)


def empty_report(run: str) -> RunReport:
    """Reports a start that found nothing new."""
    outcomes = outcome_counts(())
    return RunReport(run, NOTHING_NEW, "", "", 0, outcomes, {}, (), 0, {}, 0)
