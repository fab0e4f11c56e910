"""Verification of a job: compares what consumers can read with the tables of its sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from publisher.config.settings import Settings
from publisher.engine.contract import Engine, InputSize
from publisher.engine.start import start_engine
from publisher.engine.survey import EngineTasks
from publisher.engine.tasks import Resources, Work
from publisher.errors import UsageError
from publisher.journal.job_journals import Journals
from publisher.journal.manifest import Journal
from publisher.model.clock import microseconds
from publisher.runs.pending_sources import pending_sources
from publisher.runs.prepare import RunRequest, prepare_work
from publisher.verify.associations import table_of_suffix
from publisher.verify.documents import DocumentSurvey, connect_keys, survey_documents
from publisher.verify.find_documents import PublishedDocuments, find_files, find_topics
from publisher.verify.results import BucketOutcome
from publisher.verify.tables import PlannedTables, TableSource, plan_tables
from publisher.verify.work import JournalDocuments, PublishingRules, VerifyWork

SPLITS = 8
"""Approximate number of parts in which a table is read."""
_BUCKET_BYTES = 24 << 20
"""Approximate bytes of documents and rows in a bucket; a task needs a multiple of this memory."""
_MAX_BUCKETS = 4096


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """A requested verification."""

    settings: Settings
    examples: int = 5
    """Maximum number of examples of each kind and table."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a verification."""

    job: str
    sink: str
    outcome: BucketOutcome
    has_expired: bool = False
    """True if the first documents are gone."""

    def for_people(self) -> VerifyReport:
        """Returns the report without the names of files that are removed."""
        return replace(self, outcome=self.outcome.without_files())


@dataclass(frozen=True, slots=True)
class Verification:
    """A finished comparison, whose files of differences exist as long as its context is open."""

    report: VerifyReport
    folder: Path
    planned: PlannedTables


def verify(request: VerifyRequest) -> VerifyReport:
    """Compares the published documents of a job with the tables.

    Raises:
        SettingsError: The job file lacks a setting that publishing needs.
        UsageError: Nothing is published yet, or there is no table to compare with.
        PublisherError: See ``errors``.
    """
    settings = request.settings.for_publish()
    with (
        start_engine(settings.run.engine, settings.spark) as engine,
        compare_once(replace(request, settings=settings), engine) as verification,
    ):
        return verification.report.for_people()


@contextmanager
def compare_once(request: VerifyRequest, engine: Engine) -> Iterator[Verification]:
    """Compares documents and tables as they are now.

    First the ends of the documents are noted, then the tables are read as of one moment, then the changes
    that wait, then the final ends: an object whose change is on its way cannot seem to be different.
    """
    settings = request.settings
    journals = Journals(settings.journals, settings.name)
    if not journals.root.is_dir():
        raise UsageError(f"job {settings.name} has published nothing yet: publish first")
    with TemporaryDirectory(prefix="verify-", dir=journals.root) as name, ExitStack() as stack:
        work, planned = _plan(request, journals, engine, Path(name), stack)
        outcome = BucketOutcome()
        for text in engine.shuffle(work):
            outcome = outcome.joined(BucketOutcome.from_json(text), request.examples)
        report = VerifyReport(settings.name, _sink_of(settings), outcome, work.has_expired)
        yield Verification(report, Path(name), planned)


def _plan(
    request: VerifyRequest, journals: Journals, engine: Engine, folder: Path, stack: ExitStack
) -> tuple[VerifyWork, PlannedTables]:
    settings = request.settings
    before = _find_documents(settings, journals)
    tasks = EngineTasks(engine, settings.rules)
    surveys = tasks.survey(survey_documents, before.parts)
    planned = _plan_tables(settings, surveys, folder, stack)
    waiting = _waiting_work(settings, journals, engine, folder, stack)
    after = _find_documents(settings, journals)
    surveys += tasks.survey(survey_documents, [*after.after(before.ends)])
    size = sum(survey.bytes for survey in surveys) + planned.bytes
    engine.expect(lambda: InputSize(bytes=size))
    unsent = frozenset(manifest.run for _, manifest in journals.unsent_runs())
    work = VerifyWork(
        after.parts,
        planned.comparison,
        planned.tables,
        tuple(
            PublishingRules(source.options.identifier_case, source.filters)
            for source in settings.sources
        ),
        settings.values,
        planned.catalogue,
        _buckets(size),
        connect_keys([rename for survey in surveys for rename in survey.renames]),
        waiting,
        JournalDocuments(journals.root, unsent),
        before.ends,
        after.has_expired,
        planned.publishes_all,
        request.examples,
    )
    return work, planned


def _find_documents(settings: Settings, journals: Journals) -> PublishedDocuments:
    if settings.sink.to == "files":
        assert settings.sink.path is not None  # for_publish checks it
        return find_files(settings.sink.path.absolute(), has_first_run=journals.has_first_run())
    return find_topics(settings.kafka)


def _sink_of(settings: Settings) -> str:
    return str(settings.sink.path) if settings.sink.to == "files" else settings.kafka.target


def _plan_tables(
    settings: Settings, surveys: list[DocumentSurvey], folder: Path, stack: ExitStack
) -> PlannedTables:
    suffixes = sorted({suffix for survey in surveys for suffix in survey.suffixes})
    names = [table_of_suffix(suffix) for suffix in suffixes]
    resources = stack.enter_context(Resources(settings.rules))
    sources = [
        TableSource(
            number,
            source.name,
            source.options,
            source.reading,
            source.snapshots if source.descriptor.compares else (),
            settings.database or source.database,
            source.options.identifier_case,
            source.filters,
            resources.catalogue_of(source.format, source.reader.tables()),
        )
        for number, source in enumerate(settings.sources)
    ]
    return plan_tables(sources, settings.tables, names, folder, SPLITS, stack)


def _waiting_work(
    settings: Settings, journals: Journals, engine: Engine, folder: Path, stack: ExitStack
) -> Work | None:
    """Prepares the next run of the job as far as its records can be read."""
    sources = tuple(pending_sources(settings, journals.published_files, journals.state_of))
    if not any(source.reads for source in sources):
        return None
    journal = Journal(folder / "next")
    journal.root.mkdir()
    state = journals.states_of(source.name for source in sources)
    clock, run = microseconds(), f"{settings.name}-next"
    pending = replace(settings, sources=sources)
    request = RunRequest(run, pending, clock, journal, folder / "documents", state=state)
    return prepare_work(request, engine, stack)


def _buckets(size: int) -> int:
    wanted = max(1, -(-size // _BUCKET_BYTES))
    return min(_MAX_BUCKETS, 1 << (wanted - 1).bit_length())
