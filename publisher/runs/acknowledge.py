"""Acknowledges a run that the sink has: writes the statuses of its live event logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from publisher.acknowledge.options import AcknowledgeOptions
from publisher.acknowledge.places import FoundLog, LogPlace, find_log, named_log
from publisher.acknowledge.status_letters import Refused
from publisher.acknowledge.write_status import Acknowledged, acknowledge, passed_of
from publisher.config.settings import SourceSettings
from publisher.database import Database
from publisher.database.identity import identity_of
from publisher.errors import FatalError, UnreachableError
from publisher.journal.manifest import Journal, Manifest, SourceEntry
from publisher.runs.notes import late_notes
from publisher.sources.live.registry import WITH_STATUS
from publisher.sources.live.table_reader import LiveTable, relation_of


class WrongTable(Enum):
    """Treatment of a table that is not where the job file points to."""

    REFUSE = "refuse"
    BY_ROWS = "by-rows"
    """Write statuses into the table that is there, to rows that are the same."""
    ABANDON = "abandon"
    """Write no statuses, and count the run as done."""


class LogIdentity(NamedTuple):
    """Identity of a table that is acknowledged later, for the manifest; empty for other sources."""

    identity: str | None = None
    database: str | None = None


@dataclass
class RunStatuses:
    """Counts of written statuses by letter, the greatest record id of each source, and notes."""

    changed: Counter[str] = field(default_factory=Counter)
    greatest: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StatusWriting:
    """Writes the statuses of a run, one source after the other."""

    journal: Journal
    manifest: Manifest
    options: AcknowledgeOptions
    refused: Refused
    check_lease: Callable[[], None]
    wrong_table: WrongTable = WrongTable.REFUSE

    def write_all(self, sources: Sequence[SourceSettings]) -> RunStatuses:
        """Writes the statuses of all sources of the run; ``sources`` come from the job file.

        Raises:
            WrongTableError: A table is not where the job file points to.
            FatalError: The journal is damaged, or a database refuses.
            UnreachableError: A database does not answer.
        """
        places = [
            LogPlace(source.name, source.database, source.table)
            for source in sources
            if source.has_status and source.database is not None and source.table is not None
        ]
        statuses = RunStatuses()
        for number, entry in enumerate(self.manifest.sources):
            if has_status(entry):
                self._write_source(number, entry, places, statuses)
        return statuses

    def _write_source(
        self, number: int, entry: SourceEntry, places: Sequence[LogPlace], statuses: RunStatuses
    ) -> None:
        if not self.options.writes:
            passed = passed_of(self.journal, self.manifest, number)
        else:
            try:
                done = self._acknowledge(number, self._find_log(number, places))
            except (FatalError, UnreachableError) as error:
                if self.wrong_table is not WrongTable.ABANDON:
                    raise
                statuses.notes.append(_abandonment_note(entry, error))
                return
            passed = done.passed
            statuses.changed.update(done.changed)
            statuses.notes += _notes_on_other_rows(entry, done)
        statuses.greatest[entry.name] = passed.greatest
        statuses.notes += late_notes(entry.name, self.manifest, passed)

    def _find_log(self, number: int, places: Sequence[LogPlace]) -> FoundLog:
        if self.wrong_table is WrongTable.BY_ROWS:
            return named_log(self.manifest, number, places)
        return find_log(self.manifest, number, places)

    def _acknowledge(self, number: int, log: FoundLog) -> Acknowledged:
        return acknowledge(
            self.journal,
            self.manifest,
            number,
            log,
            self.options,
            refused=self.refused,
            check_lease=self.check_lease,
        )


def identify_log(source: SourceSettings) -> LogIdentity:
    """Identifies the table that a source reads, if its rows are acknowledged later.

    Raises ``FatalError`` and ``UnreachableError``.
    """
    if not source.has_status or source.database is None or source.table is None:
        return LogIdentity()
    with Database(source.database) as database:
        relation = relation_of(database, LiveTable(source.table))
        return LogIdentity(identity_of(database, relation), database.name)


def has_status(entry: SourceEntry) -> bool:
    """Returns whether a source of a run was a table whose rows have a status."""
    return entry.table is not None and entry.format in WITH_STATUS


def _abandonment_note(entry: SourceEntry, error: Exception) -> str:
    return (
        f"{entry.name}: the statuses of this run were abandoned: rows of {entry.table} that are still N "
        f"are published again where they are read ({error})"
    )


def _notes_on_other_rows(entry: SourceEntry, done: Acknowledged) -> Iterator[str]:
    if done.others:
        yield (
            f"{entry.name}: {done.others:,} record id(s) belong to other rows now than those that were read "
            "(by event time and table key): these rows were left as they are"
        )
