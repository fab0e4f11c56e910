"""Rehearsals: plan a run in a directory that is removed afterwards, and report what it would publish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from publisher.acknowledge.status_letters import refused_documents
from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.database.connection_cache import keep_connections
from publisher.dispatch.files import FileDispatcher
from publisher.engine.start import start_engine
from publisher.ledger.conservation import PLANNED, RunReport, empty_report, report_of
from publisher.ledger.job import Ledger
from publisher.ledger.lane_rows import first_documents
from publisher.ledger.manifest import Manifest
from publisher.ledger.read import OF_REPLAY
from publisher.ledger.runs import LedgerRun
from publisher.model.clock import microseconds
from publisher.runs.acknowledge import (
    WrongTable,
    find_waiting_run,
    refuse_unsent_run,
    write_statuses,
)
from publisher.runs.inputs import PendingInput
from publisher.runs.job_sink import (
    check_sink,
    read_only_dispatcher,
    refuse_foreign_progress,
    stored_objects,
)
from publisher.runs.notes import with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.run import commit_and_send, find_sent, plan

_SAMPLES = 3
"""Number of documents that a rehearsal shows."""
REHEARSAL_NOTE = (
    "nothing was sent; not checked: whether the sink accepts the documents, and whether rows that were "
    "looked up stay the same"
)

STATUSES_NOTE = "nothing was written; rows that are no longer N would keep their status"

Study = Callable[[LedgerRun], Iterable[str]]


def check_takeover(settings: Settings, ledger: Ledger) -> None:
    """Checks what an instance that takes the job over checks.  Writes nothing.

    Raises ``PublisherError`` as ``Job``."""
    ledger.check()
    refuse_foreign_progress(settings, ledger)
    check_sink(settings)


def rehearse(
    settings: Settings,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
    accepts_database: bool = False,
) -> RunReport:
    """Plans the next run of ``publish``, with look-ups, and publishes nothing.

    Published files are not read again.  The report has the first documents in ``samples``.
    For ``accepts_database`` see ``Job``.
    """
    settings = settings.for_publish()
    ledger = Ledger(settings.ledger_folder, settings.name)
    ledger.identity()  # refuses one of another version
    change = partial(replace, accepts_database=accepts_database)
    return rehearse_sources(settings, ledger, None, change, now=now, progress=progress)


def rehearse_sources(
    settings: Settings,
    ledger: Ledger,
    sources: Sequence[SourceSettings] | None,
    change: Callable[[RunRequest], RunRequest],
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
    study: Study | None = None,
) -> RunReport:
    """Plans a run over the input of these sources of the job, or over its pending input; publishes nothing.

    ``change`` turns the request of an ordinary run into that of the command; ``study`` may look at the plan.
    """
    if sources is None:
        sources = PendingInput(settings, ledger).sources()
        if not any(source.reads for source in sources):
            notes = (REHEARSAL_NOTE, *unsent_notes(ledger))
            return replace(empty_report(settings.name), notes=notes)
    settings = replace(settings, sources=tuple(sources))
    number = ledger.last_number() + 1

    def request(ledger_run: LedgerRun, directory: Path) -> RunRequest:
        ordinary = RunRequest(
            f"{settings.name}-rehearsal",
            settings,
            microseconds(now),
            ledger_run,
            directory,
            number=number,
            state=ledger.states_of(source.name for source in settings.sources),
            objects=stored_objects(settings, ledger, number),
        )
        return change(ordinary)

    return with_notes(plan_only(settings, progress, request, study), unsent_notes(ledger))


def rehearse_acknowledgement(settings: Settings, run: str) -> RunReport:
    """Counts the statuses that ``Job.abandon`` would write, after its checks.

    Raises as it does."""
    settings = settings.for_publish()
    ledger = Ledger(settings.ledger_folder, settings.name)
    check_takeover(settings, ledger)
    ledger_run, manifest = find_waiting_run(ledger, run)
    dispatcher = read_only_dispatcher(settings, ledger, run)
    refuse_unsent_run(dispatcher, manifest)
    sent = find_sent(ledger_run, manifest, dispatcher)
    refused = refused_documents(sent.refusals)
    stored = ledger_run.load()
    assert stored is not None
    read = stored.with_rows()
    statuses = write_statuses(settings, read, manifest, refused, WrongTable.ABANDON, None)
    counts = dict(sorted(statuses.changed.items()))
    report = replace(sent.report, state=PLANNED, statuses=counts)
    return with_notes(report, [*statuses.notes, STATUSES_NOTE])


def report_planned_run(manifest: Manifest) -> RunReport:
    """Reports a run that an earlier start planned, and that would be sent now."""
    return report_of(manifest, state=PLANNED, ledger="", target="", seconds={})


def unsent_notes(ledger: Ledger) -> Iterator[str]:
    """Notes about planned runs that the command would send first."""
    for _, manifest in ledger.unsent_runs():
        yield f"run {manifest.run}, which an earlier start had planned, would be sent first"


def plan_only(
    settings: Settings,
    progress: Progress | None,
    request_in: Callable[[LedgerRun, Path], RunRequest],
    study: Study | None = None,
) -> RunReport:
    """Plans a run in a directory that is removed afterwards; ``request_in`` requests the run there.

    ``study`` gets the ledger of the run, and returns notes."""
    with (
        TemporaryDirectory(prefix="xds-publisher-") as name,
        keep_connections(),
        start_engine(settings.run.engine, settings.spark) as engine,
    ):
        directory = Path(name)
        ledger_run = LedgerRun(directory / OF_REPLAY)
        ledger_run.root.mkdir()
        request = request_in(ledger_run, directory)
        dispatcher = FileDispatcher(directory)
        dispatcher.prepare(request.run)
        planned = plan(request, engine, progress)
        sent = commit_and_send(planned, dispatcher)
        notes = study(sent.ledger_run) if study is not None else ()
        return with_notes(with_samples(sent.report, sent.ledger_run, sent.manifest), notes)


def with_samples(report: RunReport, ledger_run: LedgerRun, manifest: Manifest) -> RunReport:
    """Turns the report of a run into that of a rehearsal, with its first documents."""
    samples = tuple(first_documents(ledger_run.lanes(manifest), _SAMPLES))
    notes = (*report.notes, REHEARSAL_NOTE)
    return replace(report, state=PLANNED, ledger="", target="", samples=samples, notes=notes)
