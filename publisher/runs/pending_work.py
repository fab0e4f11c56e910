"""Pending work of a job: rows, files and tables of its sources that no run has published yet."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, NamedTuple, Self

from publisher.config.settings import Settings, SourceSettings
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.published_files import PublishedFiles
from publisher.runs.pending_sources import pending_sources

if TYPE_CHECKING:
    from publisher.sources.waiting_rows import TableBacklog


class Backlog(NamedTuple):
    """The pending work: its sources, rows, the age of the oldest in seconds, files."""

    sources: tuple[SourceSettings, ...]
    rows: int
    oldest: float | None
    files: int

    @property
    def is_empty(self) -> bool:
        """Returns whether nothing is pending."""
        return not self.rows and not self.files


class PendingWork:
    """Finds the pending work of a job; keeps its connections and the list of published files."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._stack = ExitStack()
        self._tables: dict[str, TableBacklog] = {}
        self._published: PublishedFiles | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def sources(self) -> tuple[SourceSettings, ...]:
        """Sources of the job, with only the files and tables that are pending.

        Raises:
            PublisherError: See ``new_files``.
        """
        published, state_of = self._published_files, self._ledger.state_of
        return tuple(pending_sources(self._settings, published, state_of))

    def backlog(self, sources: tuple[SourceSettings, ...] | None = None) -> Backlog:
        """Counts the pending work; ``sources`` may pass the result of ``self.sources``.

        Raises:
            FatalError: A table lacks columns of its format.
            UnreachableError: A database does not answer.
        """
        sources = self.sources() if sources is None else sources
        rows, files, ages = 0, 0, []
        for source in sources:
            if source.table is None:
                files += len(source.snapshots) or source.reads
                continue
            state = None if source.has_status else self._ledger.state_of(source.name)
            pending = self._table(source).count(state)
            rows += pending.rows
            if pending.oldest is not None:
                ages.append(pending.oldest)
        return Backlog(sources, rows, max(ages, default=None), files)

    def mark_published(self, manifest: Manifest) -> None:
        """Adds the files of a run to the published files."""
        if self._published is not None:
            self._published = self._published.with_runs([manifest])

    def _table(self, source: SourceSettings) -> TableBacklog:
        if source.name not in self._tables:
            table = self._stack.enter_context(closing(source.backlog()))
            self._tables[source.name] = table
        return self._tables[source.name]

    def _published_files(self) -> PublishedFiles:
        if self._published is None:
            self._published = self._ledger.published_files()
        return self._published
