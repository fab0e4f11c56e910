"""Runs outside a job: replay of snapshots, dispatch to a further sink."""

# ruff: noqa: PLC0415 - the Kafka client is loaded only where it is needed

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.files import FileDispatcher
from publisher.dispatch.kafka.topic_template import SCHEME, KafkaTarget
from publisher.engine.contract import Engine
from publisher.engine.local.engine import ONE_PROCESS, LocalEngine
from publisher.engine.start import start_engine
from publisher.errors import UsageError
from publisher.ledger.conservation import PLANNED, RunReport
from publisher.ledger.job import DOCUMENTS, Ledger
from publisher.ledger.lock import lock_directory, refuse_locked_directory
from publisher.ledger.manifest import Manifest
from publisher.ledger.published_ids import find_origin, find_shared_positions
from publisher.ledger.read import OF_REPLAY, find_run
from publisher.ledger.runs import LedgerRun
from publisher.ledger.source_state import PUBLISHED_OBJECTS
from publisher.ledger.stored_states import StoredStates, doubt_states
from publisher.model.clock import microseconds
from publisher.model.event_ids import IdOrigin
from publisher.planning.filters import PositionRange
from publisher.runs.execute import build_report, plan_and_send, send
from publisher.runs.input_size import size_of_files
from publisher.runs.notes import object_note, with_notes
from publisher.runs.open_engine import open_engine
from publisher.runs.prepare import RunRequest
from publisher.runs.rehearse import plan_only, with_samples
from publisher.sources.files.digest import digest_of_files
from publisher.sources.positions import parse_position

_REPLAYS = "replays"

PositionTexts = tuple[str | None, str | None]
"""First and last position to publish, as users write them."""


@dataclass(frozen=True, slots=True)
class SinkOwner:
    """Owner of the documents, and of the progress, of one run in a sink."""

    job: str
    name: str
    """Name of the progress; it differs between runs of two jobs with the same name."""
    identity: str
    """``Manifest.identity`` of the run."""
    lanes: int

    @classmethod
    def of_replay(cls, settings: Settings, run: str) -> SinkOwner:
        """The owner for a replay."""
        return cls(settings.name, run, run, settings.run.lane_count)

    @classmethod
    def of_ledger(cls, manifest: Manifest) -> SinkOwner:
        """The owner for a planned run that goes to a further sink."""
        identity, run = manifest.identity, manifest.run
        name = run if identity == run else f"{identity}/{run}"
        return cls(manifest.job, name, identity, manifest.lanes)


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
    planned = _prepare(settings, snapshots, window, now)
    settings, run = planned.settings, planned.run
    if target.startswith(SCHEME):
        ledger_run = LedgerRun(settings.ledgers.absolute() / _REPLAYS / run)
        directory = ledger_run.root / DOCUMENTS
    else:
        directory = Path(target).absolute()
        _refuse_inside(directory, snapshots)
        ledger_run = LedgerRun(directory / OF_REPLAY)
        planned = planned.to_files()
    request = planned.request(ledger_run, directory)
    owner = SinkOwner.of_replay(settings, run)
    with open_engine(settings, engine) as started:
        dispatcher = _dispatcher(target, settings, owner, started, progress)
        return _replay_once(request, dispatcher, started, again=again, progress=progress)


def rehearse_replay(
    settings: Settings,
    snapshots: Sequence[Path],
    target: str,
    *,
    window: PositionTexts = (None, None),
    now: datetime | None = None,
    progress: Progress | None = None,
) -> RunReport:
    """Plans a replay like ``rehearse``, and publishes nothing.

    Raises:
        UsageError: The snapshots cannot be used.
        PublisherError: See ``errors``.
    """
    planned = _prepare(settings, snapshots, window, now)
    if not target.startswith(SCHEME):
        planned = planned.to_files()

    def request(ledger_run: LedgerRun, directory: Path) -> RunRequest:
        return _with_objects(
            planned.request(ledger_run, directory), StoredStates("", is_complete=True)
        )

    return plan_only(planned.settings, progress, request)


