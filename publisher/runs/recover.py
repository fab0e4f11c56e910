"""Recovery: continues a job whose ledger was lost, or is an older copy than its progress in Kafka."""

# ruff: noqa: PLC0415 - the Kafka client is loaded only where it is needed

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from publisher.config.settings import Settings
from publisher.console import Progress
from publisher.dispatch.files import last_marks, refuse_foreign_runs
from publisher.errors import FatalError, UsageError
from publisher.ledger.conservation import RunReport, empty_report
from publisher.ledger.job import RUNS, Ledger
from publisher.ledger.recovery import RECOVERY, read_recovery
from publisher.ledger.runs import LedgerRun
from publisher.runs.job_sink import check_sink, read_only_kafka
from publisher.runs.new_ids import begin_epochs
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.publisher_instance import open_job
from publisher.runs.rehearse import rehearse_sources, report_planned_run


def recover(
    settings: Settings, *, now: datetime | None = None, progress: Progress | None = None
) -> RunReport:
    """Publishes pending records to a sink that may have some of them already.

    Runs that the ledger has planned are planned again.  If the topic has a pending record of an
    object, all documents of the object are sent again with the header ``recovered``; those of other
    objects are sent exactly once.  A directory does not show its records, and gets all pending ones again.
    Event ids are those of the lost ledger; later runs have the next epoch, because positions that only
    the lost ledger knew may come again.  An interrupted recovery resumes.

    Raises:
        UsageError: The progress of the sink fits the ledger.
        FatalError: The topic has lost records, so it does not show which records were published.
        PublisherError: See ``errors``.
    """
    settings, ledger, lost = _check(settings)
    if lost.identity is not None:
        ledger.adopt_identity(lost.identity)
        ledger.epochs().adopt(lost.epochs)
    with open_job(settings, progress, recovers=True) as job:
        ledger.begin_recovery()
        ledger.skip_to(lost.last)
        _forget_plans(ledger)
        finished = job.finish()
        report = finished[-1] if finished else job.run_once(now)
        if report is None or not report.has_ledger:
            job.sink.claim_tokens()
        names = {*(source.name for source in settings.sources), *lost.epochs}
        begin_epochs(ledger, sorted(names))
        ledger.end_recovery()
        job.expire()
    report = report or empty_report(settings.name)
    return with_notes(
        report,
        [
            *notes_of(finished),
            *(_notes(ledger.run(report.run), "were") if report.has_ledger else []),
        ],
    )


def rehearse_recovery(
    settings: Settings, *, now: datetime | None = None, progress: Progress | None = None
) -> RunReport:
    """Plans a recovery after the checks of ``recover``, and publishes nothing.

    Raises as ``recover``."""
    settings, ledger, _ = _check(settings)
    check_sink(settings, recovers=True)
    planned = [
        manifest for ledger_run, manifest in ledger.unsent_runs() if _is_of_recovery(ledger_run)
    ]
    if planned:
        note = f"an interrupted recovery has planned run {planned[-1].run}, which would be sent"
        return with_notes(report_planned_run(planned[-1]), [note])

    def study(ledger_run: LedgerRun) -> list[str]:
        manifest = ledger_run.manifest()
        if manifest is not None and settings.sink.to == "kafka":
            read_only_kafka(settings, recovers=True).mark_recovered(ledger_run, manifest)
        return _notes(ledger_run, "would be")

    unplanned = ledger.without_unsent_runs()
    return rehearse_sources(
        settings, unplanned, None, _forget_objects, now=now, progress=progress, study=study
    )


def _forget_objects(request: RunRequest) -> RunRequest:
    return replace(request, objects=request.objects and request.objects.forget())


class LostLedger(NamedTuple):
    """The facts that a sink shows of a lost ledger."""

    last: int
    """The greatest number of a run."""
    identity: str | None
    """``None`` if the sink shows no run, or only those of another version of the program."""
    epochs: dict[str, int]


def _check(settings: Settings) -> tuple[Settings, Ledger, LostLedger]:
    """Checks that there is something to recover; returns the facts about the lost ledger, too.

    Raises as ``recover``."""
    settings = settings.for_publish()
    ledger = Ledger(settings.ledger_folder, settings.name)
    find = _lost_ledger_of_topic if settings.sink.to == "kafka" else _lost_ledger_of_files
    return settings, ledger, find(settings, ledger)


def _is_of_recovery(ledger_run: LedgerRun) -> bool:
    return RECOVERY in ledger_run.texts()


def _lost_ledger_of_files(settings: Settings, ledger: Ledger) -> LostLedger:
    assert settings.sink.path is not None  # for_publish checks it
    runs = settings.sink.path.absolute() / RUNS
    if not ledger.is_recovering:
        with suppress(FatalError):
            refuse_foreign_runs(runs, ledger)
            raise _nothing_to_recover(settings, str(settings.sink.path), ledger)
    last, mark = last_marks(runs, ledger)
    if mark is None:
        return LostLedger(last, None, {})
    return LostLedger(last, mark.identity, mark.epochs)


def _nothing_to_recover(settings: Settings, sink: str, ledger: Ledger) -> UsageError:
    return UsageError(
        f"the progress of job {settings.name} in {sink} fits the ledger in {ledger.root}: there is "
        "nothing to recover; run `xds-publisher publish`"
    )


def _lost_ledger_of_topic(settings: Settings, ledger: Ledger) -> LostLedger:
    from publisher.dispatch.kafka.compare_tokens import find_problem, read_all_tokens

    tokens = read_all_tokens(settings.kafka, settings.name, wait=False).values()
    if find_problem(tokens, ledger) is None and not ledger.is_recovering:
        raise _nothing_to_recover(settings, settings.kafka.target, ledger)
    newest, last = None, 0
    for token in tokens:
        if (number := ledger.number_of(token.run) or 0) >= last:
            newest, last = token, number
    if newest is None or not newest.identity:
        return LostLedger(last, None, {})
    return LostLedger(last, newest.identity, dict(newest.epochs))


def _forget_plans(ledger: Ledger) -> None:
    """Discards plans of runs that were not sent completely, as the topic may have any part of them.

    Plans of a recovery remain."""
    for ledger_run, _ in ledger.unsent_runs():
        if not _is_of_recovery(ledger_run):
            ledger_run.forget()


def _notes(ledger_run: LedgerRun, were: str) -> list[str]:
    manifest = ledger_run.manifest()
    recovered = None if manifest is None else read_recovery(ledger_run, manifest)
    if recovered is None:
        return []
    text = (
        f"recovered: {recovered.count():,} document(s) of objects that the topic may have already {were} "
        "sent with the header recovered, the others exactly once"
    )
    return [text]
