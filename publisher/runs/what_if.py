"""Plans the input of a run again with other settings; publishes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from publisher.config.journalled_settings import change_settings, restore_settings
from publisher.config.settings import Settings
from publisher.console import Progress
from publisher.engine.contract import EngineName
from publisher.engine.recorded_database import (
    RecordedDatabase,
    write_lookups,
)
from publisher.errors import UsageError
from publisher.journal.file_entries import FileEntry
from publisher.journal.find_journal import find_job, open_journal
from publisher.journal.job_journals import JOURNAL, Journals
from publisher.journal.manifest import Journal, Manifest, SourceEntry
from publisher.journal.source_state import StateArchive, number_of
from publisher.model.clock import microseconds
from publisher.planning.filters import Window
from publisher.runs.acknowledge import has_status
from publisher.runs.build_manifest import description_entries
from publisher.runs.execute import plan
from publisher.runs.open_engine import open_engine
from publisher.runs.prepare import RunRequest
from publisher.runs.reread_rows import check_rows, find_table, read_again
from publisher.sources.registry import FORMATS


@contextmanager
def plan_again(
    directory: Path,
    assignments: Sequence[str],
    engine: EngineName = "auto",
    progress: Progress | None = None,
    job: Settings | None = None,
) -> Iterator[Path]:
    """Plans a run again with changed settings; yields its temporary journal.

    ``directory`` is the journal of a run, or a directory that ``replay`` wrote; for ``assignments`` see
    ``change_settings``.  ``job`` has the databases of live tables.  Nothing is published, and no status is
    written.

    Raises:
        UsageError: The run cannot be planned again; the message names what is missing.
        SettingsError: An assignment is wrong.
        PublisherError: See ``errors``.
    """
    if find_job(directory) is not None:
        raise UsageError(f"{directory} has all runs of a job: give the directory of one run")
    with ExitStack() as stack:
        journal = stack.enter_context(open_journal(directory))
        manifest = journal.manifest()
        if manifest is None:
            raise UsageError(f"{directory} has no complete run: start it again, then compare")
        before = restore_settings(manifest, engine)
        settings = change_settings(before, assignments)
        missing = list(_missing_inputs(journal, manifest, job))
        if settings.documents.minimal:
            missing.append("the published states of its objects before it are not kept")
        if missing:
            raise UsageError(f"run {manifest.run} cannot be planned again: {'; '.join(missing)}")
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="xds-publisher-")))
        settings = _with_rows(settings, job, journal, manifest, folder)
        request = _request(journal, manifest, before, settings, folder)
        with open_engine(settings) as started:
            plan(request, started, progress)
        check_rows(journal, request.journal)
        yield folder


def _with_rows(
    settings: Settings, job: Settings | None, journal: Journal, manifest: Manifest, folder: Path
) -> Settings:
    """Limits live tables to the rows that the run read."""
    sources = list(settings.sources)
    for number, entry in enumerate(manifest.sources):
        live = find_table(job, entry)
        if entry.table is not None and live is not None:
            file = folder / f"ids-{number}.npy"
            sources[number] = read_again(sources[number], live, journal, number, file)
    return replace(settings, sources=tuple(sources))


def _request(
    journal: Journal, manifest: Manifest, before: Settings, settings: Settings, folder: Path
) -> RunRequest:
    """Requests the run, which had the settings ``before``, again in another folder."""
    planned = Journal(folder / JOURNAL)
    planned.root.mkdir()
    return RunRequest(
        run=manifest.run,
        settings=settings,
        clock=microseconds(datetime.fromisoformat(manifest.clock)),
        journal=planned,
        directory=folder,
        window=None if manifest.window is None else Window(*manifest.window),
        state=_states_before(journal, manifest),
        number=_number(journal, manifest),
        job_identity=manifest.job_identity,
        origins={source.name: source.origin for source in manifest.sources},
        recorded=_recorded_database(journal, manifest, before, folder / "lookups.sqlite"),
    )


def _recorded_database(
    journal: Journal, manifest: Manifest, before: Settings, file: Path
) -> RecordedDatabase | None:
    """The answers that the database gave to the run, which had the settings ``before``."""
    if manifest.catalogue is None:
        return None
    write_lookups(journal.root, manifest.results, file)
    sizes = tuple(None if each.polls is None else each.polls.poll_size for each in before.sources)
    return RecordedDatabase(manifest.catalogue, file, sizes)


def _missing_inputs(journal: Journal, manifest: Manifest, job: Settings | None) -> Iterator[str]:
    """Names everything that planning again needs and that is not there."""
    for entry in manifest.sources:
        if entry.table is not None and not has_status(entry):
            yield f"the rows of table {entry.table} (source {entry.name}) are not journalled"
        elif entry.table is not None and find_table(job, entry) is None:
            yield f"the database of table {entry.table} is not known; name the job file with -c"
        elif entry.table is None and entry.splits and not entry.files:
            yield f"the tables of source {entry.name} are not journalled"
        if FORMATS[entry.format].compares and (manifest.job_identity or entry.options["before"]):
            yield f"the earlier state of the tables of source {entry.name} is not kept"
        yield from _changed_files(entry)
    if manifest.settings.get("database") is not None and manifest.catalogue is None:
        yield "the tables that its database described are not in its journal"
    for entry in manifest.sources:
        if manifest.job_identity is None or has_status(entry):
            continue
        if _state_before(journal, manifest, entry) is None:
            yield f"the state of source {entry.name} before the run is deleted"


def _changed_files(entry: SourceEntry) -> Iterator[str]:
    described = [each.path for each in entry.descriptions]
    for new in description_entries(entry.format, (Path(file.path) for file in entry.files)):
        if new.path not in described:
            yield f"{new.path} was not there when the run read the file that it describes"
    for file in (*entry.files, *entry.descriptions):
        try:
            now = FileEntry.of(Path(file.path))
        except OSError as error:
            yield f"{file.path} cannot be read ({error.strerror or error})"
            continue
        is_same = file.has_content_of(now) if file.digest else file.is_unchanged(now)
        if not is_same:
            yield f"{file.path} has changed since the run read it"


def _journals(journal: Journal, manifest: Manifest) -> Journals:
    return Journals(journal.place.absolute().parent, manifest.job)


def _number(journal: Journal, manifest: Manifest) -> int:
    """Number of the run in its job; 1 for a replay."""
    if manifest.job_identity is None:
        return 1
    return _journals(journal, manifest).number_of(manifest.run) or 1


class _StateBefore(NamedTuple):
    """The state of a source before a run; ``None`` if it had none."""

    folder: Path | None


def _state_before(journal: Journal, manifest: Manifest, entry: SourceEntry) -> _StateBefore | None:
    """Finds the state of a source before a run; ``None`` if it may be deleted."""
    journals, number = _journals(journal, manifest), _number(journal, manifest)
    archived = StateArchive(journals.root).newest(entry.name)
    known = {number_of(archived): archived} if archived is not None else {}
    present = [each for each in journals.numbers() if each < number]
    for each in present:
        state = journals.journal(journals.run_id(each)).state(entry.name)
        if state is not None:
            known[each] = state
    newest = max((each for each in known if each < number), default=0)
    if not set(range(newest + 1, number)) <= set(present):
        return None
    return _StateBefore(known.get(newest))


def _states_before(journal: Journal, manifest: Manifest) -> dict[str, Path] | None:
    """The states of the sources before the run; ``None`` for a replay."""
    if manifest.job_identity is None:
        return None
    states = {
        entry.name: before.folder
        for entry in manifest.sources
        if not has_status(entry) and (before := _state_before(journal, manifest, entry)) is not None
    }
    return {name: folder for name, folder in states.items() if folder is not None}
