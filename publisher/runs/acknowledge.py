"""The acknowledgement of a run that the sink has: the statuses of all its live event logs."""

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
    """What to do where the table that a run has read is not where the job file points to."""

    REFUSE = "refuse"
    BY_ROWS = "by-rows"
    """Write statuses into the table that is there, to rows that are the same."""
    ABANDON = "abandon"
    """Write none, and count the run as done."""


class NotedLog(NamedTuple):
    """What a manifest notes of a table that is acknowledged later; of other sources nothing."""

    identity: str | None = None
    database: str | None = None


@dataclass
class RunStatuses:
    """Rows that were changed by letter, the greatest record id of each source, and notes."""

    changed: Counter[str] = field(default_factory=Counter)
    greatest: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Acknowledging:
    """Acknowledges the sources of a run one after the other."""

    journal: Journal
    manifest: Manifest
    options: AcknowledgeOptions
    refused: Refused
    check_lease: Callable[[], None]
    wrong_table: WrongTable = WrongTable.REFUSE

    def run(self, sources: Sequence[SourceSettings]) -> RunStatuses:
        """Write the statuses of all sources of the run; ``sources`` are those of the job file.

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
                self._source(number, entry, places, statuses)
        return statuses

    def _source(
        self, number: int, entry: SourceEntry, places: Sequence[LogPlace], statuses: RunStatuses
    ) -> None:
        if not self.options.writes:
            passed = passed_of(self.journal, self.manifest, number)
        else:
            try:
                done = self._acknowledged(number, self._find(number, places))
            except (FatalError, UnreachableError) as error:
                if self.wrong_table is not WrongTable.ABANDON:
                    raise
                statuses.notes.append(_abandoned(entry, error))
                return
            passed = done.passed
            statuses.changed.update(done.changed)
            statuses.notes += _others(entry, done)
        statuses.greatest[entry.name] = passed.greatest
        statuses.notes += late_notes(entry.name, self.manifest, passed)

    def _find(self, number: int, places: Sequence[LogPlace]) -> FoundLog:
        if self.wrong_table is WrongTable.BY_ROWS:
            return named_log(self.manifest, number, places)
        return find_log(self.manifest, number, places)

    def _acknowledged(self, number: int, found: FoundLog) -> Acknowledged:
        return acknowledge(
            self.journal,
            self.manifest,
            number,
            found,
            self.options,
            refused=self.refused,
            check_lease=self.check_lease,
        )


def note_log(source: SourceSettings) -> NotedLog:
    """Note which table a source reads, where its rows are acknowledged later.

    Raises ``FatalError`` and ``UnreachableError``.
    """
    if not source.has_status or source.database is None or source.table is None:
        return NotedLog()
    with Database(source.database) as database:
        relation = relation_of(database, LiveTable(source.table))
        return NotedLog(identity_of(database, relation), database.name)


def has_status(entry: SourceEntry) -> bool:
    """Tell whether a source of a run was a table whose rows have a status."""
    return entry.table is not None and entry.format in WITH_STATUS


def _abandoned(entry: SourceEntry, error: Exception) -> str:
    return (
        f"{entry.name}: the statuses of this run were abandoned: rows of {entry.table} that are still N "
        f"are published again where they are read ({error})"
    )


def _others(entry: SourceEntry, done: Acknowledged) -> Iterator[str]:
    if done.others:
        yield (
            f"{entry.name}: {done.others:,} record id(s) stand for other rows than those which were read "
            "(by event time and table key): they were left as they are"
        )
