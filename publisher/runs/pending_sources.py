"""What waits to be published of the sources of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from publisher.config.settings import Settings, SourceSettings
from publisher.errors import UnreachableError
from publisher.journal.published_files import FileRules, PublishedFiles
from publisher.model.clock import microseconds
from publisher.runs.pending_tables import due
from publisher.runs.sample import is_bare
from publisher.sources.change_table.holding import is_over
from publisher.sources.change_table.options import Options as ChangeTableOptions
from publisher.sources.registry import KNOW_REPETITIONS

_ADVICE = "mount or make it, or fix the job file"


def new_files(settings: Settings, source: SourceSettings, published: PublishedFiles) -> list[Path]:
    """The files of a source that no run has published yet, absolute.

    Files of which all records were rejected are among them where the settings have changed since.

    Raises:
        UsageError: One cannot be of the source's format.
        FatalError: One that was published has other content now, or one is a copy of another.
        UnreachableError: A file or directory that the job file names is absent, or went meanwhile.
    """
    with _reachable(source):
        found = source.reader.files(source.snapshots, may_be_none=True)
        copies = "publish" if source.format in KNOW_REPETITIONS else source.copies
        rules = FileRules(copies, settings.digest_of(source), partial(is_bare, settings, source))
        return published.new_of(source.name, [path.absolute() for path in found], rules)


@contextmanager
def _reachable(source: SourceSettings) -> Iterator[None]:
    """Reports inputs that are not there as a source that cannot be reached: they may come back.

    Raises:
        UnreachableError: One is absent, or cannot be listed.
    """
    refuse_absent([source])
    try:
        yield
    except OSError as error:
        raise UnreachableError(f"{_in_words(source, error)}: {_ADVICE}") from error


def refuse_absent(sources: Iterable[SourceSettings]) -> None:
    """Raises ``UnreachableError`` with all inputs that are not there."""
    found = [absent for source in sources for absent in _absent(source)]
    if found:
        raise UnreachableError(f"{'; '.join(found)}: {_ADVICE}")


def _absent(source: SourceSettings) -> Iterator[str]:
    """The inputs that the job file names and that are not there, each in words."""
    samples = source.compared.samples if source.compared is not None else ()
    for path in [*source.snapshots, *map(Path, samples)]:
        try:
            path.stat()
        except OSError as error:
            yield _in_words(source, error)


def _in_words(source: SourceSettings, error: OSError) -> str:
    where = error.filename or source.name
    if isinstance(error, FileNotFoundError):
        return f"source {source.name}: {where} does not exist"
    return f"source {source.name}: {where} cannot be read ({error.strerror or error})"


def due_sources(
    settings: Settings,
    published: Callable[[], PublishedFiles],
    state_of: Callable[[str], Path | None],
) -> Iterator[SourceSettings]:
    """The sources of a job as the next run reads them: those of files with the files that no run has
    published yet.  ``published`` and ``state_of`` say what earlier runs have done and left; asked only
    where a source needs them.

    Raises:
        PublisherError: See ``new_files``.
    """
    refuse_absent(settings.sources)
    for source in settings.sources:
        if source.table is not None:
            yield source
        elif source.compared is not None:
            clock = microseconds()
            with _reachable(source):
                found = due(source, state_of(source.name), settings.table_queue, clock)
            yield found
        else:
            options = source.options
            over = isinstance(options, ChangeTableOptions) and is_over(
                state_of(source.name), options, microseconds()
            )
            files = tuple(new_files(settings, source, published()))
            yield replace(source, snapshots=files, resumes=over)
