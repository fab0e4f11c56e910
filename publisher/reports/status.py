"""The status of a job: waiting rows, finished runs, work of the next start.  Writes nothing."""

# ruff: noqa: PLC0415 - the Kafka client is loaded only where it is needed

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from publisher.config.settings import Settings, SourceSettings
from publisher.dispatch.files import refuse_foreign_runs
from publisher.dispatch.refusals import apply_refusals, refusals_in
from publisher.errors import PublisherError, of_system
from publisher.formats.contract import ComparingSource
from publisher.ledger.conservation import RunReport, report_of
from publisher.ledger.job import RUNS, Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.runs.inputs import PendingInput, new_files

T = TypeVar("T")

SEND = "planned: the next start sends its missing documents and acknowledges it"
DISCARD = "not planned completely: the next start discards it, nothing of it was sent"


@dataclass(frozen=True, slots=True)
class StatusProblem:
    """A part of the status that could not be determined, and the exit code of the error."""

    where: str
    message: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class LogStatus:
    """An event log or a change table; ``None`` and empty if the database does not answer."""

    source: str
    table: str
    waiting: int | None = None
    """Number of rows that the next poll would read."""
    oldest: float | None = None
    """Age in seconds of the oldest waiting row."""
    statuses: dict[str, int] = field(default_factory=dict)
    """Number of rows of an event log by status."""


@dataclass(frozen=True, slots=True)
class FilesStatus:
    """A source of files."""

    source: str
    published: int
    """Number of published files, including removed ones."""
    new: int | None
    """Number of files that the next start would read."""
    refused: int = 0
    """Number of files whose records were all rejected; they are read again after a change of settings."""
    compared: bool = False
    """True for a source of compared tables: the numbers count tables with a state and pending tables."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An unfinished run, unless an instance is working on it now."""

    run: str
    planned: bool
    documents: int | None
    next: str
    """Action of the next start."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last planned run.  Times are in ISO 8601; ``done`` is the time of its acknowledgement."""

    run: str
    begun: str
    done: str | None
    read: int
    outcomes: dict[str, int]
    reasons: dict[str, dict[str, int]]
    documents: int
    operations: dict[str, int]
    bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneToken:
    """Number of documents of a lane and run that the sink has."""

    lane: int
    run: str
    documents: int


@dataclass(frozen=True, slots=True)
class RejectsToken:
    """Number of records of a run in the topic of rejected records."""

    run: str
    records: int


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """The progress of the sink.  ``whole`` is the last complete run according to the tokens."""

    target: str
    whole: str | None = None
    tokens: tuple[LaneToken, ...] = ()
    rejects: RejectsToken | None = None
    runs: int | None = None
    """Number of runs in the directory of a file sink."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a job."""

    job: str
    ledger: str
    epoch: int
    """Epoch of the newest instance; 0 before the first."""
    logs: tuple[LogStatus, ...]
    files: tuple[FilesStatus, ...]
    last: LastRun | None
    unfinished: tuple[Unfinished, ...]
    sink: SinkStatus
    problems: tuple[StatusProblem, ...]


