"""Acknowledging a run: letters, reasons and post-polling statements for one live event log.

Called again after a crash at any point, it does what is left and changes nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from publisher.acknowledge.letters import (
    Codes,
    LaneLetters,
    Passed,
    Refused,
    lanes_of,
    marks,
    passed,
)
from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.reasons import told, torn, unnamed
from publisher.database import Database, DatabaseOptions
from publisher.database.own_statements import run_statements
from publisher.database.reason_table import Entry, ReasonTable
from publisher.database.statuses import DELETED, LogTable, StatusWriter
from publisher.errors import InternalError
from publisher.journal.manifest import Journal, Manifest
from publisher.sources.event_log import Options, options_of
from publisher.sources.tables import LiveTable, column_of, relation_of

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
    database: DatabaseOptions,
    options: AcknowledgeOptions,
    *,
    refused: Refused | None = None,
    still_mine: Callable[[], None] = nobody_else,
) -> Acknowledged:
    """Tells the rows of a source what became of them, once the sink has committed the run.

    ``source`` is the number in the manifest of a source that was read from a table of ``database``;
    ``still_mine`` is called before each transaction and raises where another instance took over.
    Reasons are written first, so that whoever sees a letter finds its reason.

    Raises:
        FatalError: The journal is damaged, or the database refuses.
        UnreachableError: The database does not answer.
    """
    entry = manifest.sources[source]
    if entry.table is None:
        raise InternalError(f"source {entry.name} was not read from a table: report this")
    refused = refused or {}
    lanes = lanes_of(journal, manifest, source, refused, manifest.behind.get(entry.name, 0))
    with Database(database, writing=True) as served:
        reasons = 0
        if options.reason_table is not None:
            table = ReasonTable(served, options.reason_table, still_mine)
            reasons = table.write(manifest.run, entry.name, _entries(lanes, refused))
        if options.write_status:
            log = log_table(served, entry.table, options_of(**entry.options))
            deleted = _DELETED if options.delete_processed_rows else frozenset()
            done = _written(lanes, StatusWriter(served, log, still_mine, deleted=deleted))
        else:
            done = _counted(lanes)
        if done.letters.get("S"):
            statements = options.post_polling_statements
            run_statements(served, statements, still_mine, "post_polling_statements")
    return replace(done, reasons=reasons, passed=passed(lanes))


def log_table(database: Database, table: str, options: Options) -> LogTable:
    """The event log as statements need it.  Raises ``FatalError`` where it does not fit."""
    relation = relation_of(database, LiveTable(table))
    written = options.wanted().written
    return LogTable(
        relation,
        column_of(relation, written.get("record_id", "record_id"), database),
        column_of(relation, written.get("status", "status"), database),
    )


def _written(lanes: list[LaneLetters], writer: StatusWriter) -> Acknowledged:
    letters: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for window in marks(lanes):
        letters += _by_letter(window.letters)
        changed += writer.write(window.ids, window.letters)
    nameless = list(unnamed(lanes))
    ids = np.unique(np.array([i for i in nameless if i is not None], np.int64))
    changed += writer.write(ids, np.full(len(ids), ord("E"), np.uint8))
    letters["E"] += len(ids)
    return Acknowledged(+letters, changed, nameless.count(None))


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
