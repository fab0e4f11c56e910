"""The flow of a run, top to bottom: read, normalise, lanes, plan, journal, dispatch."""

# ruff: noqa: PLC0415 - commands that plan nothing must not load Spark

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.files import FileDispatcher
from publisher.errors import UsageError
from publisher.filters import Window
from publisher.journal.lane import LaneResult
from publisher.journal.lock import locked
from publisher.journal.manifest import (
    DOCUMENT_STAGING,
    Journal,
    Manifest,
    SourceEntry,
)
from publisher.journal.report import RunReport, conserve, report_of
from publisher.journal.runs import JOURNAL, Journals, first_documents, found_journal
from publisher.settings import Settings, SourceSettings
from publisher.sources.event_log_table import EventLogTable
from publisher.sources.identity import digest_of_files
from publisher.sources.registry import reader_of
from publisher.sources.snapshots import files
from publisher.tasks import AnySource, AnySplit, Rules, SourceWork, Work
from publisher.xds.values import text_of

Progress = Callable[[str, float], None]
"""Told the phase and how much of it is done, 0 to 1."""

SPLITS = 8
"""Parts to read at the least, so that all cores have work."""
SAMPLES = 3
"""Documents that a rehearsal shows."""
STATUS_NOTE = (
    "statuses are not written back: rows of the event log stay N, the next publish sends them again"
)
REHEARSAL_NOTE = (
    "nothing was published; not proved: that the sink takes the documents, and that rows looked up "
    "now are the same when it is published"
)


@dataclass(frozen=True, slots=True)
class Order:
    """A run that is to be done.  ``clock`` is its now, in microseconds since 1970-01-01 UTC;
    ``directory`` is where its documents go."""

    run: str
    settings: Settings
    clock: int
    journal: Journal
    directory: Path
    window: Window | None = None