class _Attempts:
    """Runs work that may fail, and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[StatusProblem] = []

    def run(self, where: str, work: Callable[[], T], default: T) -> T:
        try:
            return work()
        except PublisherError as error:
            self.problems.append(StatusProblem(where, error.message, error.exit_code))
        except OSError as error:
            self.problems.append(StatusProblem(where, of_system(error).message, 1))
        return default


def status(settings: Settings) -> JobStatus:
    """Determines the status of a job; databases and brokers that do not answer become problems.

    Raises:
        SettingsError: The job file lacks something that publishing needs.
        FatalError: A ledger is damaged.
    """
    settings = settings.for_publish()
    ledger = Ledger(settings.ledger_folder, settings.name)
    ledger.check()
    newest = ledger.newest_run()
    last = None if newest is None else newest.manifest()
    attempts = _Attempts()
    logs = [
        _log(source, ledger, attempts) for source in settings.sources if source.table is not None
    ]
    files = [
        _files(settings, source, ledger, attempts)
        for source in settings.sources
        if source.table is None
    ]
    return JobStatus(
        job=settings.name,
        ledger=str(ledger.root),
        epoch=ledger.epoch,
        logs=tuple(logs),
        files=tuple(files),
        last=None if newest is None or last is None else _last(newest, last),
        unfinished=tuple(_find_unfinished_runs(ledger)),
        sink=_sink(settings, ledger, attempts),
        problems=tuple(attempts.problems),
    )


def _log(source: SourceSettings, ledger: Ledger, attempts: _Attempts) -> LogStatus:
    assert source.table is not None
    assert source.database is not None  # for_publish checks this
    empty = LogStatus(source.name, source.table)
    without_retries = replace(source, database=replace(source.database, retries=0))

    def query() -> LogStatus:
        with closing(without_retries.backlog()) as backlog:
            waiting = backlog.count(ledger.state_of(source.name))
            statuses = backlog.count_by_status()
            return replace(empty, waiting=waiting.rows, oldest=waiting.oldest, statuses=statuses)

    return attempts.run(f"source {source.name}", query, empty)


def _files(
    settings: Settings, source: SourceSettings, ledger: Ledger, attempts: _Attempts
) -> FilesStatus:
    if source.comparison is not None:
        return _tables(settings, source, source.comparison, ledger, attempts)
    known = ledger.published_files()
    entries = known.of(source.name)
    refused = sum(entry.refused is not None for entry in entries)

    def query() -> int | None:
        return len(new_files(settings, source, known))

    new = attempts.run(f"source {source.name}", query, None)
    return FilesStatus(source.name, len(entries) - refused, new, refused)


def _tables(
    settings: Settings,
    source: SourceSettings,
    comparison: ComparingSource,
    ledger: Ledger,
    attempts: _Attempts,
) -> FilesStatus:
    folder = ledger.state_of(source.name)
    empty = FilesStatus(source.name, 0, None, compared=True)

    def query() -> FilesStatus:
        known = comparison.count_known_tables(folder) if folder is not None else 0
        pending = PendingInput(settings, ledger).pending(source)
        assert pending.comparison is not None
        new = pending.comparison.table_names(pending.snapshots)
        return replace(empty, published=known, new=len(new))

    return attempts.run(f"source {source.name}", query, empty)


def _last(ledger_run: LedgerRun, manifest: Manifest) -> LastRun:
    report = _report(ledger_run, manifest)
    done, end = None, ledger_run.acknowledgement
    if ledger_run.sent_at:
        done = datetime.fromtimestamp(ledger_run.sent_at, UTC).isoformat(timespec="seconds")
    return LastRun(
        run=report.run,
        begun=manifest.clock,
        done=done,
        read=report.read,
        outcomes=report.outcomes,
        reasons=report.reasons,
        documents=report.documents,
        operations=report.operations,
        bytes=report.bytes,
        notes=tuple(dict.fromkeys((*report.notes, *(end.notes if end is not None else ())))),
    )


def _report(ledger_run: LedgerRun, manifest: Manifest) -> RunReport:
    report = report_of(manifest, state="", ledger=str(ledger_run.root), target="", seconds={})
    refusals = refusals_in(ledger_run.texts())
    refused = {(refusal.lane, refusal.document): refusal for refusal in refusals}
    return apply_refusals(report, list(refused.values()))


def _find_unfinished_runs(ledger: Ledger) -> Iterator[Unfinished]:
    for _, manifest in ledger.unsent_runs():
        documents = sum(result.documents for result in manifest.results)
        yield Unfinished(manifest.run, True, documents, SEND)
    for run in ledger.incomplete_runs():
        yield Unfinished(run, False, None, DISCARD)


def _sink(settings: Settings, ledger: Ledger, attempts: _Attempts) -> SinkStatus:
    if settings.sink.to == "files":
        assert settings.sink.path is not None  # for_publish checks this
        runs = settings.sink.path / RUNS
        attempts.run("sink", partial(refuse_foreign_runs, runs, ledger), None)
        return SinkStatus(str(settings.sink.path), runs=_runs(runs))
    from publisher.dispatch.kafka.compare_tokens import refuse_foreign_tokens
    from publisher.dispatch.kafka.progress_view import read_progress

    empty = SinkStatus(settings.kafka.target)

    def query() -> SinkStatus:
        progress = read_progress(settings.kafka, settings.name)
        tokens = [LaneToken(lane, token.run, token.sent) for lane, token in progress.lanes.items()]
        whole = None if progress.whole is None else progress.whole.run
        last = progress.rejects
        rejects = None if last is None else RejectsToken(last.run, last.sent)
        return replace(empty, whole=whole, tokens=tuple(tokens), rejects=rejects)

    sink = attempts.run("sink", query, empty)
    if sink is not empty:
        compare = partial(refuse_foreign_tokens, settings.kafka, settings.name, ledger)
        attempts.run("sink", compare, None)
    return sink


def _runs(directory: Path) -> int:
    return sum(path.is_dir() for path in directory.iterdir()) if directory.is_dir() else 0
