"""Verification of a job: compares what consumers can read with the tables of its sources."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from publisher.config.settings import Settings, SourceSettings
from publisher.database.connection import Database
from publisher.database.connection_cache import keep_connections
from publisher.database.resources import Resources
from publisher.engine.contract import Engine, InputSize
from publisher.engine.start import start_engine
from publisher.errors import FatalError, UsageError
from publisher.formats.columns.object_names import split_name
from publisher.formats.work import Work
from publisher.ledger.job import Ledger
from publisher.ledger.runs import LedgerRun
from publisher.model.clock import microseconds
from publisher.runs.following import is_followed
from publisher.runs.inputs import PendingInput
from publisher.runs.job_sink import sink_name
from publisher.runs.prepare import RunRequest, prepare_work
from publisher.runs.source_tasks import EngineTasks
from publisher.triggers import TableRef
from publisher.triggers.compare import logged_tables
from publisher.triggers.installed import can_examine
from publisher.verify.associations import AssociationTable, table_of_suffix
from publisher.verify.compare import ResultKind
from publisher.verify.event_ids import find_conflicts
from publisher.verify.find_documents import PublishedDocuments, find_files, find_topics
from publisher.verify.pieces import first_hashes
from publisher.verify.results import BucketOutcome, objects_with
from publisher.verify.survey import DocumentSurvey, PartToSurvey, connect_keys, survey_documents
from publisher.verify.tables import PlannedTables, TableSource, plan_tables
from publisher.verify.work import LedgerDocuments, PublishingRules, VerifyWork

SPLITS = 8
"""Approximate number of parts in which a table is read."""
_BUCKET_BYTES = 24 << 20
"""Approximate bytes of documents and rows in a bucket; a task needs a multiple of this memory."""
_MAX_BUCKETS = 4096
_ROUNDS = 3
"""Maximum number of comparisons of an unsettled object."""
_ATTEMPTS = 3
_PAUSE = 0.2
"""Seconds between two looks for new documents."""


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """A requested verification."""

    settings: Settings
    examples: int = 5
    """Maximum number of examples of each kind and table."""
    wait_seconds: float = 10.0
    """Maximum time to wait for changes that an instance of the job is publishing."""
    consumer_dump: Path | None = None
    """File with the state of a consumer, to compare with the documents, too."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a verification."""

    job: str
    sink: str
    outcome: BucketOutcome
    has_expired: bool = False
    """True if the first documents are gone."""
    hidden: tuple[str, ...] = ()
    """The partitions with an open transaction, which hides later documents from consumers."""

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
        keep_connections(),
        start_engine(settings.run.engine, settings.spark) as engine,
        compare(replace(request, settings=settings), engine) as verification,
    ):
        return verification.report.for_people()


@contextmanager
def compare(
    request: VerifyRequest, engine: Engine, *, is_publisher: bool = False
) -> Iterator[Verification]:
    """Compares documents and tables, and unsettled objects again while changes are being published.

    ``is_publisher`` says that nothing is published meanwhile, because this process has the lease of the job.
    """
    settings = request.settings
    ledger = Ledger(settings.ledger_folder, settings.name)
    if not ledger.root.is_dir():
        raise UsageError(
            f"job {settings.name} has published nothing yet: publish first, or publish all rows of its tables"
            " with --repair --baseline"
        )
    dump = request.consumer_dump
    if dump is not None and not dump.is_file():
        raise UsageError(f"{dump} is no file: name the file with the consumer's state")
    with TemporaryDirectory(prefix="verify-", dir=ledger.root) as name:
        folder = Path(name)
        comparison = _Comparison(request, ledger, engine, folder, dump)
        outcome = comparison.run_round()
        while not is_publisher and outcome.count([ResultKind.UNSETTLED]):
            if comparison.rounds == _ROUNDS or not comparison.wait_for_documents():
                break
            outcome = outcome.settle(comparison.run_round(), request.examples)
        outcome = comparison.with_conflicts(outcome)
        documents, sink = comparison.documents, sink_name(settings)
        report = VerifyReport(settings.name, sink, outcome, documents.has_expired, documents.hidden)
        yield Verification(report, folder, comparison.planned)


