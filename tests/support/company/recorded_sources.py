"""Recordings of the story by other systems: files in their formats, with the expected counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from publisher.config.job_file import load
from publisher.config.settings import Settings
from publisher.errors import InternalError
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.dispatch_queue.options import DispatchQueueOptions
from publisher.formats.linkexpress.options import LinkexpressOptions
from tests.support.company.acts import Act
from tests.support.company.change_tables import write_change_tables
from tests.support.company.dispatch_rows import ATTRIBUTES, write_queue
from tests.support.company.extracts import recorded_acts, write_extract
from tests.support.company.story import Counts, Story

RECORDINGS_FOLDER = "recorded"
"""Folder of the files."""


@dataclass(frozen=True, slots=True)
class RecordedSource:
    """One source of the job."""

    name: str
    """Name in the job file."""
    title: str
    """Name for people."""
    counts: Counts
    """Expected numbers of records by outcome and reason."""
    acts: Sequence[Act]
    """The story's transactions as this system records them."""


def write_recordings(job: Path, story: Story) -> list[RecordedSource]:
    """Writes the input files of the job's sources; returns all sources in the order of the job file.

    The event log is in the database already.  Files are built with the options that read them.
    """
    folder = job.parent / RECORDINGS_FOLDER
    folder.mkdir()
    (folder / "dispatch_attrs.csv").write_text(ATTRIBUTES)  # the job file refers to it
    settings = load(job)
    return [
        RecordedSource("company", "event log", story.counts(live=True), story.acts),
        _change_tables(settings, story),
        _queue(settings, story),
        _extract(settings, story),
    ]


def _change_tables(settings: Settings, story: Story) -> RecordedSource:
    name = "change-tables"
    options = _options(settings, name)
    assert isinstance(options, ChangeTableOptions)
    folder = settings.directory / RECORDINGS_FOLDER
    counts = write_change_tables(folder, options, story.acts)
    return RecordedSource(name, "change tables", counts, story.acts)


def _queue(settings: Settings, story: Story) -> RecordedSource:
    name = "queue"
    options = _options(settings, name)
    assert isinstance(options, DispatchQueueOptions)
    path = settings.directory / RECORDINGS_FOLDER / "queue.dat"
    return RecordedSource(name, "dispatch queue", write_queue(path, options, story), story.acts)


def _extract(settings: Settings, story: Story) -> RecordedSource:
    name = "extract"
    options = _options(settings, name)
    assert isinstance(options, LinkexpressOptions)
    path = settings.directory / RECORDINGS_FOLDER / "people.dat"
    acts = recorded_acts(options, story.acts)
    counts = write_extract(path, options, acts, story.unfinished)
    return RecordedSource(name, "Linkexpress", counts, acts)


def _options(settings: Settings, name: str) -> object:
    for source in settings.sources:
        if source.name == name:
            return source.options
    raise InternalError(f"the job file has no source {name}")
