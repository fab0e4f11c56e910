"""Recovery: continues a job whose journal was lost, or is an older copy than its progress in Kafka."""

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
from publisher.journal.conservation import RunReport, empty_report
from publisher.journal.event_ids import adopt_epochs
from publisher.journal.identity import adopt_identity
from publisher.journal.job_journals import RUNS, Journals
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
from publisher.runs.new_ids import begin_epochs
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.publisher_instance import open_job
from publisher.runs.rehearse import rehearse_pending, report_planned_run


def recover(
    settings: Settings, *, now: datetime | None = None, progress: Progress | None = None
) -> RunReport:
    """Publishes pending records to a sink that may have some of them already.

    Runs that the journal has planned are planned again.  If the topic has a pending record of an
    object, all documents of the object are sent again with the header ``recovered``; those of other
    objects are sent exactly once.  A directory does not show its records, and gets all pending ones again.
    Event ids are those of the lost journal; later runs have the next epoch, because positions that only
    the lost journal knew may come again.  An interrupted recovery resumes.

    Raises:
        UsageError: The progress of the sink fits the journal.
        FatalError: The topic has lost records, so it does not show which records were published.
        PublisherError: See ``errors``.
    """
    settings, journals, lost = _check(settings)
    if lost.identity is not None:
        adopt_identity(journals.root, lost.identity)
        adopt_epochs(journals.root, lost.epochs)
    with open_job(settings, progress, recovers=True) as job:
        begin_recovery(journals.root)
        journals.skip_to(lost.last)
        _forget_plans(journals)
        finished = job.finish()
        report = finished[-1] if finished else job.run_once(now)
        if report is None or not report.has_journal:
            job.sink.claim_tokens()
        names = {*(source.name for source in settings.sources), *lost.epochs}
        begin_epochs(journals, sorted(names))
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
        if manifest is not None and settings.sink.to == "kafka":
            read_only_kafka(settings, recovers=True).mark_recovered(journal, manifest)
        return _notes(journal, "would be")

    unplanned = journals.without_unsent_runs()
    return rehearse_pending(
        settings, unplanned, _forget_objects, now=now, progress=progress, study=study
    )


def _forget_objects(request: RunRequest) -> RunRequest:
    return replace(request, objects=request.objects and request.objects.forget())


class LostJournal(NamedTuple):
    """The facts that a sink shows of a lost journal."""

    last: int
    """The greatest number of a run."""
    identity: str | None
    """``None`` if the sink shows no run, or only those of another version of the program."""
    epochs: dict[str, int]


def _check(settings: Settings) -> tuple[Settings, Journals, LostJournal]:
    """Checks that there is something to recover; returns the facts about the lost journal, too.

    Raises as ``recover``."""
    settings = settings.for_publish()
    journals = Journals(settings.journals, settings.name)
    find = _lost_journal_of_topic if settings.sink.to == "kafka" else _lost_journal_of_files
    return settings, journals, find(settings, journals)


def _is_of_recovery(journal: Journal) -> bool:
    return (journal.root / RECOVERY).exists()


def _lost_journal_of_files(settings: Settings, journals: Journals) -> LostJournal:
    assert settings.sink.path is not None  # for_publish checks it
    runs = settings.sink.path.absolute() / RUNS
    if not is_recovering(journals.root):
        with suppress(FatalError):
            refuse_foreign_runs(runs, Lineage.read(journals))
            raise _nothing_to_recover(settings, str(settings.sink.path), journals)
    last, mark = last_marks(runs, journals)
    if mark is None:
        return LostJournal(last, None, {})
    return LostJournal(last, mark.identity, mark.epochs)


def _nothing_to_recover(settings: Settings, sink: str, journals: Journals) -> UsageError:
    return UsageError(
        f"the progress of job {settings.name} in {sink} fits the journal in {journals.root}: there is "
        "nothing to recover; run `xds-publisher publish`"
    )


def _lost_journal_of_topic(settings: Settings, journals: Journals) -> LostJournal:
    from publisher.dispatch.kafka.compare_tokens import find_problem, read_all_tokens

    lineage = Lineage.read(journals)
    tokens = read_all_tokens(settings.kafka, settings.name, wait=False).values()
    if find_problem(tokens, lineage) is None and not is_recovering(journals.root):
        raise _nothing_to_recover(settings, settings.kafka.target, journals)
    newest, last = None, 0
    for token in tokens:
        if (number := journals.number_of(token.run) or 0) >= last:
            newest, last = token, number
    if newest is None or not newest.identity:
        return LostJournal(last, None, {})
    return LostJournal(last, newest.identity, dict(newest.epochs))


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
