"""Finds the files and tables of a job that are pending: not published yet."""

# ruff: noqa: PLC0415 - sources that are tables have no files to find

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from publisher.config.settings import Settings, SourceSettings
from publisher.errors import UnreachableError
from publisher.ledger.published_files import FileRules, PublishedFiles
from publisher.model.clock import microseconds

if TYPE_CHECKING:
    from publisher.sources.contract import SourceInput

_ADVICE = "mount or create it, or fix the job file"


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
    problems = [problem for source in sources for problem in _missing_inputs(source)]
    if problems:
        raise UnreachableError(f"{'; '.join(problems)}: {_ADVICE}")


def _missing_inputs(source: SourceSettings) -> Iterator[str]:
    """Describes the missing inputs of a source."""
    hints = source.comparison.hint_files if source.comparison is not None else ()
    for path in [*source.snapshots, *map(Path, hints)]:
        try:
            path.stat()
        except OSError as error:
            yield _describe(source, error)


def _describe(source: SourceSettings, error: OSError) -> str:
    path = error.filename or source.name
    if isinstance(error, FileNotFoundError):
        return f"source {source.name}: {path} does not exist"
    return f"source {source.name}: {path} cannot be read ({error.strerror or error})"


def pending_sources(
    settings: Settings,
    published: Callable[[], PublishedFiles],
    state_of: Callable[[str], Path | None],
) -> Iterator[SourceSettings]:
    """Yields the sources of a job with only their pending files and tables, as the next run reads them.

    ``published`` returns the files of earlier runs, ``state_of`` the newest state of a source; both are
    called only for sources that need them.

    Raises:
        PublisherError: See ``new_files``.
    """
    check_inputs(settings.sources)
    for source in settings.sources:
        if source.table is not None:
            yield source
        else:
            state = partial(state_of, source.name)
            with _reachable(source):
                run_input = pending_input(settings, source, published, state)
            yield source.with_input(run_input)


def pending_input(
    settings: Settings,
    source: SourceSettings,
    published: Callable[[], PublishedFiles],
    state: Callable[[], Path | None],
) -> SourceInput:
    """Determines the input of the next run from a source of files or of compared tables.

    Raises:
        PublisherError: See ``new_files``.
    """
    from publisher.sources.contract import PendingContext

    return source.reader.pending(
        PendingContext(
            paths=source.snapshots,
            new_files=lambda: new_files(settings, source, published()),
            state=state,
            clock=microseconds(),
            samples=settings.table_queue,
        )
    )
