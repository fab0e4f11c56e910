"""Sets rows with E and F back to N, to be published after the cause is fixed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from publisher.acknowledge.reasons import StatusReason, status_reasons
from publisher.acknowledge.status_letters import RefusedDocuments, lanes_of, status_windows
from publisher.acknowledge.write_status import log_table, no_lease
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.database.statuses import StatusWriter
from publisher.formats.event_log.options import EventLogOptions
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.model.arrays import Int64Array
from publisher.model.change import Status

FAILED = (Status.ERROR, Status.FATAL)
"""Statuses of rows that may be published again."""


class RecordedRun(NamedTuple):
    """A run of the job: its ledger, the number of the source in it, and the refused documents."""

    ledger_run: LedgerRun
    manifest: Manifest
    source: int
    refused: RefusedDocuments


@dataclass(frozen=True, slots=True)
class RetrySelection:
    """The rows to retry: those that match every criterion that is not empty."""

    reasons: frozenset[str] = frozenset()
    """Reasons of the failures; a superseded record has the reason of the record that superseded it."""
    tables: frozenset[str] = frozenset()
    """Tables, as ``table`` or ``schema.table``; rejected records may have none."""
    ids: frozenset[int] = frozenset()
    """Record ids."""

    @property
    def needs_ledgers(self) -> bool:
        """Returns whether the rows can be found only in ledger."""
        return bool(self.reasons or self.tables)

    def matches(self, entry: StatusReason) -> bool:
        """Returns whether a failed record is selected."""
        names = {entry.table, f"{entry.schema}.{entry.table}"} if entry.table else set()
        return (
            (not self.reasons or entry.reason in self.reasons)
            and (not self.tables or not self.tables.isdisjoint(names))
            and (not self.ids or entry.record_id in self.ids)
        )


@dataclass(frozen=True, slots=True)
class RetryReport:
    """Counts of a retry."""

    rows: int
    """Number of rows that are N again."""
    reasons: frozenset[str] = field(default_factory=frozenset)
    """Reasons of all failed records in the ledger."""
    others: int = 0
    """Number of record ids that now belong to other rows than those that failed."""
    corrected: tuple[int, ...] = ()
    """Selected record ids whose rows are not reset, because their corrected records are published."""


class FailedRecords(NamedTuple):
    """The selected failed records, and the reasons of all failed records."""

    ids: Int64Array
    fingerprints: Int64Array | None
    """``None`` for ids that a user has named."""
    reasons: frozenset[str]


def select_failed_records(runs: Iterable[RecordedRun], selection: RetrySelection) -> FailedRecords:
    """Selects records that failed in the last run that read them; ``runs`` begin with the oldest."""
    ids: Int64Array = np.empty(0, np.int64)
    fingerprints: set[int] = set()
    reasons: set[str] = set()
    for run in runs:
        lanes = lanes_of(run.ledger_run, run.manifest, run.source, run.refused)
        for window in status_windows(lanes):
            ids = np.setdiff1d(ids, window.ids, assume_unique=True)
        failed: set[int] = set()
        for entry in status_reasons(lanes, run.refused, FAILED):
            reasons.add(entry.reason)
            if entry.record_id is not None and selection.matches(entry):
                failed.add(entry.record_id)
                fingerprints.add(entry.fingerprint or 0)
        ids = np.union1d(ids, np.fromiter(failed, np.int64, len(failed)))
    sorted_fingerprints = np.array(sorted(fingerprints), np.int64)
    return FailedRecords(ids, sorted_fingerprints, frozenset(reasons))


def retry(
    database: DatabaseOptions,
    table: str,
    options: EventLogOptions,
    selection: RetrySelection,
    runs: Iterable[RecordedRun] = (),
    *,
    corrected: Collection[int] = (),
    dry_run: bool = False,
) -> RetryReport:
    """Sets the selected rows of an event log that still have E or F to N; only counts them if ``dry_run``.

    ``runs`` are the runs of the job whose ledger exist, oldest first.  Rows whose ``corrected``
    records are published keep their status.

    Raises:
        FatalError: A ledger is damaged, or the database refuses.
        UnreachableError: The database does not answer.
    """
    without = np.array(sorted(corrected), np.int64)
    with Database(database, writing=not dry_run) as served:
        writer = StatusWriter(served, log_table(served, table, options), no_lease)
        if not selection.needs_ledgers and not selection.ids:
            return RetryReport(writer.reset_all(FAILED, without), corrected=(*without.tolist(),))
        named = np.array(sorted(selection.ids), np.int64)
        failed = FailedRecords(named, None, frozenset())
        if selection.needs_ledgers:
            failed = select_failed_records(runs, selection)
        kept = np.intersect1d(failed.ids, without)
        rows = writer.reset(np.setdiff1d(failed.ids, kept), FAILED, failed.fingerprints)
        return RetryReport(rows, failed.reasons, writer.others, (*kept.tolist(),))


def read_handled_rows(
    database: DatabaseOptions, table: str, options: EventLogOptions, ids: Collection[int]
) -> dict[int, str]:
    """Reads the statuses of rows of an event log that are neither E nor F now, by their record ids.

    Raises:
        FatalError: The database refuses.
        UnreachableError: The database does not answer.
    """
    with Database(database) as served:
        writer = StatusWriter(served, log_table(served, table, options), no_lease)
        found = writer.read_letters(np.array(sorted(ids), np.int64))
    return {number: min(some) for number, some in found.items() if some.isdisjoint(FAILED)}