class _Replay(NamedTuple):
    """A replay without its target."""

    run: str
    settings: Settings
    clock: int
    window: PositionRange | None
    origin: IdOrigin

    def to_files(self) -> _Replay:
        """This replay with one lane, and so one part file, if its input is small and no number is set."""
        run = self.settings.run
        if run.lanes is not None or size_of_files(self.settings.sources) > ONE_PROCESS.bytes:
            return self
        return self._replace(settings=replace(self.settings, run=replace(run, lanes=1)))

    def request(self, ledger_run: LedgerRun, directory: Path) -> RunRequest:
        """Requests the run, for documents in a directory."""
        request = RunRequest(
            self.run, self.settings, self.clock, ledger_run, directory, self.window
        )
        return replace(request, origins={self.settings.sources[0].name: self.origin})


def _prepare(
    settings: Settings,
    snapshots: Sequence[Path],
    window: PositionTexts,
    now: datetime | None,
) -> _Replay:
    """Finds the files of a replay, and the name of its run."""
    settings = settings.for_replay()
    source = settings.sources[0]
    paths = tuple(
        path.absolute() for path in source.reader.files(snapshots)
    )  # executors work elsewhere
    source = replace(source, snapshots=paths, table=None)
    settings = replace(settings, sources=(source,))
    described = map(source.descriptor.description_of, paths)
    inputs = [*paths, *(path for path in described if path is not None)]
    digests = [digest_of_files(inputs), *_digest_of_earlier(source)]
    run = _run_id(settings, digests[0], *window, now, *digests[1:])
    origin = IdOrigin.of(f"replay of {' and '.join(digests)}", source.name)
    return _Replay(run, settings, microseconds(now), _window(source, *window), origin)


def _with_objects(request: RunRequest, objects: StoredStates) -> RunRequest:
    """Lets a replay with minimal modifies know what it publishes itself."""
    return replace(request, objects=objects) if request.settings.documents.minimal else request


def _replay_once(
    request: RunRequest,
    dispatcher: Dispatcher,
    engine: Engine,
    *,
    again: bool,
    progress: Progress | None,
) -> RunReport:
    """Publishes a replay unless the sink has all of its documents."""
    dispatcher.check(request.run)  # before the lock writes into somebody else's directory
    with lock_directory(request.ledger_run.root):
        dispatcher.prepare(request.run)
        limit = dispatcher.document_limit() if request.settings.documents.minimal else None
        objects = StoredStates(dispatcher.target, is_complete=not again, limit=limit)
        request = _with_objects(request, objects)
        if again:
            request.ledger_run.forget()
            dispatcher.forget()
        manifest = request.ledger_run.manifest()
        if manifest is not None and manifest.run != request.run:
            raise UsageError(
                f"{request.directory} has run {manifest.run} planned, and this is run {request.run} "
                "(other input or settings): start the other run again, or name a new directory"
            )
        if manifest is not None and dispatcher.has_run(manifest):
            report = build_report(manifest, request.ledger_run, "already published", dispatcher)
        else:
            report = _plan_and_send(request, dispatcher, engine, progress)
        request.ledger_run.close()
        return report


def _plan_and_send(
    request: RunRequest, dispatcher: Dispatcher, engine: Engine, progress: Progress | None
) -> RunReport:
    """Plans a replay until each of its event ids names one document, then sends it.

    A part of a job's input that is published again has the event ids of the job."""
    source = request.settings.sources[0].name
    own, origins = request.origins[source], [request.origins[source]]
    ledger = Ledger(request.settings.ledger_folder, request.settings.name)
    is_of_job = request.window is not None and ledger.identity() is not None

    def accepts(manifest: Manifest) -> bool:
        origin, of_job = origins[-1], None
        if is_of_job and origin == own:
            of_job = find_origin(ledger, request.ledger_run, manifest, 0)
        if of_job is not None:
            origins.append(of_job)
        elif not origin.by_object and find_shared_positions(request.ledger_run, manifest):
            origins.append(origin._replace(by_object=True))
        return origin == origins[-1]

    while True:
        origin = origins[-1]
        request = replace(request, origins={source: origin}, check_ids=accepts)
        report = plan_and_send(request, dispatcher, engine, progress).report
        if origin == origins[-1]:
            return with_notes(report, [object_note(source)] if origin.by_object else [])


