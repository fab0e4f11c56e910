"""Acknowledges a run that the sink has: writes the statuses of its live event logs, marks it as done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from publisher.acknowledge.leftovers import leftovers_of
from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.places import LogPlace, WrongTableError, find_log, log_of_same_name
from publisher.acknowledge.status_letters import (
    RefusedDocuments,
    refused_documents,
    status_windows,
)
from publisher.acknowledge.write_status import (
    AcknowledgeReport,
    WritingHooks,
    acknowledge,
    deleted_letters,
    letters_of,
    read_progress_of,
)
from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.identity import TableOrigin, identity_of
from publisher.database.statuses import DELETED
from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.refusals import Refusal
from publisher.errors import FatalError, UnreachableError, UsageError
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest, RunEnd, SourceEntry
from publisher.ledger.runs import LedgerRun
from publisher.ledger.source_state import PUBLISHED_OBJECTS
from publisher.ledger.stored_states import forget_refused
from publisher.runs.keep_unpublished import keep_refused
from publisher.runs.notes import STATUS_NOTE, late_notes, with_notes
from publisher.sources.live.find_table import LiveTable, relation_of
from publisher.sources.registry import FORMATS


class WrongTable(Enum):
    """Handling of a run if the job file no longer names the table that the run has read."""

    REFUSE = "refuse"
    ACCEPT = "accept"
    """Write statuses into the table that the job file names now, to rows that are unchanged."""
    ABANDON = "abandon"
    """Write no statuses, and count the run as done."""


@dataclass
class RunStatuses:
    """Counts of written statuses by letter, the greatest record id of each source, and notes."""

    changed: Counter[str] = field(default_factory=Counter)
    greatest: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class SentRun(NamedTuple):
    """A run that the sink has, except the documents that the sink refuses."""

    ledger_run: LedgerRun
    manifest: Manifest
    report: RunReport
    refusals: Sequence[Refusal] = ()


@dataclass(frozen=True, slots=True)
class StatusWriting:
    """Writes the statuses of a run, one source after the other."""

    ledger_run: LedgerRun
    manifest: Manifest
    options: AcknowledgeOptions
    refused: RefusedDocuments
    check_lease: Callable[[], None]
    wrong_table: WrongTable = WrongTable.REFUSE
    progress: Progress | None = None

    def write_all(self, sources: Sequence[SourceSettings]) -> RunStatuses:
        """Writes the statuses of all sources of the run; ``sources`` come from the job file.

        Raises:
            WrongTableError: The job file no longer names a table that the run has read.
            FatalError: The ledger is damaged, or a database refuses.
            UnreachableError: A database does not answer.
        """
        places = _places_of(sources)
        statuses = RunStatuses()
        for number, entry in enumerate(self.manifest.sources):
            if has_status(entry):
                self._write_source(number, entry, places, statuses)
        return statuses

    def count_all(self, sources: Sequence[SourceSettings]) -> RunStatuses:
        """Counts the statuses that ``write_all`` would write if all rows were still N; writes nothing.

        Raises:
            WrongTableError: As ``write_all``.
        """
        places = _places_of(sources)
        statuses = RunStatuses()
        for number, entry in enumerate(self.manifest.sources):
            if not has_status(entry) or not self.options.writes:
                continue
            try:
                self._find_log(number, places, statuses)
            except (FatalError, UnreachableError) as error:
                if self.wrong_table is not WrongTable.ABANDON:
                    raise
                statuses.notes.append(_abandonment_note(entry, error))
                continue
            if self.options.write_status:
                statuses.changed += self._count_letters(number)
        return statuses

    def _count_letters(self, number: int) -> Counter[str]:
        counts, deleted = Counter[str](), deleted_letters(self.options)
        lanes = letters_of(self.ledger_run, self.manifest, number, self.refused)
        for window in status_windows(lanes):
            for letter, count in zip(*np.unique(window.letters, return_counts=True), strict=True):
                counts[DELETED if chr(letter) in deleted else chr(letter)] += int(count)
        return counts

    def _write_source(
        self, number: int, entry: SourceEntry, places: Sequence[LogPlace], statuses: RunStatuses
    ) -> None:
        if not self.options.writes:
            progress = read_progress_of(self.ledger_run, self.manifest, number)
        else:
            try:
                report = self._acknowledge(number, self._find_log(number, places, statuses))
            except (FatalError, UnreachableError) as error:
                if self.wrong_table is not WrongTable.ABANDON:
                    raise
                statuses.notes.append(_abandonment_note(entry, error))
                return
            progress = report.progress
            statuses.changed.update(report.changed)
            statuses.notes += _notes_on_other_rows(entry, report)
        statuses.greatest[entry.name] = progress.greatest
        statuses.notes += late_notes(entry.name, self.manifest, progress)

    def _find_log(self, number: int, places: Sequence[LogPlace], statuses: RunStatuses) -> LogPlace:
        try:
            return find_log(self.manifest, number, places)
        except WrongTableError:
            if self.wrong_table is not WrongTable.ACCEPT:
                raise
        log = log_of_same_name(self.manifest, number, places)
        statuses.notes.append(
            f"{log.source}: table {log.table} of the job file was accepted as the table that run "
            f"{self.manifest.run} has read"
        )
        return log

    def _acknowledge(self, number: int, log: LogPlace) -> AcknowledgeReport:
        return acknowledge(
            self.ledger_run,
            self.manifest,
            number,
            log,
            self.options,
            refused=self.refused,
            hooks=WritingHooks(self.check_lease, self.progress),
        )


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Acknowledges the runs of a job."""

    settings: Settings
    ledger: Ledger
    check_lease: Callable[[], None]
    progress: Progress | None = None

    @property
    def live_sources(self) -> frozenset[str]:
        """Names of the sources whose rows get a status."""
        if not self.settings.acknowledge.write_status:
            return frozenset()
        return frozenset(source.name for source in self.settings.sources if source.has_status)

    def status_writing(
        self, sent: SentRun, wrong_table: WrongTable = WrongTable.REFUSE
    ) -> StatusWriting:
        """Prepares writing the statuses of a run; forgets the published values of refused objects."""
        refused = refused_documents(sent.refusals)
        forget_refused(sent.ledger_run, sent.manifest, refused)
        keep_refused(self.ledger, sent.ledger_run, sent.manifest, refused)
        options = self.settings.acknowledge
        return StatusWriting(
            sent.ledger_run,
            sent.manifest,
            options,
            refused,
            self.check_lease,
            wrong_table,
            progress=self.progress,
        )

    def acknowledge(self, sent: SentRun, writing: StatusWriting) -> RunReport:
        """Writes the statuses of a sent run, then marks the run as done.

        Raises:
            PublisherError: See ``StatusWriting.write_all``.
        """
        ledger_run, manifest, report, _ = sent
        options = self.settings.acknowledge
        statuses = writing.write_all(self.settings.sources)
        leftovers = {
            entry.name: leftovers_of(ledger_run, manifest, number)
            for number, entry in enumerate(manifest.sources)
            if has_status(entry) and entry.name in self.live_sources
        }
        self.check_lease()
        report = with_notes(report, [*statuses.notes, *self._finish_states(ledger_run, manifest)])
        self.ledger.finish(
            *(ledger_run, manifest, _end_of(report, options)),
            greatest=statuses.greatest,
            leftovers=leftovers,
        )
        if PUBLISHED_OBJECTS in manifest.states:
            self.ledger.forget_states(PUBLISHED_OBJECTS, manifest.run)
        report = replace(report, statuses=dict(sorted(statuses.changed.items())))
        has_log = any(has_status(entry) for entry in manifest.sources)
        return with_notes(report, [STATUS_NOTE] if has_log and not options.write_status else [])

    def _finish_states(self, ledger_run: LedgerRun, manifest: Manifest) -> list[str]:
        """Lets sources remove data that only replaced states needed; returns the notes of the sources."""
        notes = []
        for entry in manifest.sources:
            state = ledger_run.state(entry.name)
            if state is not None:
                source = FORMATS[entry.format].restore(entry.options, entry.reading)
                replaced = self.ledger.earlier_states(manifest.run, entry.name)
                notes += source.finish(state, replaced, entry.name)
        return notes


