"""Runs outside a job: replay of snapshots, dispatch to a further sink."""

# ruff: noqa: PLC0415 - the Kafka client is loaded only where it is needed

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.database.connection_cache import keep_connections
from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.files import FileDispatcher
from publisher.dispatch.kafka.topic_template import SCHEME, KafkaTarget
from publisher.engine.contract import Engine
from publisher.engine.local import ONE_PROCESS, LocalEngine
from publisher.engine.start import start_engine
from publisher.errors import UsageError
from publisher.formats.files.digest import digest_of_files
from publisher.formats.positions import parse_position
from publisher.ledger import storage
from publisher.ledger.conservation import PLANNED, RunReport
from publisher.ledger.job import DOCUMENTS, Ledger
from publisher.ledger.lock import lock_directory, refuse_locked_directory
from publisher.ledger.published_ids import find_origin, find_shared_positions
from publisher.ledger.read import OF_REPLAY, find_run
from publisher.ledger.runs import LedgerRun
from publisher.ledger.source_state import PUBLISHED_OBJECTS
from publisher.ledger.stored_states import StoredStates, doubt_states
from publisher.model.clock import microseconds
from publisher.model.event_ids import IdOrigin
from publisher.planning.filters import PositionRange
from publisher.runs.input_size import size_of_files
from publisher.runs.lane_sending import LaneSending
from publisher.runs.new_ids import object_note
from publisher.runs.notes import with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.rehearse import plan_only, with_samples
from publisher.runs.run import build_report, commit_and_send, plan, send

_REPLAYS = "replays"

PositionTexts = tuple[str | None, str | None]
"""First and last position to publish, as users write them."""