def dispatch(
    directory: Path,
    target: str,
    settings: Settings,
    *,
    again: bool = False,
    progress: Progress | None = None,
) -> RunReport:
    """Sends the documents of a planned run to a further sink.  Starts no Spark for a directory.

    ``settings`` configure the sending to Kafka.

    Raises:
        UsageError: The directory has no complete run, or the target holds other documents.
    """
    with ExitStack() as stack:
        found = find_run(directory)
        if found.handle.ledger is None:  # a replay into this directory may run
            stack.enter_context(lock_directory(found.place))
            found = find_run(directory)
        engine = stack.enter_context(start_engine(settings.run.engine, settings.spark))
        manifest, ledger_run = found.manifest, stack.enter_context(found.unpacked())
        dispatcher = _dispatcher(target, settings, SinkOwner.of_ledger(manifest), engine, progress)
        dispatcher.prepare(manifest.run)
        if again:
            dispatcher.forget()
        elif dispatcher.has_run(manifest):
            return build_report(manifest, ledger_run, "already published", dispatcher)
        return _send_elsewhere(ledger_run, manifest, dispatcher)


def rehearse_dispatch(
    directory: Path, target: str, settings: Settings, *, again: bool = False
) -> RunReport:
    """Reports what ``dispatch`` would send, after its checks, and sends nothing.

    Raises as ``dispatch``."""
    found = find_run(directory)
    refuse_locked_directory(found.place)
    manifest = found.manifest
    with found.unpacked() as ledger_run:
        owner = SinkOwner.of_ledger(manifest)
        dispatcher = _dispatcher(target, settings, owner, LocalEngine(), None)
        dispatcher.check(manifest.run)
        if not again and dispatcher.has_run(manifest):
            return build_report(manifest, ledger_run, "already published", dispatcher)
        if not again:
            dispatcher.refuse_conflicts(manifest)
        report = build_report(manifest, ledger_run, PLANNED, dispatcher)
        return with_samples(report, ledger_run.documents(manifest))


def _send_elsewhere(ledger_run: LedgerRun, manifest: Manifest, dispatcher: Dispatcher) -> RunReport:
    """Sends a planned run to a further sink, which may be the topic of the job after all."""
    if PUBLISHED_OBJECTS not in manifest.states:
        return send(ledger_run, manifest, dispatcher).report
    ledger = Ledger(ledger_run.folder, manifest.job)
    doubt_states(ledger, dispatcher.target)
    try:
        return send(ledger_run, manifest, dispatcher).report
    finally:
        doubt_states(ledger, dispatcher.target)


def _dispatcher(
    target: str,
    settings: Settings,
    owner: SinkOwner,
    engine: Engine,
    progress: Progress | None,
) -> Dispatcher:
    """Sink of one run, from a target of the command line."""
    if not target.startswith(SCHEME):
        return FileDispatcher(Path(target).absolute(), identity=owner.identity)
    from publisher.dispatch.kafka.dispatcher import KafkaDispatcher

    options = settings.kafka.with_target(KafkaTarget.parse(target))
    return KafkaDispatcher(
        options,
        owner.job,
        owner=owner.name,
        lanes=owner.lanes,
        run_lanes=partial(engine.send, progress=progress),
    )


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


def _digest_of_earlier(source: SourceSettings) -> list[str]:
    """Digest of the snapshot to compare with; none if nothing is compared."""
    comparison = source.comparison
    if comparison is None or not comparison.earlier_files:
        return []
    return [digest_of_files(comparison.files(comparison.earlier_files))]


def _run_id(settings: Settings, digest: str, *marks: object) -> str:
    """Digest of the input's identity and of all settings that change meaning."""
    meaning = json.dumps([digest, settings.meaning(), [str(mark) for mark in marks]])
    return hashlib.sha256(meaning.encode()).hexdigest()[:16]
