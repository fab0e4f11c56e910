"""One run: read, normalise, lanes, plan, journal, dispatch."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from publisher.config.settings import SourceSettings
from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.refusals import joined
from publisher.engine.spark.engine import Engine, Progress
from publisher.engine.tasks import AnySplit, Work
from publisher.errors import FatalError
from publisher.journal.conservation import NOTHING_NEW, RunReport, conserve, report_of
from publisher.journal.fates import SplitFates, fates_of_splits
from publisher.journal.file_entries import FileEntry
from publisher.journal.lane_writer import LaneResult
from publisher.journal.manifest import DOCUMENT_STAGING, Journal, Manifest, SourceEntry
from publisher.runs.acknowledge import LogIdentity, identify_log
from publisher.runs.find_torn_transactions import reject_torn
from publisher.runs.prepare import RunRequest, prepare_work
from publisher.sources.contract import ForgetsFiles, Surveyed
from publisher.sources.files.file_splits import Split


def plan_and_send(
    request: RunRequest, dispatcher: Dispatcher, engine: Engine, progress: Progress | None
) -> RunReport:
    """Plans unless it is planned already, then dispatches.

    The report of a run that is not kept (``RunRequest.is_repetition``) names no journal.
    """
    seconds: dict[str, float] = {}
    manifest = request.journal.manifest()
    if manifest is None:
        manifest = plan(request, engine, seconds, progress)
        if not request.journal.is_committed:
            return report_of(manifest, state=NOTHING_NEW, journal="", target="", seconds=seconds)
    return send(request.journal, manifest, dispatcher, seconds)


def send(
    journal: Journal,
    manifest: Manifest,
    dispatcher: Dispatcher,
    seconds: dict[str, float] | None = None,
) -> RunReport:
    """Sends what the sink does not have yet of a planned run."""
    seconds = {} if seconds is None else seconds
    with _timed(seconds, "dispatch"):
        # without what the sink refuses: it may be asked only now, and adds it
        planned = _planned(manifest, journal, "published", dispatcher, seconds)
        dispatcher.dispatch(journal, manifest, planned)
    return build_report(manifest, journal, "published", dispatcher, seconds)


def build_report(
    manifest: Manifest,
    journal: Journal,
    state: str,
    dispatcher: Dispatcher,
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> RunReport:
    """What is to be said of a run, with what the sink has refused of it."""
    planned = _planned(manifest, journal, state, dispatcher, seconds)
    return joined(planned, dispatcher.refusals(journal))


def _planned(
    manifest: Manifest,
    journal: Journal,
    state: str,
    dispatcher: Dispatcher,
    seconds: Mapping[str, float],
) -> RunReport:
    return report_of(
        manifest,
        state=state,
        journal=str(journal.root),
        target=dispatcher.target,
        seconds=dict(seconds),
    )


def plan(
    request: RunRequest, engine: Engine, seconds: dict[str, float], progress: Progress | None
) -> Manifest:
    """Plans all lanes in one Spark job and commits the journal, unless the run is not kept."""
    begun, starting = time.monotonic(), engine.seconds
    engine.warm_up()
    with ExitStack() as stack:
        read = {source.name: _files_of(source) for source in request.settings.sources}
        request.journal.begin(request.directory)
        work = prepare_work(request, engine, stack)
        logs = {source.name: identify_log(source) for source in request.settings.sources}
        work, results = _planned_lanes(request, work, engine, progress)
    session = engine.seconds - starting
    seconds["session"] = round(session, 3)
    seconds["plan"] = round(time.monotonic() - begun - session, 3)
    with _timed(seconds, "commit"):
        manifest = _manifest(request, work, results, Inputs(read, logs))
        if request.is_repetition is not None and request.is_repetition(manifest):
            return manifest
        if request.check_lease is not None:
            request.check_lease()
        request.journal.commit(manifest)
    return manifest


class Inputs(NamedTuple):
    """What is noted of the sources of a run, by their names: files, and tables that are acknowledged."""

    files: Mapping[str, tuple[FileEntry, ...]]
    logs: Mapping[str, LogIdentity]


def _planned_lanes(
    request: RunRequest, work: Work, engine: Engine, progress: Progress | None
) -> tuple[Work, list[LaneResult]]:
    """Plans all lanes, again as long as a transaction would be published in part.

    Each pass rejects at least one transaction more, so there is a last one."""
    staging, documents = request.journal.staging, request.directory / DOCUMENT_STAGING
    while True:
        results = engine.plan(work, staging=staging, documents=documents, progress=progress)
        again = reject_torn(work, results, staging)
        if again is None:
            return work, results
        request.journal.discard(results, request.directory)
        work = again


def _files_of(source: SourceSettings) -> tuple[FileEntry, ...]:
    return tuple(FileEntry.of(path) for path in source.snapshots)


def _manifest(
    request: RunRequest,
    work: Work,
    results: Sequence[LaneResult],
    inputs: Inputs,
) -> Manifest:
    numbers = iter(range(len(work.splits())))
    splits = [[next(numbers) for _ in source.splits] for source in work.sources]
    entries = tuple(_entries(request, work, inputs, results, splits))
    _drop_states_of_refused(request, work, entries)
    return Manifest(
        run=request.run,
        job=request.settings.name,
        lanes=work.lanes,
        clock=_iso(work.clock),
        settings=json.loads(request.settings.meaning()),
        sources=entries,
        results=tuple(results),
        documents=_relative(request.directory, request.journal.root),
        records_read=conserve(results, splits),
        behind=dict(request.behind),
        job_identity=request.job_identity,
        states=tuple(
            source.name
            for source in work.sources
            if request.journal.new_state(source.name).is_dir()
        ),
    )


def _entries(
    request: RunRequest,
    work: Work,
    inputs: Inputs,
    results: Sequence[LaneResult],
    splits: Sequence[Sequence[int]],
) -> Iterator[SourceEntry]:
    first = 0
    counted = {split: records for result in results for split, records in result.tallies}
    asked = request.state is not None and any(
        source.snapshots and source.compared is None for source in request.settings.sources
    )
    fates = fates_of_splits(results, request.journal.staging, splits) if asked else {}
    for source, read in zip(work.sources, request.settings.sources, strict=True):
        again = [
            counted[first + number]
            for number, split in enumerate(source.splits)
            if request.was_held(source.name, split)
        ]
        yield SourceEntry(
            name=source.name,
            format=source.source.format,
            splits=tuple(asdict(split) for split in source.splits),
            options=_plain(asdict(read.options)),
            reading=_plain(asdict(read.reading)),
            first_split=first,
            table=read.table,
            files=tuple(
                _with_fates(request, read, entry, [fates[n] for n in numbers if n in fates])
                for entry, numbers in _splits_by_file(
                    source.splits, first, _read_files(request, read, inputs.files[source.name])
                )
            ),
            identity=inputs.logs[source.name].identity,
            database=inputs.logs[source.name].database,
            again=sum(again),
            notes=source.source.notes if isinstance(source.source, Surveyed) else (),
        )
        first += len(source.splits)


def _read_files(
    request: RunRequest, source: SourceSettings, before: tuple[FileEntry, ...]
) -> Iterator[FileEntry]:
    """The files as they were before they were read; of a job's with their digests, for its next run
    asks whether they still are.  Raises ``FatalError`` where one has changed."""
    asked = request.state is not None and source.compared is None
    for then, now in zip(before, _files_of(source), strict=True):
        found = now.with_digest() if asked else now
        if not (then.is_unchanged(now) and now.is_unchanged(FileEntry.of(Path(then.path)))):
            raise FatalError(
                f"{then.path} was written to while it was read ({then.bytes:,} bytes before, "
                f"{now.bytes:,} after): write files elsewhere, then move them here"
            )
        yield found


def _splits_by_file(
    splits: Sequence[AnySplit], first: int, files: Iterable[FileEntry]
) -> Iterator[tuple[FileEntry, list[int]]]:
    """Each file with the numbers of its splits."""
    numbers: dict[str, list[int]] = {}
    for number, split in enumerate(splits, first):
        if isinstance(split, Split):
            numbers.setdefault(str(Path(split.path).resolve()), []).append(number)
    for entry in files:
        yield entry, numbers.get(entry.path, [])


def _with_fates(
    request: RunRequest, source: SourceSettings, entry: FileEntry, fates: Sequence[SplitFates]
) -> FileEntry:
    """A file with the result of reading it, for the next run of the job."""
    if request.state is None or source.compared is not None:
        return entry
    refused = any(one.rejected for one in fates) and not any(
        one.used or one.ignored for one in fates
    )
    effect = any(one.rejected or one.used for one in fates)
    digest = request.settings.digest_of(source) if refused else None
    return replace(entry, effect=effect, refused=digest)


def _drop_states_of_refused(
    request: RunRequest, work: Work, entries: Sequence[SourceEntry]
) -> None:
    """Leaves the state of a source as it was where all of its files are to be read again, and forgets
    what refused ones among others have said."""
    for source, entry in zip(work.sources, entries, strict=True):
        refused = {file.path for file in entry.files if file.refused}
        state = request.journal.new_state(entry.name)
        if not refused:
            continue
        if not entry.again and len(refused) == len(entry.files):
            shutil.rmtree(state, ignore_errors=True)
        elif isinstance(source.source, ForgetsFiles):
            splits = [split for split in source.splits if isinstance(split, Split)]
            flags = [str(Path(split.path).resolve()) in refused for split in splits]
            source.source.forget(splits, flags, state)


def _plain(options: dict[str, object]) -> dict[str, object]:
    return dict(json.loads(json.dumps(options, default=str)))


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = round(time.monotonic() - start, 3)


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()


def _relative(path: Path, base: Path) -> str:
    """Relative where both lie together, so that they can be moved."""
    if base.parent == path:
        return ".."
    return path.name if path.parent == base else str(path)
