"""The flow of a run, top to bottom: read, normalise, lanes, plan, journal, dispatch."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from publisher.dispatch.files import FileDispatcher
from publisher.errors import UsageError
from publisher.filters import Window
from publisher.journal.lock import locked
from publisher.journal.manifest import DOCUMENT_STAGING, Journal, Manifest, SourceEntry
from publisher.journal.report import RunReport, conserve, report_of
from publisher.settings import Settings, SourceSettings
from publisher.sources.event_log import EventLog
from publisher.sources.identity import digest_of_files
from publisher.sources.snapshots import files
from publisher.tasks import Rules, SourceWork, Work

Progress = Callable[[str, float], None]
"""Told the phase and how much of it is done, 0 to 1."""

JOURNAL = "_journal"
"""Folder of a replay's journal inside its output directory."""
_SPLITS = 8
"""Parts to read at the least, so that all cores have work."""


@dataclass(frozen=True, slots=True)
class Order:
    """A run that is to be done: its identity, its work, where things go."""

    run: str
    settings: Settings
    work: Work
    journal: Journal
    documents: Path


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
    directory = Path(target).absolute()
    paths = files(snapshots)
    run = _run_id(settings, paths, window_from, window_until, now)
    journal = Journal(directory / JOURNAL)
    dispatcher = FileDispatcher(directory)
    dispatcher.prepare(run)
    with locked(journal.root):
        if again:
            dispatcher.forget()
            (journal.root / "manifest.json").unlink(missing_ok=True)
        if dispatcher.dispatched(run):
            return _report(journal, "already published", dispatcher.target, {})
        source = settings.sources[0]
        reader = EventLog(source.options, source.reading)
        window = _window(reader, window_from, window_until)
        work = Work(
            sources=(_source_work(source, reader, paths, window),),
            rules=_rules(settings),
            lanes=settings.run.lanes,
            clock=_microseconds(now or datetime.now(UTC)),
        )
        order = Order(run, settings, work, journal, directory)
        return _run(order, dispatcher, progress)


def _run(order: Order, dispatcher: FileDispatcher, progress: Progress | None) -> RunReport:
    """Plans unless it is planned already, then dispatches."""
    seconds: dict[str, float] = {}
    manifest = order.journal.manifest()
    if manifest is None or manifest.run != order.run:
        manifest = _plan(order, seconds, progress)
    with _timed(seconds, "dispatch"):
        report = _report_of(manifest, order.journal, "published", dispatcher.target, seconds)
        dispatcher.dispatch(order.journal, manifest, report)
    return replace(report, seconds=seconds)


def _plan(order: Order, seconds: dict[str, float], progress: Progress | None) -> Manifest:
    """Plans all lanes in one Spark job and commits the journal."""
    from publisher.spark.lanes import plan_in_lanes
    from publisher.spark.session import open_session

    order.journal.begin(order.documents)
    with _timed(seconds, "session"):
        spark = open_session(order.settings.spark)
    with _timed(seconds, "plan"):
        results = plan_in_lanes(
            spark,
            order.work,
            staging=order.journal.staging,
            documents=order.documents / DOCUMENT_STAGING,
        )
    with _timed(seconds, "commit"):
        numbers = iter(range(len(order.work.splits())))
        splits = [[next(numbers) for _ in source.splits] for source in order.work.sources]
        manifest = Manifest(
            run=order.run,
            job=order.settings.name,
            lanes=order.work.lanes,
            clock=_iso(order.work.clock),
            settings=json.loads(order.settings.meaning()),
            sources=tuple(_entries(order)),
            results=tuple(results),
            documents=_relative(order.documents, order.journal.root),
            records_read=conserve(results, splits),
        )
        order.journal.commit(manifest)
    return manifest


def _entries(order: Order) -> Iterator[SourceEntry]:
    first = 0
    for work, settings in zip(order.work.sources, order.settings.sources, strict=True):
        yield SourceEntry(
            name=work.name,
            format=work.source.format,
            splits=tuple(asdict(split) for split in work.splits),
            options=json.loads(json.dumps(asdict(settings.options), default=str))
            | {"snapshot": json.loads(json.dumps(asdict(settings.reading), default=str))},
            first_split=first,
        )
        first += len(work.splits)


def _source_work(
    settings: SourceSettings, reader: EventLog, paths: Sequence[Path], window: Window | None
) -> SourceWork:
    return SourceWork(
        name=settings.name,
        source=reader,
        splits=tuple(reader.splits(paths, _SPLITS)),
        filters=settings.filters,
        polls=settings.polls,
        identifier_case=settings.options.identifier_case,
        window=window,
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        documents=settings.documents,
        envelope=settings.envelope,
        values=settings.values,
        tables=settings.tables,
        database=settings.database,
    )


def _window(reader: EventLog, first: str | None, last: str | None) -> Window | None:
    if first is None and last is None:
        return None
    return Window(
        None if first is None else reader.parse_position(first),
        None if last is None else reader.parse_position(last),
    )


def _run_id(settings: Settings, paths: Sequence[Path], *marks: object) -> str:
    """Digest of the input's identity and of all that changes meaning."""
    meaning = json.dumps([digest_of_files(paths), settings.meaning(), [str(mark) for mark in marks]])
    return hashlib.sha256(meaning.encode()).hexdigest()[:16]


def _report(journal: Journal, state: str, target: str, seconds: dict[str, float]) -> RunReport:
    manifest = journal.manifest()
    if manifest is None:
        raise UsageError(f"{journal.root} has no complete run: start the replay again")
    return _report_of(manifest, journal, state, target, seconds)


def _report_of(
    manifest: Manifest, journal: Journal, state: str, target: str, seconds: dict[str, float]
) -> RunReport:
    return report_of(
        manifest, state=state, journal=str(journal.root), target=target, seconds=dict(seconds)
    )


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    start = time.monotonic()
    try:
        yield
    finally:
        seconds[phase] = round(time.monotonic() - start, 3)


def _microseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def _iso(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat()


def _relative(path: Path, base: Path) -> str:
    """Relative where both lie in one directory, so that the directory can be moved."""
    return ".." if base.parent == path else str(path)


