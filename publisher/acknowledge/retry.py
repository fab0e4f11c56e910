"""Rows with E and F go back to N, to be published after the cause is mended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from publisher.acknowledge.reasons import Told, told
from publisher.acknowledge.status_letters import E, F, Ids, Refused, lanes_of, marks
from publisher.acknowledge.write_status import log_table, nobody_else
from publisher.database import Database, DatabaseOptions
from publisher.database.statuses import StatusWriter
from publisher.journal.manifest import Journal, Manifest
from publisher.sources.event_log.options import EventLogOptions

FAILED = ("E", "F")
"""Statuses of rows that may be tried again."""


class Run(NamedTuple):
    """A run of the job: its journal, the number of the source in it, what the sink refused."""

    journal: Journal
    manifest: Manifest
    source: int
    refused: Refused


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows: those that fit all that is said.  What is empty says nothing."""

    reasons: frozenset[str] = frozenset()
    """Why they failed.  Superseded records failed for what superseded them."""
    tables: frozenset[str] = frozenset()
    """What they speak of, as ``table`` or ``schema.table``; rejected records may speak of none."""
    ids: frozenset[int] = frozenset()
    """Record ids."""

    @property
    def asks_journals(self) -> bool:
        """Whether journals are needed to find the rows."""
        return bool(self.reasons or self.tables)

    def takes(self, entry: Told) -> bool:
        """Whether a failed record is one of them."""
        names = {entry.table, f"{entry.schema}.{entry.table}"} if entry.table else set()
        return (
            (not self.reasons or entry.reason in self.reasons)
            and (not self.tables or not self.tables.isdisjoint(names))
            and (not self.ids or entry.record_id in self.ids)
        )


@dataclass(frozen=True, slots=True)
class Retried:
    """How many rows are N again, and all reasons why records failed that were looked at."""

    rows: int
    reasons: frozenset[str] = field(default_factory=frozenset)
    others: int = 0
    """Record ids whose rows are no longer those that failed."""


class Failed(NamedTuple):
    """Records that failed: their ids, the fingerprints of their rows, and all reasons that were met."""

    ids: Ids
    fingerprints: Ids
    reasons: frozenset[str]


def selected(runs: Iterable[Run], selection: Selection) -> Failed:
    """The records that failed in the last of the runs, given oldest first, which had them."""
    ids: Ids = np.empty(0, np.int64)
    fingerprints: set[int] = set()
    reasons: set[str] = set()
    for run in runs:
        lanes = lanes_of(run.journal, run.manifest, run.source, run.refused)
        for window in marks(lanes):
            ids = np.setdiff1d(ids, window.ids, assume_unique=True)
        found: set[int] = set()
        for entry in told(lanes, run.refused, E | F):
            reasons.add(entry.reason)
            if entry.record_id is not None and selection.takes(entry):
                found.add(entry.record_id)
                fingerprints.add(entry.fingerprint or 0)
        ids = np.union1d(ids, np.fromiter(found, np.int64, len(found)))
    known = np.array(sorted(fingerprints), np.int64)
    return Failed(ids, known, frozenset(reasons))


def retry(
    database: DatabaseOptions,
    table: str,
    options: EventLogOptions,
    selection: Selection,
    runs: Iterable[Run] = (),
) -> Retried:
    """Gives ``N`` to the rows of an event log that are selected and still have E or F; to all of these
    where nothing is said.

    ``runs`` are those of the job whose journals are there, oldest first.

    Raises:
        FatalError: A journal is damaged, or the database refuses.
        UnreachableError: The database does not answer.
    """
    with Database(database, writing=True) as served:
        writer = StatusWriter(served, log_table(served, table, options), nobody_else)
        if not selection.asks_journals:
            if not selection.ids:
                return Retried(writer.renew_all(FAILED))
            return Retried(writer.renew(np.array(sorted(selection.ids), np.int64), FAILED))
        failed = selected(runs, selection)
        rows = writer.renew(failed.ids, FAILED, failed.fingerprints)
        return Retried(rows, failed.reasons, writer.others)
