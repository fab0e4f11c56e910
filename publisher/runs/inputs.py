"""The input of a job: the sources that a command works on, and the rows, files and tables of them that are
pending, because no run has published them yet."""

# ruff: noqa: PLC0415 - sources that are tables have no files to find

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from publisher.config.settings import Settings, SourceSettings
from publisher.errors import UnreachableError, UsageError
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.published_files import FileRules, PublishedFiles
from publisher.model.clock import microseconds

if TYPE_CHECKING:
    from publisher.formats.waiting_rows import TableBacklog

_ADVICE = "mount or create it, or fix the job file"


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


class PendingInput:
    """Finds the pending input of a job; keeps its connections and the list of published files."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        self._connections = ExitStack()
        self._tables: dict[str, TableBacklog] = {}

    def close(self) -> None:
        """Closes the connections."""
        self._connections.close()

    def sources(self) -> tuple[SourceSettings, ...]:
        """The sources of the job with only their pending files and tables, as the next run reads them.

        Raises:
            PublisherError: See ``new_files``.
        """
        check_inputs(self._settings.sources)
        return tuple(
            source if source.table is not None else self.pending(source)
            for source in self._settings.sources
        )

    def pending(self, source: SourceSettings) -> SourceSettings:
        """A source of files or of compared tables with only its pending input.

        Raises:
            PublisherError: See ``new_files``.
        """
        from publisher.formats.contract import PendingContext

        with _reachable(source):
            context = PendingContext(
                paths=source.snapshots,
                new_files=lambda: new_files(self._settings, source, self._published),
                state=partial(self._ledger.state_of, source.name),
                clock=microseconds(),
                samples=self._settings.table_queue,
            )
            return source.with_input(source.reader.pending(context))

    def backlog(self) -> Backlog:
        """Counts the pending work.

        Raises:
            FatalError: A table lacks columns of its format.
            UnreachableError: A database does not answer.
        """
        sources = self.sources()
        rows, files, ages = 0, 0, []
        for source in sources:
            if source.table is None:
                files += len(source.snapshots) or source.reads
                continue
            if source.name not in self._tables:
                table = self._connections.enter_context(closing(source.backlog()))
                self._tables[source.name] = table
            state = None if source.has_status else self._ledger.state_of(source.name)
            waiting = self._tables[source.name].count(state)
            rows += waiting.rows
            if waiting.oldest is not None:
                ages.append(waiting.oldest)
        return Backlog(sources, rows, max(ages, default=None), files)

    def mark_published(self, manifest: Manifest) -> None:
        """Adds the files of a run to the published files."""
        if "_published" in vars(self):
            self._published = self._published.with_runs([manifest])

    @cached_property
    def _published(self) -> PublishedFiles:
        return self._ledger.published_files()


def new_files(settings: Settings, source: SourceSettings, published: PublishedFiles) -> list[Path]:
    """Finds the files of a source that no run has published yet, as absolute paths.

    Files of which all records were rejected count as new once the settings have changed.

    Raises:
        UsageError: A file cannot be of the source's format.
        FatalError: A published file has other content now, or a file is a copy of another.
        UnreachableError: A file or directory that the job file names is missing.
    """
    from publisher.runs.sample import has_no_records

    with _reachable(source):
        files = source.reader.files(source.snapshots, may_be_none=True)
        copies = "publish" if source.descriptor.knows_repetitions else source.copies
        rules = FileRules(
            copies,
            settings.digest_of(source),
            bool(source.reader.transaction_columns),
            partial(has_no_records, settings, source),
        )
        return published.new_of(source.name, [path.absolute() for path in files], rules)


@contextmanager
def _reachable(source: SourceSettings) -> Iterator[None]:
    """Reports missing inputs as an unreachable source, because they may come back.

    Raises:
        UnreachableError: An input is missing, or cannot be listed.
    """
    check_inputs([source])
    try:
        yield
    except OSError as error:
        raise UnreachableError(f"{_describe(source, error)}: {_ADVICE}") from error


def check_inputs(sources: Iterable[SourceSettings]) -> None:
    """Raises ``UnreachableError`` with all missing inputs, if inputs are missing."""
    problems = []
    for source in sources:
        hints = source.comparison.hint_files if source.comparison is not None else ()
        for path in [*source.snapshots, *map(Path, hints)]:
            try:
                path.stat()
            except OSError as error:
                problems.append(_describe(source, error))
    if problems:
        raise UnreachableError(f"{'; '.join(problems)}: {_ADVICE}")


def _describe(source: SourceSettings, error: OSError) -> str:
    path = error.filename or source.name
    if isinstance(error, FileNotFoundError):
        return f"source {source.name}: {path} does not exist"
    return f"source {source.name}: {path} cannot be read ({error.strerror or error})"


def choose_sources(
    settings: Settings, suitable: Sequence[SourceSettings], name: str | None, kind: str
) -> list[SourceSettings]:
    """Chooses the source ``name`` among those that the command can work on, or all of them.

    Raises ``UsageError`` if there is none; ``kind`` says what makes a source suitable.
    """
    if not suitable:
        raise UsageError(
            f"none of the sources of job {settings.name} {kind}: give a job file with such a source"
        )
    chosen = [source for source in suitable if name in (None, source.name)]
    if not chosen:
        names = ", ".join(source.name for source in suitable)
        raise UsageError(
            f"job {settings.name} has no source {name} that {kind}; known sources: {names}"
        )
    return chosen