def replay(
    settings: Settings,
    snapshots: Sequence[Path],
    target: str,
    *,
    window: PositionTexts = (None, None),
    now: datetime | None = None,
    again: bool = False,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> RunReport:
    """Publishes snapshots to a directory or to Kafka, once.

    With the same input and settings an interrupted replay resumes, and a finished one sends nothing;
    ``again`` resends everything.  ``engine`` runs the tasks instead of the engine of the settings.

    Raises:
        UsageError: The snapshots or the target cannot be used.
        PublisherError: See ``errors``.
    """
    request = _request(settings, snapshots, target, window, now)
    run, settings, ledger_run = request.run, request.settings, request.ledger_run
    with (
        keep_connections(),
        engine or start_engine(settings.run.engine, settings.spark) as started,
    ):
        dispatcher = _dispatcher(
            target,
            settings,
            started,
            progress,
            job=settings.name,
            owner=run,
            identity=run,
            lanes=settings.run.lane_count,
        )
        dispatcher.check(run)  # before the lock writes into somebody else's directory
        with lock_directory(ledger_run.root):
            dispatcher.prepare(run)
            if settings.documents.minimal:  # the replay knows what it publishes itself
                limit = dispatcher.document_limit()
                objects = StoredStates(dispatcher.target, is_complete=not again, limit=limit)
                request = replace(request, objects=objects)
            if again:
                ledger_run.forget()
                dispatcher.forget()
            manifest = ledger_run.manifest()
            if manifest is not None and manifest.run != run:
                raise UsageError(
                    f"{request.directory} has run {manifest.run} planned, and this is run {run} "
                    "(other input or settings): start the other run again, or name a new directory"
                )
            if manifest is None:
                report = _plan_and_send(request, dispatcher, started, progress)
            elif dispatcher.has_run(manifest):
                report = build_report(manifest, ledger_run, "already published", dispatcher)
            else:
                ledger_run.remove_staging(manifest)
                report = send(ledger_run, manifest, dispatcher).report
            storage.close(ledger_run.folder)
            return report


def rehearse_replay(
    settings: Settings,
    snapshots: Sequence[Path],
    target: str,
    *,
    window: PositionTexts = (None, None),
    now: datetime | None = None,
    progress: Progress | None = None,
) -> RunReport:
    """Plans a replay after the checks of its input, and publishes nothing."""
    request = _request(settings, snapshots, target, window, now)
    if request.settings.documents.minimal:
        request = replace(request, objects=StoredStates("", is_complete=True))
    return plan_only(
        request.settings,
        progress,
        lambda ledger_run, folder: replace(request, ledger_run=ledger_run, directory=folder),
    )


def _request(
    settings: Settings,
    snapshots: Sequence[Path],
    target: str,
    window: PositionTexts,
    now: datetime | None,
) -> RunRequest:
    """Requests a replay: finds its files, and names its run after them and all settings that matter."""
    settings = settings.for_replay()
    source = settings.sources[0]
    paths = tuple(
        path.absolute() for path in source.reader.files(snapshots)
    )  # executors work elsewhere
    source = replace(source, snapshots=paths)
    described = map(source.descriptor.description_of, paths)
    digests = [digest_of_files([*paths, *(path for path in described if path is not None)])]
    if source.comparison is not None and source.comparison.earlier_files:
        digests.append(digest_of_files(source.comparison.files(source.comparison.earlier_files)))
    marks = [str(mark) for mark in (*window, now, *digests[1:])]
    settings = replace(settings, sources=(source,))
    meaning = json.dumps([digests[0], settings.meaning(), marks])
    run = hashlib.sha256(meaning.encode()).hexdigest()[:16]
    if target.startswith(SCHEME):
        ledger_run = LedgerRun(settings.ledgers.absolute() / _REPLAYS / run)
        directory = ledger_run.root / DOCUMENTS
    else:
        directory = Path(target).absolute()
        _refuse_inside(directory, snapshots)
        ledger_run = LedgerRun(directory / OF_REPLAY)
        if settings.run.lanes is None and size_of_files(settings.sources) <= ONE_PROCESS.bytes:
            settings = replace(settings, run=replace(settings.run, lanes=1))  # one part file
    origin = IdOrigin.of(f"replay of {' and '.join(digests)}", source.name)
    return RunRequest(
        run,
        settings,
        microseconds(now),
        ledger_run,
        directory,
        _window(source, *window),
        origins={source.name: origin},
    )


def _plan_and_send(
    request: RunRequest, dispatcher: Dispatcher, engine: Engine, progress: Progress | None
) -> RunReport:
    """Plans a replay until each of its event ids names one document, then commits and sends it.

    A part of a job's input that is published again has the event ids of the job."""
    source = request.settings.sources[0].name
    ledger = Ledger(request.settings.ledger_folder, request.settings.name)
    may_be_of_job = request.window is not None and ledger.identity() is not None
    while True:
        planned = plan(request, engine, progress)
        origin = request.origins[source]
        of_job = None
        if may_be_of_job:
            of_job = find_origin(ledger, planned.ledger_run, planned.manifest, 0)
            may_be_of_job = False
        if of_job is not None:
            origin = of_job
        elif not origin.by_object and find_shared_positions(planned.ledger_run, planned.manifest):
            origin = origin._replace(by_object=True)
        else:
            break
        request = replace(request, origins={source: origin})
    report = commit_and_send(planned, dispatcher).report
    return with_notes(report, [object_note(source)] if origin.by_object else [])


def dispatch(
    directory: Path,
    target: str,
    settings: Settings,
    *,
    again: bool = False,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> RunReport:
    """Sends the documents of a planned run to a further sink.  Starts no Spark for a directory.

    ``settings`` configure the sending to Kafka.  With ``dry_run`` only reports what would be sent.

    Raises:
        UsageError: The directory has no complete run, or the target holds other documents.
    """
    with ExitStack() as stack:
        found = find_run(directory)
        if dry_run:
            refuse_locked_directory(found.place)
        elif found.handle.ledger is None:  # a replay into this directory may run
            stack.enter_context(lock_directory(found.place))
            found = find_run(directory)
        manifest, ledger_run = found.manifest, found.with_rows()
        started = LocalEngine() if dry_run else start_engine(settings.run.engine, settings.spark)
        engine = stack.enter_context(started)
        identity, run = manifest.identity, manifest.run
        dispatcher = _dispatcher(
            target,
            settings,
            engine,
            progress,
            job=manifest.job,
            owner=run if identity == run else f"{identity}/{run}",
            identity=identity,
            lanes=manifest.lanes,
        )
        if dry_run:
            dispatcher.check(run)
        else:
            dispatcher.prepare(run)
        if not again and dispatcher.has_run(manifest):
            return build_report(manifest, ledger_run, "already published", dispatcher)
        if dry_run:
            if not again:
                dispatcher.refuse_conflicts(manifest)
            report = build_report(manifest, ledger_run, PLANNED, dispatcher)
            return with_samples(report, ledger_run, manifest)
        if again:
            dispatcher.forget()
        if PUBLISHED_OBJECTS in manifest.states:  # the sink may be the topic of the job after all
            ledger = Ledger(ledger_run.folder, manifest.job)
            stack.callback(doubt_states, ledger, dispatcher.target)
            doubt_states(ledger, dispatcher.target)
        return send(ledger_run, manifest, dispatcher).report


def _dispatcher(
    target: str,
    settings: Settings,
    engine: Engine,
    progress: Progress | None,
    *,
    job: str,
    owner: str,
    identity: str,
    lanes: int,
) -> Dispatcher:
    """The sink of one run, from a target of the command line.

    ``owner`` names the progress: it differs between runs of two jobs with the same name."""
    if not target.startswith(SCHEME):
        return FileDispatcher(Path(target).absolute(), identity=identity)
    from publisher.dispatch.kafka.dispatcher import KafkaDispatcher

    options = settings.kafka.with_target(KafkaTarget.parse(target))
    run_lanes = LaneSending(engine, progress)
    return KafkaDispatcher(options, job, owner=owner, lanes=lanes, run_lanes=run_lanes)


def _window(source: SourceSettings, first: str | None, last: str | None) -> PositionRange | None:
    if first is None and last is None:
        return None
    reader = source.reader
    window = PositionRange(
        None if first is None else parse_position(first, reader.parse_position),
        None if last is None else parse_position(last, reader.parse_position),
    )
    if window.first is not None and window.last is not None and window.last < window.first:
        raise UsageError(f"--from {first} lies after --until {last}: swap them")
    return window


def _refuse_inside(directory: Path, snapshots: Sequence[Path]) -> None:
    for snapshot in snapshots:
        if snapshot.is_dir() and directory.resolve().is_relative_to(snapshot.resolve()):
            raise UsageError(f"{directory} lies in the snapshot {snapshot}: name one outside of it")
