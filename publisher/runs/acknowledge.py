"""Acknowledges a run that the sink has: writes the statuses of its live event logs, marks it as done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from publisher.acknowledge.leftovers import leftovers_of
from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.places import LogPlace, WrongTableError, find_log
from publisher.acknowledge.status_letters import (
    RefusedDocuments,
    join_progress,
    refused_documents,
    status_windows,
)
from publisher.acknowledge.write_status import (
    WritingHooks,
    deleted_letters,
    letters_of,
)
from publisher.acknowledge.write_status import acknowledge as acknowledge_rows
from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.identity import TableOrigin, identity_of
from publisher.database.statuses import DELETED
from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.refusals import Refusal
from publisher.errors import FatalError, UnreachableError, UsageError
from publisher.formats.live.find_table import LiveTable, relation_of
from publisher.formats.registry import FORMATS
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest, RunEnd, SourceEntry
from publisher.ledger.runs import LedgerRun
from publisher.ledger.source_state import PUBLISHED_OBJECTS
from publisher.ledger.stored_states import forget_refused
from publisher.runs.keep_unpublished import keep_refused
from publisher.runs.notes import with_notes

STATUS_NOTE = (
    "statuses are not written back: rows of the event log stay N, the next publish sends them again"
)


class WrongTable(Enum):
    """Handling of a run if the job file no longer names the table that the run has read."""

    REFUSE = "refuse"
    ACCEPT = "accept"
    """Write statuses into the table that the job file names now, to rows that are unchanged."""
    ABANDON = "abandon"
    """Write no statuses, and count the run as done."""


class SentRun(NamedTuple):
    """A run that the sink has, except the documents that the sink refuses."""

    ledger_run: LedgerRun
    manifest: Manifest
    report: RunReport
    refusals: Sequence[Refusal] = ()


def acknowledge(
    settings: Settings,
    ledger: Ledger,
    sent: SentRun,
    check_lease: Callable[[], None],
    wrong_table: WrongTable,
    progress: Progress | None = None,
) -> RunReport:
    """Writes the statuses of a sent run, then marks the run as done.

    Raises:
        PublisherError: See ``write_statuses``.
    """
    ledger_run, manifest, report, refusals = sent
    refused = refused_documents(refusals)
    forget_refused(ledger_run, manifest, refused)
    keep_refused(ledger, ledger_run, manifest, refused)
    hooks = WritingHooks(check_lease, progress)
    statuses = write_statuses(settings, ledger_run, manifest, refused, wrong_table, hooks)
    leftovers = {
        entry.name: leftovers_of(ledger_run, manifest, number)
        for number, entry in enumerate(manifest.sources)
        if has_status(entry) and entry.name in live_sources(settings)
    }
    check_lease()
    report = with_notes(report, [*statuses.notes, *_finish_states(ledger, ledger_run, manifest)])
    options = settings.acknowledge
    end = RunEnd(
        report.is_idle,
        report.notes,
        report.seconds,
        None if report.engine is None else report.engine.name,
        writes_status=options.write_status,
        deletes_rows=options.delete_processed_rows,
        target=report.target,
    )
    ledger.finish(ledger_run, manifest, end, greatest=statuses.greatest, leftovers=leftovers)
    if PUBLISHED_OBJECTS in manifest.states:
        ledger.forget_states(PUBLISHED_OBJECTS, manifest.run)
    report = replace(report, statuses=dict(sorted(statuses.changed.items())))
    has_log = any(has_status(entry) for entry in manifest.sources)
    return with_notes(report, [STATUS_NOTE] if has_log and not options.write_status else [])


def _finish_states(ledger: Ledger, ledger_run: LedgerRun, manifest: Manifest) -> list[str]:
    """Lets sources remove data that only replaced states needed; returns the notes of the sources."""
    notes = []
    for entry in manifest.sources:
        state = ledger_run.state(entry.name)
        if state is not None:
            source = FORMATS[entry.format].restore(entry.options, entry.reading)
            replaced = ledger.earlier_states(manifest.run, entry.name)
            notes += source.finish(state, replaced, entry.name)
    return notes


@dataclass
class RunStatuses:
    """Counts of written statuses by letter, the greatest record id of each source, and notes."""

    changed: Counter[str] = field(default_factory=Counter)
    greatest: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def write_statuses(
    settings: Settings,
    ledger_run: LedgerRun,
    manifest: Manifest,
    refused: RefusedDocuments,
    wrong_table: WrongTable,
    hooks: WritingHooks | None,
) -> RunStatuses:
    """Writes the statuses of a run, one source after the other.

    Without ``hooks`` only counts the statuses that would be written if all rows were still N.

    Raises:
        WrongTableError: The job file no longer names a table that the run has read.
        FatalError: The ledger is damaged, or a database refuses.
        UnreachableError: A database does not answer.
    """
    options, statuses = settings.acknowledge, RunStatuses()
    places = {
        source.name: LogPlace(source.name, source.database, source.table)
        for source in settings.sources
        if source.has_status and source.database is not None and source.table is not None
    }
    for number, entry in enumerate(manifest.sources):
        if not has_status(entry):
            continue
        if not options.writes:
            progress = join_progress(letters_of(ledger_run, manifest, number, refused))
        else:
            try:
                log = _find_log(
                    manifest, number, places.get(entry.name), wrong_table, statuses.notes
                )
                if hooks is None:
                    statuses.changed += _count_letters(
                        ledger_run, manifest, number, refused, options
                    )
                    continue
                report = acknowledge_rows(
                    ledger_run, manifest, number, log, options, refused=refused, hooks=hooks
                )
            except (FatalError, UnreachableError) as error:
                if wrong_table is not WrongTable.ABANDON:
                    raise
                statuses.notes.append(
                    f"{entry.name}: the statuses of this run were abandoned: rows of {entry.table} that are "
                    f"still N will be published again when they are read ({error})"
                )
                continue
            progress = report.progress
            statuses.changed.update(report.changed)
            if report.others:
                statuses.notes.append(
                    f"{entry.name}: {report.others:,} record id(s) belong to other rows now than those that "
                    "were read (compared by event time and table key): these rows were not changed"
                )
        statuses.greatest[entry.name] = progress.greatest
        if progress.late:
            statuses.notes.append(
                f"late: {progress.late:,} published record(s) of {entry.name} have a record_id below "
                f"{manifest.behind[entry.name]}, which an earlier run had read: committed late, held or "
                "retried"
            )
    return statuses


def _find_log(
    manifest: Manifest,
    number: int,
    place: LogPlace | None,
    wrong_table: WrongTable,
    notes: list[str],
) -> LogPlace:
    try:
        return find_log(manifest, number, place)
    except WrongTableError:
        if wrong_table is not WrongTable.ACCEPT or place is None:
            raise
    notes.append(
        f"{place.source}: table {place.table} of the job file was accepted as the table that run "
        f"{manifest.run} has read"
    )
    return place


def _count_letters(
    ledger_run: LedgerRun,
    manifest: Manifest,
    number: int,
    refused: RefusedDocuments,
    options: AcknowledgeOptions,
) -> Counter[str]:
    counts = Counter[str]()
    if options.write_status:
        lanes = letters_of(ledger_run, manifest, number, refused)
        for window in status_windows(lanes):
            for letter, count in zip(*np.unique(window.letters, return_counts=True), strict=True):
                is_deleted = chr(letter) in deleted_letters(options)
                counts[DELETED if is_deleted else chr(letter)] += int(count)
    return counts


def live_sources(settings: Settings) -> frozenset[str]:
    """Names of the sources of a job whose rows get a status."""
    if not settings.acknowledge.write_status:
        return frozenset()
    return frozenset(source.name for source in settings.sources if source.has_status)


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