def replay(
    settings: Settings,
    snapshots: Sequence[Path],
    target: str,
    *,
    window_from: str | None = None,
    window_until: str | None = None,
    now: datetime | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> RunReport:
    """Publishes snapshots of an event log to a directory, once.

    Started again with the same input and settings it goes on where it was cut short, and sends
    nothing when it was finished (``again`` does it anew).

    Raises:
        UsageError: The snapshots or the directory cannot be used.
        PublisherError: See ``errors``.
    """
    settings = settings.for_replay()
    paths = tuple(path.absolute() for path in files(snapshots))  # executors work elsewhere
    source = replace(settings.sources[0], snapshots=paths, table=None)
    settings = replace(settings, sources=(source,))
    run = _run_id(settings, paths, window_from, window_until, now)
    directory = Path(target).absolute()
    _refuse_inside(directory, snapshots)
    journal = Journal(directory / JOURNAL)
    window = _window(source, window_from, window_until)
    order = Order(run, settings, _microseconds(now), journal, directory, window)
    return _replayed(order, again=again, progress=progress)


def _replayed(order: Order, *, again: bool, progress: Progress | None) -> RunReport:
    """Does a replay unless its directory has it wholly."""
    dispatcher = FileDispatcher(order.directory)
    dispatcher.check(order.run)  # before the lock writes into somebody else's directory
    with locked(order.journal.root):
        dispatcher.prepare(order.run)
        if again:
            order.journal.forget()
            dispatcher.forget()
        manifest = order.journal.manifest()
        if manifest is not None and manifest.run != order.run:
            raise UsageError(
                f"{order.directory} has run {manifest.run} planned, and this is run {order.run} "
                "(other input or settings): start the other again, or name a new directory"
            )
        if manifest is not None and dispatcher.dispatched(order.run):
            return _report_of(manifest, order.journal, "already published", dispatcher, {})
        return _planned_and_sent(order, dispatcher, progress)


def publish(
    settings: Settings,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
) -> RunReport:
    """Publishes what the sources of a job have, to a new directory ``runs/RUN`` of the sink.

    A run that an earlier start planned but did not send wholly is sent first; one that it did not
    plan wholly is thrown away, nothing was sent from it.

    Raises:
        SettingsError: The job file lacks something that publishing needs.
        PublisherError: See ``errors``.
    """
    settings = settings.for_publish()
    assert settings.sink.path is not None
    runs = settings.sink.path.absolute() / "runs"
    journals = Journals(settings.journal / settings.name, settings.name)
    with locked(journals.root):
        for unplanned in journals.discard_unplanned():
            FileDispatcher(runs / unplanned).discard()
        notes = [_send_rest(journal, manifest, runs) for journal, manifest in journals.unsent()]
        run = journals.next_run()
        directory = runs / run
        dispatcher = FileDispatcher(directory)
        dispatcher.prepare(run)
        order = Order(run, settings, _microseconds(now), journals.journal(run), directory)
        report = _planned_and_sent(order, dispatcher, progress)
        order.journal.mark_sent()
        if any(source.table is not None for source in settings.sources):
            notes.append(STATUS_NOTE)
    return replace(report, notes=tuple(notes))


def rehearse(
    settings: Settings, *, now: datetime | None = None, progress: Progress | None = None
) -> RunReport:
    """Plans what ``publish`` would send, with look-ups, in a directory that is removed afterwards.

    The report has the first documents in ``samples``.
    """
    settings = settings.for_publish()
    with TemporaryDirectory(prefix="xds-publisher-") as name:
        directory = Path(name)
        journal = Journal(directory / JOURNAL)
        journal.root.mkdir()
        run = f"{settings.name}-rehearsal"
        dispatcher = FileDispatcher(directory)
        dispatcher.prepare(run)
        order = Order(run, settings, _microseconds(now), journal, directory)
        report = _planned_and_sent(order, dispatcher, progress)
        samples = tuple(first_documents(directory, SAMPLES))
    return replace(
        report, state="planned", journal="", target="", samples=samples, notes=(REHEARSAL_NOTE,)
    )


def dispatch(directory: Path, target: str, *, again: bool = False) -> RunReport:
    """Sends what a run planned to a further directory.  Starts no Spark.

    Raises:
        UsageError: There is no complete run, or the target holds something else.
    """
    journal = Journal(found_journal(directory).root.absolute())
    dispatcher = FileDispatcher(Path(target).absolute())
    with locked(journal.root):
        manifest = journal.manifest()
        if manifest is None:
            raise UsageError(f"{directory} has no complete run: start it again, then dispatch")
        dispatcher.prepare(manifest.run)
        if again:
            dispatcher.forget()
        elif dispatcher.dispatched(manifest.run):
            return _report_of(manifest, journal, "already published", dispatcher, {})
        return _sent(journal, manifest, dispatcher, {})


def _planned_and_sent(order: Order, dispatcher: Dispatcher, progress: Progress | None) -> RunReport:
    """Plans unless it is planned already, then dispatches."""
    seconds: dict[str, float] = {}
    manifest = order.journal.manifest()
    if manifest is None:
        manifest = _plan(order, seconds, progress)
    return _sent(order.journal, manifest, dispatcher, seconds)


def _sent(
    journal: Journal, manifest: Manifest, dispatcher: Dispatcher, seconds: dict[str, float]
) -> RunReport:
    with _timed(seconds, "dispatch"):
        report = _report_of(manifest, journal, "published", dispatcher, seconds)
        dispatcher.dispatch(journal, manifest, report)
    return replace(report, seconds=seconds)


def _send_rest(journal: Journal, manifest: Manifest, runs: Path) -> str:
    """Sends a run that an earlier start has planned."""
    dispatcher = FileDispatcher(runs / manifest.run)
    dispatcher.prepare(manifest.run)
    if not dispatcher.dispatched(manifest.run):
        _sent(journal, manifest, dispatcher, {})
    journal.mark_sent()
    return f"run {manifest.run}, which an earlier start had planned, was sent first"


def _plan(order: Order, seconds: dict[str, float], progress: Progress | None) -> Manifest:
    """Plans all lanes in one Spark job and commits the journal."""
    from publisher.spark.jvm import start_jvm

    started = time.monotonic()
    jvm = start_jvm(order.settings.spark)  # comes up while pyspark is imported
    from publisher.spark.lanes import plan_in_lanes
    from publisher.spark.session import spark_session
    from publisher.spark.shipping import ship

    with ExitStack() as stack:
        if jvm is not None:
            stack.callback(jvm.stop)
        work = _work(order, stack)
        order.journal.begin(order.directory)
        spark = stack.enter_context(spark_session(order.settings.spark, jvm))
        ship(spark)
        seconds["session"] = round(time.monotonic() - started, 3)
        with _timed(seconds, "plan"):
            results = plan_in_lanes(
                spark,
                work,
                staging=order.journal.staging,
                documents=order.directory / DOCUMENT_STAGING,
                progress=progress,
            )
        with _timed(seconds, "commit"):
            manifest = _manifest(order, work, results)
            order.journal.commit(manifest)
    return manifest


def _work(order: Order, stack: ExitStack) -> Work:
    """What the tasks do; ``stack`` keeps open what they read from until they have ended."""
    settings = order.settings
    return Work(
        sources=tuple(
            SourceWork(
                name=source.name,
                source=reader,
                splits=splits,
                filters=source.filters,
                polls=source.polls,
                identifier_case=source.options.identifier_case,
                window=order.window,
            )
            for source, reader, splits in _opened(settings.sources, stack)
        ),
        rules=Rules(
            documents=settings.documents,
            envelope=settings.envelope,
            values=settings.values,
            tables=settings.tables,
            database=settings.database,
        ),
        lanes=settings.run.lanes,
        clock=order.clock,
    )


def _opened(
    sources: Sequence[SourceSettings], stack: ExitStack
) -> Iterator[tuple[SourceSettings, AnySource, tuple[AnySplit, ...]]]:
    for source in sources:
        if source.table is None:
            reader = reader_of(source.format, source.options, source.reading)
            yield source, reader, tuple(reader.splits(source.snapshots, SPLITS))
        else:
            assert source.database is not None  # for_publish has seen to it
            live = EventLogTable(source.options, source.database, source.table, text_of)
            yield source, live, stack.enter_context(live.opened(SPLITS))


def _manifest(order: Order, work: Work, results: Sequence[LaneResult]) -> Manifest:
    numbers = iter(range(len(work.splits())))
    splits = [[next(numbers) for _ in source.splits] for source in work.sources]
    return Manifest(
        run=order.run,
        job=order.settings.name,
        lanes=work.lanes,
        clock=_iso(work.clock),
        settings=json.loads(order.settings.meaning()),
        sources=tuple(_entries(order.settings, work)),
        results=tuple(results),
        documents=_relative(order.directory, order.journal.root),
        records_read=conserve(results, splits),
    )


def _entries(settings: Settings, work: Work) -> Iterator[SourceEntry]:
    first = 0
    for source, read in zip(work.sources, settings.sources, strict=True):
        yield SourceEntry(
            name=source.name,
            format=source.source.format,
            splits=tuple(asdict(split) for split in source.splits),
            options=_plain(asdict(read.options)),
            reading=_plain(asdict(read.reading)),
            first_split=first,
            table=read.table,
        )
        first += len(source.splits)


def _plain(options: dict[str, object]) -> dict[str, object]:
    return dict(json.loads(json.dumps(options, default=str)))


def _window(source: SourceSettings, first: str | None, last: str | None) -> Window | None:
    if first is None and last is None:
        return None
    reader = reader_of(source.format, source.options, source.reading)
    window = Window(
        None if first is None else reader.parse_position(first),
        None if last is None else reader.parse_position(last),
    )
    if window.first is not None and window.last is not None and window.last < window.first:
        raise UsageError(f"--from {first} lies after --until {last}: exchange them")
    return window


def _refuse_inside(directory: Path, snapshots: Sequence[Path]) -> None:
    for snapshot in snapshots:
        if snapshot.is_dir() and directory.resolve().is_relative_to(snapshot.resolve()):
            raise UsageError(f"{directory} lies in the snapshot {snapshot}: name one outside of it")


def _run_id(settings: Settings, paths: Sequence[Path], *marks: object) -> str:
    """Digest of the input's identity and of all that changes meaning."""
    meaning = json.dumps(
        [digest_of_files(paths), settings.meaning(), [str(mark) for mark in marks]]
    )
    return hashlib.sha256(meaning.encode()).hexdigest()[:16]


def _report_of(
    manifest: Manifest,
    journal: Journal,
    state: str,
    dispatcher: Dispatcher,
    seconds: dict[str, float],
) -> RunReport:
    return report_of(
        manifest,
        state=state,
        journal=str(journal.root),
        target=dispatcher.target,
        seconds=dict(seconds),
    )


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = round(time.monotonic() - start, 3)


def _microseconds(moment: datetime | None) -> int:
    moment = moment or datetime.now(UTC)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()


def _relative(path: Path, base: Path) -> str:
    """Relative where both lie in one directory, so that the directory can be moved."""
    return ".." if base.parent == path else str(path)