def find_waiting_run(ledger: Ledger, run: str) -> tuple[LedgerRun, Manifest]:
    """Finds a planned run that is not acknowledged.  Raises ``UsageError`` if there is none."""
    waiting = {
        manifest.run: (ledger_run, manifest) for ledger_run, manifest in ledger.unsent_runs()
    }
    if run not in waiting:
        names = ", ".join(waiting) or "none"
        raise UsageError(f"no run {run} waits for its acknowledgement; waiting runs: {names}")
    return waiting[run]


def refuse_unsent_run(dispatcher: Dispatcher, manifest: Manifest) -> None:
    """Raises ``UsageError`` if the sink does not have a run completely."""
    if not dispatcher.has_run(manifest):
        raise UsageError(f"run {manifest.run} is not sent yet: start publish, which sends it first")


def identify_log(source: SourceSettings) -> TableOrigin:
    """Identifies the table that a source reads, if its rows are acknowledged later.

    Raises ``FatalError`` and ``UnreachableError``.
    """
    if not source.has_status or source.database is None or source.table is None:
        return TableOrigin()
    with Database(source.database) as database:
        relation = relation_of(database, LiveTable(source.table))
        stamp = catalogue_of(database).stamp
        return TableOrigin(identity_of(database, relation, stamp), database.name)


def has_status(entry: SourceEntry) -> bool:
    """Returns whether a source of a run was a table whose rows have a status."""
    return entry.table is not None and FORMATS[entry.format].has_status


def _places_of(sources: Iterable[SourceSettings]) -> list[LogPlace]:
    return [
        LogPlace(source.name, source.database, source.table)
        for source in sources
        if source.has_status and source.database is not None and source.table is not None
    ]


def _end_of(report: RunReport, options: AcknowledgeOptions) -> RunEnd:
    return RunEnd(
        report.is_idle,
        report.notes,
        report.seconds,
        None if report.engine is None else report.engine.name,
        writes_status=options.write_status,
        deletes_rows=options.delete_processed_rows,
        target=report.target,
    )


def _abandonment_note(entry: SourceEntry, error: Exception) -> str:
    return (
        f"{entry.name}: the statuses of this run were abandoned: rows of {entry.table} that are still N "
        f"will be published again when they are read ({error})"
    )


def _notes_on_other_rows(entry: SourceEntry, report: AcknowledgeReport) -> Iterator[str]:
    if report.others:
        yield (
            f"{entry.name}: {report.others:,} record id(s) belong to other rows now than those that were "
            "read (compared by event time and table key): these rows were not changed"
        )