@dataclass(slots=True)
class _Comparison:
    """The rounds of a comparison; each after the first compares the objects that were unsettled."""

    request: VerifyRequest
    ledger: Ledger
    engine: Engine
    folder: Path
    dump: Path | None = None
    rounds: int = 0
    documents: PublishedDocuments = field(default_factory=lambda: PublishedDocuments(()))
    """The documents that are surveyed."""
    surveys: list[DocumentSurvey] = field(default_factory=list)
    """The surveys of all parts of the documents."""
    planned: PlannedTables = field(init=False)
    unsettled: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    """The unsettled objects of the last round."""

    def run_round(self) -> BucketOutcome:
        """Compares all objects, or those that are unsettled.

        An instance that publishes meanwhile may remove files of the ledger, or of a state: then the round
        is repeated.
        """
        self.rounds += 1
        for attempt in range(1, _ATTEMPTS):
            last = self.ledger.last_number()
            try:
                return self._run_round(self.folder / f"{self.rounds}-{attempt}")
            except (FatalError, FileNotFoundError):
                if last == self.ledger.last_number() and not self._is_followed:
                    raise
        return self._run_round(self.folder / f"{self.rounds}-{_ATTEMPTS}")

    def with_conflicts(self, outcome: BucketOutcome) -> BucketOutcome:
        """Adds the records whose event id belongs to another record."""
        parts = [(s.part, s.event_hashes) for s in self.surveys if s.event_hashes is not None]
        count, found = find_conflicts(parts, self.request.examples)
        return replace(outcome, conflicting=count, conflicting_examples=found)

    @property
    def _is_followed(self) -> bool:
        return is_followed(self.ledger.root)

    def _run_round(self, folder: Path) -> BucketOutcome:
        folder.mkdir()
        outcome = BucketOutcome()
        with ExitStack() as stack:
            work = self._plan(folder, stack)
            for text in EngineTasks(self.engine, self.request.settings.rules).shuffle(work):
                outcome = outcome.join(BucketOutcome.from_json(text), self.request.examples)
        files = [name for table in outcome.tables for name in table.files]
        self.unsettled = objects_with(folder, files, ResultKind.UNSETTLED)
        return outcome.in_folder(folder.name)

    def wait_for_documents(self) -> bool:
        """Waits for new documents; returns whether there are any."""
        deadline = time.monotonic() + self.request.wait_seconds
        while True:
            found = _find_documents(self.request.settings, self.ledger)
            if any(True for _ in found.after(self.documents.ends)):
                return True
            if time.monotonic() > deadline or not (found.hidden or self._is_followed):
                return False
            time.sleep(_PAUSE)

    def _plan(self, folder: Path, stack: ExitStack) -> VerifyWork:
        """Plans a round.

        First the ends of the documents are noted, then the tables are read as of one moment, then the changes
        that wait, then the final ends: an object whose change is on its way cannot seem to be different.
        """
        settings, ledger, engine = self.request.settings, self.ledger, self.engine
        self._survey()
        marks = self.documents.ends
        self.planned = _plan_tables(settings, self.surveys, folder, stack)
        waiting = _waiting_work(settings, ledger, engine, folder, stack)
        unsent = frozenset(manifest.run for _, manifest in ledger.unsent_runs())
        self._survey()
        surveys = self.surveys
        connected = connect_keys([rename for survey in surveys for rename in survey.renames])
        size = sum(survey.bytes for survey in surveys) + self.planned.bytes
        engine.expect(lambda: InputSize(bytes=size))
        rules = [PublishingRules(s.options.identifier_case, s.filters) for s in settings.sources]
        return VerifyWork(
            tuple(survey.part for survey in surveys),
            self.planned.comparison,
            self.planned.tables,
            tuple(rules),
            settings.values,
            self.planned.catalogue,
            buckets_for(size),
            connected,
            waiting,
            LedgerDocuments(ledger.root, unsent),
            marks,
            self.documents.has_expired,
            self.planned.publishes_all,
            self.request.examples,
            self.dump if self.rounds == 1 else None,
            self._write_hashes(folder, connected) if self.rounds > 1 else None,
            settings.documents.value_format == "xml",
            bool(self.documents.hidden),
        )

    def _survey(self) -> None:
        """Surveys the documents that have arrived since the last survey."""
        found = _find_documents(self.request.settings, self.ledger)
        parts = tuple(found.after(self.documents.ends))
        if not self.surveys:
            self.engine.expect(lambda: InputSize(bytes=found.bytes))
        folder = self.folder / "documents"
        folder.mkdir(exist_ok=True)
        tasks = EngineTasks(self.engine, self.request.settings.rules)
        items = [PartToSurvey(part, folder) for part in parts]
        self.surveys += tasks.survey(survey_documents, items)
        self.documents = found

    def _write_hashes(self, folder: Path, connected: Mapping[str, str]) -> Path:
        path = folder / "only.npy"
        np.save(path, np.unique(first_hashes(self.unsettled, connected)))
        return path


def _find_documents(settings: Settings, ledger: Ledger) -> PublishedDocuments:
    is_new = not ledger.last_number()
    if settings.sink.to == "files":
        assert settings.sink.path is not None  # for_publish checks it
        has_first_run = is_new or ledger.has_first_run()
        return find_files(settings.sink.path.absolute(), has_first_run=has_first_run)
    return find_topics(settings.kafka, is_new=is_new)


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
            source.format,
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
    names += [name for source in settings.sources for name in _logged_tables(source)]
    return plan_tables(sources, settings.tables, names, folder, SPLITS, stack)


def _logged_tables(source: SourceSettings) -> Iterator[AssociationTable]:
    """Yields the tables that triggers of ``ddl`` log, which need not have documents yet."""
    if not source.has_status or source.database is None or source.table is None:
        return
    schema, name = split_name(source.table) or (None, source.table)
    with Database(replace(source.database, schema=None)) as database:  # as ddl, without settings
        if can_examine(database):
            is_sqlite = database.engine.dialect.name == "sqlite"
            log = TableRef(None if is_sqlite else schema or source.database.schema, name)
            for table in logged_tables(database, log):
                yield AssociationTable(table.schema, table.name)


def _waiting_work(
    settings: Settings, ledger: Ledger, engine: Engine, folder: Path, stack: ExitStack
) -> Work | None:
    """Prepares the next run of the job as far as its records can be read."""
    sources = PendingInput(settings, ledger).sources()
    if not settings.acknowledge.write_status:  # published rows look as if they waited
        sources = tuple(source for source in sources if not source.has_status)
    if not any(source.reads for source in sources):
        return None
    ledger_run = LedgerRun(folder / "next")
    ledger_run.root.mkdir()
    state = ledger.states_of(source.name for source in sources)
    clock, run = microseconds(), f"{settings.name}-next"
    pending = replace(settings, sources=sources)
    request = RunRequest(run, pending, clock, ledger_run, folder / "documents", state=state)
    return prepare_work(request, engine, stack)


def buckets_for(size: int) -> int:
    """Returns the number of buckets for so many bytes of documents and rows."""
    wanted = max(1, -(-size // _BUCKET_BYTES))
    return min(_MAX_BUCKETS, 1 << (wanted - 1).bit_length())
