"""Acknowledges a run: statuses, reasons and post-polling statements for one live event log.

A call after a crash at any point does the remaining work and changes nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.places import LogPlace
from publisher.acknowledge.reasons import contradiction_reasons, rejected_ids, status_reasons
from publisher.acknowledge.status_letters import (
    LaneLetters,
    ReadProgress,
    RefusedDocuments,
    join_progress,
    lanes_of,
    status_windows,
)
from publisher.console import Phase, Progress
from publisher.database.connection import Database
from publisher.database.reason_table import Entry, ReasonTable
from publisher.database.row_check import RowCheck
from publisher.database.statuses import DELETED, LogTable, StatusWriter
from publisher.database.user_statements import run_post_polling
from publisher.formats.event_log.fingerprints import FINGERPRINTED, fingerprints_of
from publisher.formats.event_log.options import EventLogOptions
from publisher.formats.live.find_table import LiveTable, column_of, relation_of
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.model.arrays import ByteArray
from publisher.model.change import Status
from publisher.model.plain import restore

_DELETED = frozenset({Status.SUCCESS, Status.WARNING})


@dataclass(frozen=True, slots=True)
class AcknowledgeReport:
    """The counts of acknowledging one source."""

    letters: Mapping[str, int]
    """Number of record ids by the status in the ledger: S, W, E, F."""
    changed: Mapping[str, int] = field(default_factory=dict)
    """Number of rows that this call changed, by letter; D counts deleted rows."""
    unnamed: int = 0
    """Number of rejected rows that stay N because their record_id is not an integer."""
    others: int = 0
    """Number of record ids whose rows were replaced after the run read them; these rows stay unchanged."""
    reasons: int = 0
    """Number of rows written to the reason table."""
    progress: ReadProgress = field(default_factory=ReadProgress)


def no_lease() -> None:
    """Checks nothing: the lease of callers that no other instance can replace."""


class WritingHooks(NamedTuple):
    """Functions that are called while statuses are written."""

    check_lease: Callable[[], None] = no_lease
    """See ``StatusWriter``."""
    progress: Progress | None = None


def acknowledge(
    ledger_run: LedgerRun,
    manifest: Manifest,
    source: int,
    log: LogPlace,
    options: AcknowledgeOptions,
    *,
    refused: RefusedDocuments | None = None,
    hooks: WritingHooks = WritingHooks(),  # noqa: B008 - immutable
) -> AcknowledgeReport:
    """Writes the statuses of a source's rows once the sink has committed the run.

    ``source`` is the number of the source in the manifest, ``log`` its table.  Reasons are written before
    statuses.

    Raises:
        FatalError, UnreachableError: The ledger is damaged, or the database refuses or does not answer.
    """
    entry, refused, check_lease = manifest.sources[source], refused or {}, hooks.check_lease
    lanes = letters_of(ledger_run, manifest, source, refused)
    with Database(log.database, writing=True) as served:
        table = log_table(served, log.table, restore(EventLogOptions, entry.options))
        reasons = 0
        if options.reason_table is not None:
            reason_table = ReasonTable(served, options.reason_table, check_lease)
            reasons = reason_table.write(manifest.run, entry.name, _entries(lanes, refused))
        if options.write_status:
            writer = StatusWriter(served, table, check_lease, deleted=deleted_letters(options))
            sums = _write_letters(lanes, writer, hooks.progress)
        else:
            sums = _count_letters(lanes)
        if sums.letters.get(Status.SUCCESS):
            run_post_polling(served, options.post_polling_statements, check_lease)
    return replace(sums, reasons=reasons, progress=join_progress(lanes))


def log_table(database: Database, table: str, options: EventLogOptions) -> LogTable:
    """The table and columns of an event log.  Raises ``FatalError`` if columns are missing."""
    relation = relation_of(database, LiveTable(table))
    written_name = options.expected_columns().written_name
    record_id, *others = (
        column_of(relation, written_name(name), database) for name in FINGERPRINTED
    )
    status = column_of(relation, written_name("status"), database)
    check = RowCheck((record_id, *others), fingerprints_of)
    return LogTable(relation, record_id, status, check)


def letters_of(
    ledger_run: LedgerRun, manifest: Manifest, source: int, refused: RefusedDocuments
) -> list[LaneLetters]:
    """The letters of one source of a run, see ``lanes_of``."""
    behind = manifest.behind.get(manifest.sources[source].name, 0)
    return lanes_of(ledger_run, manifest, source, refused, behind)


def deleted_letters(options: AcknowledgeOptions) -> frozenset[str]:
    """The letters of rows that are deleted instead."""
    return _DELETED if options.delete_processed_rows else frozenset()


def _write_letters(
    lanes: list[LaneLetters], writer: StatusWriter, progress: Progress | None
) -> AcknowledgeReport:
    letters: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    rows = sum(int(np.count_nonzero(lane.bits)) for lane in lanes)
    if progress is not None:
        progress(Phase.ACKNOWLEDGING, 0, rows)
    for window in status_windows(lanes):
        letters += _by_letter(window.letters)
        changed += writer.write(window.ids, window.letters, window.fingerprints)
        if progress is not None:
            progress(Phase.ACKNOWLEDGING, min(rows, letters.total()), rows)
    rejected = list(rejected_ids(lanes))
    usable = [(number, fingerprint) for number, fingerprint in rejected if number is not None]
    ids = np.unique(np.array([number for number, _ in usable], np.int64))
    fingerprints = np.unique(np.array([fingerprint for _, fingerprint in usable], np.int64))
    changed += writer.write(ids, np.full(len(ids), ord(Status.ERROR), np.uint8), fingerprints)
    letters[Status.ERROR] += len(ids)
    return AcknowledgeReport(+letters, changed, len(rejected) - len(usable), writer.others)


def _count_letters(lanes: list[LaneLetters]) -> AcknowledgeReport:
    letters: Counter[str] = Counter()
    for window in status_windows(lanes):
        letters += _by_letter(window.letters)
    return AcknowledgeReport(letters)


def _by_letter(letters: ByteArray) -> Counter[str]:
    counts = np.bincount(letters)
    return Counter({chr(code): int(counts[code]) for code in np.flatnonzero(counts)})


def _entries(lanes: list[LaneLetters], refused: RefusedDocuments) -> Iterator[Entry]:
    for entry in chain(status_reasons(lanes, refused), contradiction_reasons(lanes)):
        yield entry.record_id, entry.status.value, entry.reason, entry.detail


__all__ = ["DELETED", "AcknowledgeReport", "acknowledge", "log_table", "no_lease"]
