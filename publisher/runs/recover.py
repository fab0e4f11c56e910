"""Recovery: continues a job whose ledger was lost, or is an older copy than its progress in Kafka."""

# ruff: noqa: PLC0415 - the Kafka client is loaded only where it is needed

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from publisher.config.settings import Settings
from publisher.console import Progress
from publisher.dispatch.files import last_marks, refuse_foreign_runs
from publisher.errors import FatalError, UsageError
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.recovery import RECOVERY, read_recovery
from publisher.ledger.runs import LedgerRun
from publisher.runs.job import open_job
from publisher.runs.job_sink import check_sink, read_only_kafka, runs_folder, sink_name
from publisher.runs.new_ids import begin_epochs
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.rehearse import rehearse_sources, report_planned_run


def recover(
    settings: Settings,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> RunReport:
    """Publishes pending records to a sink that may have some of them already.

    Runs that the ledger has planned are planned again.  If the topic has a pending record of an
    object, all documents of the object are sent again with the header ``recovered``; those of other
    objects are sent exactly once.  A directory does not show its records, and gets all pending ones again.
    Event ids are those of the lost ledger; later runs have the next epoch, because positions that only
    the lost ledger knew may come again.  An interrupted recovery resumes.  With ``dry_run`` all is planned
    after the same checks, and nothing published.

    Raises:
        UsageError: The progress of the sink fits the ledger.
        FatalError: The topic has lost records, so it does not show which records were published.
        PublisherError: See ``errors``.
    """
    settings = settings.for_publish()
    ledger = Ledger(settings.ledger_folder, settings.name)
    find = _lost_ledger_of_topic if settings.sink.to == "kafka" else _lost_ledger_of_files
    last, identity, epochs = find(settings, ledger)
    if dry_run:
        return _rehearse(settings, ledger, now, progress)
    if identity is not None:
        ledger.adopt_identity(identity)
        ledger.epochs().adopt(epochs)
    with open_job(settings, progress, recovers=True) as job:
        ledger.begin_recovery()
        ledger.skip_to(last)
        for ledger_run, _ in ledger.unsent_runs():
            if not _is_of_recovery(ledger_run):
                ledger_run.forget()  # the topic may have any part of it
        finished = job.finish()
        report = finished[-1] if finished else job.run(now=now)
        if not report.has_ledger:
            job.sink.claim_tokens()
        begin_epochs(ledger, sorted({*(source.name for source in settings.sources), *epochs}))
        ledger.end_recovery()
        job.expire()
    notes = _notes(ledger.run(report.run), "were") if report.has_ledger else []
    return with_notes(report, [*notes_of(finished), *notes])


def _rehearse(
    settings: Settings, ledger: Ledger, now: datetime | None, progress: Progress | None
) -> RunReport:
    check_sink(settings, recovers=True)
    planned = [
        manifest for ledger_run, manifest in ledger.unsent_runs() if _is_of_recovery(ledger_run)
    ]
    if planned:
        note = f"an interrupted recovery has planned run {planned[-1].run}, which would be sent"
        return with_notes(report_planned_run(planned[-1]), [note])

    def forget_objects(request: RunRequest) -> RunRequest:
        return replace(request, objects=request.objects and request.objects.forget())

    def study(ledger_run: LedgerRun) -> list[str]:
        manifest = ledger_run.manifest()
        if manifest is not None and settings.sink.to == "kafka":
            read_only_kafka(settings, recovers=True).mark_recovered(ledger_run, manifest)
        return _notes(ledger_run, "would be")

    unplanned = ledger.without_unsent_runs()
    return rehearse_sources(
        settings, unplanned, None, forget_objects, now=now, progress=progress, study=study
    )


LostLedger = tuple[int, str | None, Mapping[str, int]]
"""What a sink shows of a lost ledger: the greatest number of a run, the identity, and the epochs.

The identity is ``None`` if the sink shows no run, or only those of another version of the program."""


def _lost_ledger_of_files(settings: Settings, ledger: Ledger) -> LostLedger:
    runs = runs_folder(settings)
    if not ledger.is_recovering:
        with suppress(FatalError):
            refuse_foreign_runs(runs, ledger)
            raise _nothing_to_recover(settings, ledger)
    last, mark = last_marks(runs, ledger)
    return (last, None, {}) if mark is None else (last, mark.identity, mark.epochs)


def _lost_ledger_of_topic(settings: Settings, ledger: Ledger) -> LostLedger:
    from publisher.dispatch.kafka.compare_tokens import find_problem, read_all_tokens

    tokens = read_all_tokens(settings.kafka, settings.name, wait=False).values()
    if find_problem(tokens, ledger) is None and not ledger.is_recovering:
        raise _nothing_to_recover(settings, ledger)
    newest, last = None, 0
    for token in tokens:
        if (number := ledger.number_of(token.run) or 0) >= last:
            newest, last = token, number
    if newest is None or not newest.identity:
        return last, None, {}
    return last, newest.identity, newest.epochs


def _nothing_to_recover(settings: Settings, ledger: Ledger) -> UsageError:
    return UsageError(
        f"the progress of job {settings.name} in {sink_name(settings)} fits the ledger in {ledger.root}: "
        "there is nothing to recover; run `xds-publisher publish`"
    )


def _is_of_recovery(ledger_run: LedgerRun) -> bool:
    return RECOVERY in ledger_run.texts()


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
