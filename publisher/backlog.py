"""What waits to be published of the sources of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from publisher.clock import microseconds
from publisher.comparing import due
from publisher.journal.files import PublishedFiles
from publisher.settings import Settings, SourceSettings


def new_files(source: SourceSettings, published: PublishedFiles) -> list[Path]:
    """The files of a source that no run has published yet, absolute.

    Raises:
        UsageError: One cannot be of the source's format.
        FatalError: One that was published has other content now.
    """
    found = source.reader.files(source.snapshots, may_be_none=True)
    return list(published.new_of(source.name, [path.absolute() for path in found]))


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
    for source in settings.sources:
        if source.table is not None:
            yield source
        elif source.compared is not None:
            clock = microseconds()
            yield due(source, state_of(source.name), settings.table_queue, clock)
        else:
            yield replace(source, snapshots=tuple(new_files(source, published())))
