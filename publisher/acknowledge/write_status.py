"""Acknowledging a run: letters, reasons and post-polling statements for one live event log.

Called again after a crash at any point, it does what is left and changes nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.places import FoundLog, wrong_table
from publisher.acknowledge.reasons import told, torn, unnamed
from publisher.acknowledge.status_letters import (
    Codes,
    LaneLetters,
    Passed,
    Refused,
    lanes_of,
    marks,
    passed,
)
from publisher.database import Database
from publisher.database.identity import Verdict
from publisher.database.reason_table import Entry, ReasonTable
from publisher.database.row_check import RowCheck
from publisher.database.statuses import DELETED, LogTable, StatusWriter
from publisher.database.user_statements import run_statements
from publisher.journal.manifest import Journal, Manifest
from publisher.sources.event_log.fingerprints import FINGERPRINTED, fingerprints_of
from publisher.sources.event_log.options import EventLogOptions, restore_options
from publisher.sources.live.table_reader import LiveTable, column_of, relation_of
from publisher.xds.values import text_of

_DELETED = frozenset({"S", "W"})


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What became of the rows of one source."""

    letters: Mapping[str, int]
    """Record ids by the letter that the journal says: S, W, E, F."""
    changed: Mapping[str, int] = field(default_factory=dict)
    """Rows that this call changed, by letter; D were deleted.  Rows that somebody else had changed,
    or an earlier try, are not among them."""
    unnamed: int = 0
    """Rejected rows that stay N, as their record_id is no integer by which to name them."""
    others: int = 0
    """Record ids whose rows are no longer those that the run has read, and were left alone."""
    reasons: int = 0
    """Rows written to the reason table."""
    passed: Passed = field(default_factory=Passed)
    """How far the run has read the source."""


def nobody_else() -> None:
    """For callers that are alone."""


def acknowledge(
    journal: Journal,
    manifest: Manifest,
    source: int,
    found: FoundLog,
    options: AcknowledgeOptions,
    *,
    refused: Refused | None = None,
    check_lease: Callable[[], None] = nobody_else,
) -> Acknowledged:
    """Tells the rows of a source what became of them, once the sink has committed the run.

    ``source`` is its number in the manifest, ``found`` its table; ``check_lease`` is called before each
    transaction and raises where another instance took over.  Reasons are written before letters.

    Raises ``WrongTableError`` where the rows of the table are others, ``FatalError``, ``UnreachableError``.
    """
    entry = manifest.sources[source]
    refused = refused or {}
    lanes = lanes_of(journal, manifest, source, refused, manifest.behind.get(entry.name, 0))
    with Database(found.place.database, writing=True) as served:
        reasons = 0
        log = log_table(served, found.place.table, restore_options(**entry.options))
        doubt = None
        if found.verdict is Verdict.UNKNOWN:
            doubt = _doubt(lanes, StatusWriter(served, log, check_lease))
        if doubt is not None:
            raise wrong_table(manifest, source, f"in {found.place.table} of {served.name} {doubt}")
        if options.reason_table is not None:
            reason_table = ReasonTable(served, options.reason_table, check_lease)
            reasons = reason_table.write(manifest.run, entry.name, _entries(lanes, refused))
        if options.write_status:
            deleted = _DELETED if options.delete_processed_rows else frozenset()
            done = _written(lanes, StatusWriter(served, log, check_lease, deleted=deleted))
        else:
            done = _counted(lanes)
        if done.letters.get("S"):
            statements = options.post_polling_statements
            run_statements(served, statements, check_lease, "post_polling_statements")
    return replace(done, reasons=reasons, passed=passed(lanes))


def log_table(database: Database, table: str, options: EventLogOptions) -> LogTable:
    """The event log as statements need it.  Raises ``FatalError`` where it does not fit."""
    relation = relation_of(database, LiveTable(table))
    written = options.expected_columns().written
    record_id, *others = (
        column_of(relation, written.get(name, name), database) for name in FINGERPRINTED
    )
    status = column_of(relation, written.get("status", "status"), database)
    check = RowCheck((record_id, *others), fingerprints_of, text_of)
    return LogTable(relation, record_id, status, check)


def passed_of(journal: Journal, manifest: Manifest, source: int) -> Passed:
    """How far a run has read a source; asks no database."""
    behind = manifest.behind.get(manifest.sources[source].name, 0)
    return passed(lanes_of(journal, manifest, source, {}, behind))


_WITNESSES = 1_000
"""Rows of a window that are looked at first."""


def _doubt(lanes: list[LaneLetters], writer: StatusWriter) -> str | None:
    """Say why the table may not be the one that the run has read; ``None`` where its rows prove it."""
    asked = 0
    for window in marks(lanes):
        step = max(1, len(window.ids) // _WITNESSES)
        for ids in (window.ids[::step], window.ids):
            found = writer.witness(ids, window.fingerprints)
            if len(found.others):
                return f"record id {found.others[0]} is another row than the one that was read"
            if found.same:
                return None
        asked += len(window.ids)
    return f"none of the {asked:,} rows that were read is there" if asked else None


def _written(lanes: list[LaneLetters], writer: StatusWriter) -> Acknowledged:
    letters: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for window in marks(lanes):
        letters += _by_letter(window.letters)
        changed += writer.write(window.ids, window.letters, window.fingerprints)
    nameless = list(unnamed(lanes))
    named = [(i, fingerprint) for i, fingerprint in nameless if i is not None]
    ids = np.unique(np.array([i for i, _ in named], np.int64))
    known = np.unique(np.array([fingerprint for _, fingerprint in named], np.int64))
    changed += writer.write(ids, np.full(len(ids), ord("E"), np.uint8), known)
    letters["E"] += len(ids)
    return Acknowledged(+letters, changed, len(nameless) - len(named), writer.others)


def _counted(lanes: list[LaneLetters]) -> Acknowledged:
    letters: Counter[str] = Counter()
    for window in marks(lanes):
        letters += _by_letter(window.letters)
    return Acknowledged(letters)


def _by_letter(letters: Codes) -> Counter[str]:
    counts = np.bincount(letters)
    return Counter({chr(code): int(counts[code]) for code in np.flatnonzero(counts)})


def _entries(lanes: list[LaneLetters], refused: Refused) -> Iterator[Entry]:
    for found in told(lanes, refused):
        yield found.record_id, found.letter, found.reason, found.detail
    for found in torn(lanes):
        yield found.record_id, found.letter, found.reason, found.detail


__all__ = ["DELETED", "Acknowledged", "acknowledge", "log_table", "nobody_else"]
