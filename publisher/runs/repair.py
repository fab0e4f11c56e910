"""Repair of a job: publishes the differences that a verification has found, as a run of its own."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.dispatch.kafka.topic_ids import accept_replaced
from publisher.errors import UsageError
from publisher.formats.contract import SourceInput
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.model.plain import restore
from publisher.runs.following import is_followed, send_request
from publisher.runs.job import Job, open_job
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.verify import Verification, VerifyReport, VerifyRequest, compare
from publisher.verify.compare import FINDINGS, ResultKind
from publisher.verify.repair_source import BASELINE, declare_class, repair_source

REASON = "repair"
"""The reason of the documents, for consumers."""
_FORMAT = "triggerless"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair."""

    verification: VerifyReport
    """The comparison before the repair."""
    run: RunReport | None = None
    """The run that published the differences; ``None`` if there was nothing to publish."""


@dataclass(frozen=True, slots=True)
class RepairRehearsal:
    """A verification, and the objects that a repair would publish now."""

    verification: VerifyReport
    to_publish: Mapping[str, int]
    """Number of objects by the kind of their result."""


def rehearse_repair(report: VerifyReport, *, baseline: bool) -> RepairRehearsal:
    """Counts the objects that a repair would publish."""
    counts = {
        str(kind): report.outcome.count([kind]) for kind in ResultKind if kind in _kinds(baseline)
    }
    return RepairRehearsal(report, {kind: count for kind, count in counts.items() if count})


def _kinds(baseline: bool) -> frozenset[ResultKind]:
    return FINDINGS | BASELINE if baseline else FINDINGS


def repair(
    request: VerifyRequest, *, baseline: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Publishes the differences between the documents of a job and its tables.

    An instance that follows the job carries out the repair between two polls.  Without one, the job is taken
    over as by ``publish``, which sends planned runs first.  With ``baseline``, rows that were never published
    are published, too.

    Raises:
        PublisherError: See ``errors``.
    """
    settings = request.settings.for_publish()
    ledger = Ledger(settings.ledger_folder, settings.name)
    if is_followed(ledger.root):
        content = {"baseline": baseline, "examples": request.examples}
        answer = send_request(ledger, content, math.inf)
        if answer is not None:
            return restore(RepairReport, answer)
    accepted = accept_replaced(ledger) if settings.sink.to == "kafka" else nullcontext()
    with accepted, open_job(settings, progress) as job:
        notes = notes_of(job.finish())
        report = repair_in(job, request, baseline=baseline)
        job.expire()
    run = None if report.run is None else with_notes(report.run, notes)
    return replace(report, run=run)


def repair_in(job: Job, request: VerifyRequest, *, baseline: bool) -> RepairReport:
    """Repairs within an instance of the job, between two of its runs.

    Only this instance publishes, so a change that is committed after the tables were read is published
    after the repair.  Objects whose changes wait are not repaired.
    """
    kinds = _kinds(baseline)
    with compare(request, job.engine, is_publisher=True) as verification:
        sources = tuple(_repair_sources(request.settings, verification, kinds))
        run = job.publish_sources(sources) if sources else None
    return RepairReport(verification.report.for_people(), run)


def _repair_sources(
    settings: Settings, verification: Verification, kinds: Collection[ResultKind]
) -> Iterator[SourceSettings]:
    """Yields a source for each source of the job whose objects differ."""
    names = {source.name for source in settings.sources}
    described = verification.planned.catalogue
    if settings.rules.have_classes(_FORMAT):  # the attributes of child tables are found again
        described = tuple(map(declare_class, described))
    files = {table.table: table.files for table in verification.report.outcome.tables}
    for number, source in enumerate(settings.sources):
        tables = [table for table in verification.planned.tables if table.source == number]
        reader = repair_source(
            tables,
            files,
            verification.folder,
            described,
            source.options.identifier_case,
            kinds,
        )
        if not reader.count():
            continue
        name = f"{source.name}-{REASON}"
        if name in names:
            raise UsageError(
                f"the job has a source {name}, which is the name of repairs of {source.name}: rename it"
            )
        yield replace(
            source,
            name=name,
            format=_FORMAT,
            snapshots=(),
            table=None,
            options=reader.options,
            reading=reader.snapshot,
            polls=None,
            run_input=SourceInput(reader, (), reads=True),
            reason=REASON,
        )
