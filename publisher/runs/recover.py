"""Recovery: continues a job whose journal was lost, or is an older copy than its progress in Kafka."""

# ruff: noqa: PLC0415 - the Kafka client is loaded only where it is needed

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from publisher.config.settings import Settings
from publisher.console import Progress
from publisher.errors import UsageError
from publisher.journal.conservation import RunReport, empty_report
from publisher.journal.job_journals import Journals
from publisher.journal.lineage import Lineage
from publisher.journal.manifest import Journal
from publisher.journal.recovery import (
    RECOVERY,
    begin_recovery,
    end_recovery,
    is_recovering,
    read_recovery,
)
from publisher.runs.job_sink import check_sink, read_only_kafka
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.publisher_instance import open_job
from publisher.runs.rehearse import rehearse_pending, report_planned_run


def recover(
    settings: Settings, *, now: datetime | None = None, progress: Progress | None = None
) -> RunReport:
    """Publishes pending records to a topic that may have some of them already.

    Runs that the journal has planned are planned again.  If the topic has a pending record of an
    object, all documents of the object are sent again with the header ``recovered``; those of other
    objects are sent exactly once.  An interrupted recovery resumes.

    Raises:
        UsageError: The sink is not a Kafka topic, or its progress fits the journal.
        FatalError: The topic has lost records, so it does not show which records were published.
        PublisherError: See ``errors``.
    """
    settings, journals, last = _check(settings)
    with open_job(settings, progress, recovers=True) as job:
        begin_recovery(journals.root)
        journals.skip_to(last)
        _forget_plans(journals)
        finished = job.finish()
        report = finished[-1] if finished else job.run_once(now)
        if report is None or not report.has_journal:
            job.sink.claim_tokens()
        end_recovery(journals.root)
        job.expire()
    report = report or empty_report(settings.name)
    return with_notes(report, [*notes_of(finished), *_notes(journals.journal(report.run), "were")])


def rehearse_recovery(
    settings: Settings, *, now: datetime | None = None, progress: Progress | None = None
) -> RunReport:
    """Plans a recovery after the checks of ``recover``, and publishes nothing.

    Raises as ``recover``."""
    settings, journals, _ = _check(settings)
    check_sink(settings, recovers=True)
    planned = [manifest for journal, manifest in journals.unsent_runs() if _is_of_recovery(journal)]
    if planned:
        note = f"an interrupted recovery has planned run {planned[-1].run}, which would be sent"
        return with_notes(report_planned_run(planned[-1]), [note])

    def study(journal: Journal) -> list[str]:
        manifest = journal.manifest()
        if manifest is not None:
            read_only_kafka(settings, recovers=True).mark_recovered(journal, manifest)
        return _notes(journal, "would be")

    unplanned = journals.without_unsent_runs()
    return rehearse_pending(
        settings, unplanned, _forget_objects, now=now, progress=progress, study=study
    )


def _forget_objects(request: RunRequest) -> RunRequest:
    return replace(request, objects=request.objects and request.objects.forget())


def _check(settings: Settings) -> tuple[Settings, Journals, int]:
    """Checks that there is something to recover; returns the number of the last run of the sink, too.

    Raises as ``recover``."""
    settings = settings.for_publish()
    if settings.sink.to != "kafka":
        raise UsageError(
            '[dispatch] to = "files": recover works with Kafka topics only; restore the journal '
            "directory, or set another path in [dispatch]"
        )
    journals = Journals(settings.journals, settings.name)
    return settings, journals, _last_number(settings, journals)


def _is_of_recovery(journal: Journal) -> bool:
    return (journal.root / RECOVERY).exists()


def _last_number(settings: Settings, journals: Journals) -> int:
    """Returns the greatest number of a run in the progress of the sink.

    Raises:
        UsageError: The progress fits the journal, and no recovery was interrupted.
    """
    from publisher.dispatch.kafka.compare_tokens import find_problem, read_all_tokens

    lineage = Lineage.read(journals)
    tokens = read_all_tokens(settings.kafka, settings.name, wait=False).values()
    if find_problem(tokens, lineage) is None and not is_recovering(journals.root):
        raise UsageError(
            f"the progress of job {settings.name} in {settings.kafka.target} fits the journal in "
            f"{journals.root}: there is nothing to recover; run `xds-publisher publish`"
        )
    return max((journals.number_of(token.run) or 0 for token in tokens), default=0)


def _forget_plans(journals: Journals) -> None:
    """Discards plans of runs that were not sent completely, as the topic may have any part of them.

    Plans of a recovery remain."""
    for journal, _ in journals.unsent_runs():
        if not _is_of_recovery(journal):
            journal.forget()


def _notes(journal: Journal, were: str) -> list[str]:
    manifest = journal.manifest()
    recovered = None if manifest is None else read_recovery(journal.root, manifest)
    if recovered is None:
        return []
    text = (
        f"recovered: {recovered.count():,} document(s) of objects that the topic may have already {were} "
        "sent with the header recovered, the others exactly once"
    )
    return [text]
