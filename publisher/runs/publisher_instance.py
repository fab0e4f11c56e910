"""A job at work: finish what an earlier start left, read, plan, dispatch, acknowledge."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, Self

from publisher.acknowledge.leftovers import (
    has_nothing_new,
    leftovers_of,
    read_leftovers,
    write_leftovers,
)
from publisher.acknowledge.status_letters import refused_of
from publisher.config.settings import Settings, SourceSettings
from publisher.dispatch.contract import Dispatcher
from publisher.engine.spark.engine import Engine, Progress
from publisher.errors import PublisherError, UsageError
from publisher.journal.conservation import RunReport, nothing_read
from publisher.journal.epoch import Epoch, next_epoch
from publisher.journal.identity import open_identity
from publisher.journal.job_journals import Journals
from publisher.journal.lineage import Lineage
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.published_files import PublishedFiles
from publisher.model.clock import microseconds
from publisher.observing.contract import Observer
from publisher.runs.acknowledge import StatusWriting, WrongTable, has_status
from publisher.runs.execute import build_report, plan_and_send, send
from publisher.runs.job_sink import JobSink, refuse_foreign_progress
from publisher.runs.notes import STATUS_NOTE, notes_of, with_notes
from publisher.runs.pending_sources import check_inputs, pending_sources
from publisher.runs.pending_tables import comparison_notes
from publisher.runs.poll_recorder import PollRecorder
from publisher.runs.prepare import SPLITS, RunRequest
from publisher.sources.live.registry import TableBacklog
from publisher.sources.registry import COMPARED
from publisher.sources.triggerless.carry_over import State, forget_rows
from publisher.sources.triggerless.plan_comparison import Migration


class Backlog(NamedTuple):
    """What waits to be published: rows, the age of the oldest in seconds, files."""

    rows: int
    oldest: float | None
    files: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.rows and not self.files


class Publishing:
    """One instance of a job.  Of several the newest works, see ``journal.epoch``."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        progress: Progress | None = None,
        *,
        recovers: bool = False,
    ) -> None:
        """Takes the job over from older instances, and the lanes of its sink with it.

        With ``recovers`` its runs take the place of those of a lost journal, see ``recovering``.

        Raises:
            FatalError: The sink has progress that does not fit the journal.
        """
        self._settings = settings.for_publish()
        self._engine = engine
        self._progress = progress
        self._journals = Journals(settings.journals, settings.name)
        self._lineage = Lineage(open_identity(self._journals.root), self._journals)
        if not recovers:
            refuse_foreign_progress(self._settings, self._lineage)
        self._epoch: Epoch = next_epoch(self._journals.root, self._lineage.identity)
        lanes = self._journals.lanes(settings.run.lanes)
        self.sink = JobSink(self._settings, self._lineage, engine, self._epoch, lanes, recovers)
        self._stack = ExitStack()
        self._waiting: dict[str, TableBacklog] = {}
        self._published: PublishedFiles | None = None
        if not self.sink.is_files:
            self.sink.kafka().prepare("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def backlog(self) -> Backlog:
        """What the sources have now.

        Raises:
            FatalError: A table does not fit.
            UnreachableError: A database does not answer.
        """
        rows, new, ages = 0, 0, []
        for source in self._due():
            if source.table is None:
                new += len(source.snapshots) or source.reads
                continue
            assert source.database is not None  # for_publish has seen to it
            if source.name not in self._waiting:
                waiting = TableBacklog(source.database, source.table, source.options)
                self._waiting[source.name] = self._stack.enter_context(waiting)
            state = None if source.has_status else self._journals.state_of(source.name)
            found = self._waiting[source.name].now(state)
            rows += found.rows
            if found.oldest is not None:
                ages.append(found.oldest)
        return Backlog(rows, max(ages, default=None), new)

    def finish(self) -> list[RunReport]:
        """Sends and acknowledges what is planned; throws away what is not planned wholly.

        Nothing was sent of what is thrown away.  Gives the reports of the runs that are done now.
        """
        with self._told_when_replaced():
            return self._finished()

    def _finished(self) -> list[RunReport]:
        for run in self._journals.discard_unplanned(self._epoch):
            self.sink.discard(run)
        reports = []
        for journal, manifest in self._journals.unsent():
            dispatcher = self.sink.dispatcher(manifest.run)
            report = build_report(manifest, journal, "published", dispatcher)
            if not dispatcher.dispatched(manifest):
                report = send(journal, manifest, dispatcher)
            first = f"run {manifest.run}, which an earlier start had planned, was sent first"
            report = with_notes(report, [first])
            reports.append(self._acknowledged(journal, manifest, report, dispatcher))
        return reports

    def acknowledge(self, run: str, wrong_table: WrongTable) -> RunReport:
        """Acknowledges a run that the sink has, and whose table is not where the job file points to.

        Raises:
            UsageError: No such run waits for that.
        """
        with self._told_when_replaced():
            waiting = {
                manifest.run: (journal, manifest) for journal, manifest in self._journals.unsent()
            }
            if run not in waiting:
                names = ", ".join(waiting) or "none"
                raise UsageError(f"no run {run} waits for its acknowledgement; there are: {names}")
            journal, manifest = waiting[run]
            dispatcher = self.sink.dispatcher(run)
            if not dispatcher.dispatched(manifest):
                raise UsageError(f"run {run} is not sent yet: start publish, which sends it first")
            report = build_report(manifest, journal, "published", dispatcher)
            return self._acknowledged(journal, manifest, report, dispatcher, wrong_table)

    def once(
        self, now: datetime | None = None, lanes: int | None = None, *, by_rows: bool = False
    ) -> RunReport | None:
        """Publishes what the sources have now; ``None`` where no file is new and no table is read.

        A run that finds only rows that earlier runs have left N is not kept; its report says so.  With
        ``by_rows`` it goes on in tables of another database whose rows prove them to be copies.

        Raises:
            PublisherError: See ``errors``.
        """
        with self._told_when_replaced():
            return self._once(now, lanes, by_rows)

    def _once(self, now: datetime | None, lanes: int | None, by_rows: bool) -> RunReport | None:
        sources = tuple(self._due())
        if not any(source.reads for source in sources):
            return None  # no file is new, no table due
        return self._ran(sources, now, lanes, by_rows=by_rows)

    def migrate(
        self, sources: Sequence[SourceSettings], migration: Migration, now: datetime | None = None
    ) -> RunReport:
        """Publishes rows of sources that compare tables as new, whatever is known of them.

        Raises:
            PublisherError: See ``errors``.
        """
        with self._told_when_replaced():
            return self._ran(tuple(sources), now, migration=migration)

    def has_unsent(self, migration: Migration) -> bool:
        """Whether an earlier start has planned this migration, and not sent it wholly."""
        for journal, manifest in self._journals.unsent():
            for source in manifest.sources:
                state = journal.state(source.name) if source.format in COMPARED else None
                if state is not None and State.read(state).migration == migration.plain():
                    return True
        return False

    def _ran(
        self,
        sources: tuple[SourceSettings, ...],
        now: datetime | None,
        lanes: int | None = None,
        migration: Migration | None = None,
        *,
        by_rows: bool = False,
    ) -> RunReport:
        settings = replace(self._settings, sources=sources)
        if lanes is not None:
            lanes = min(lanes, settings.run.lanes)
            settings = replace(settings, run=replace(settings.run, lanes=lanes))
        left = read_leftovers(self._journals.root)
        run = self._journals.next_run()
        journal = self._journals.journal(run)
        dispatcher = self.sink.dispatcher(run)
        request = RunRequest(
            run,
            settings,
            microseconds(now),
            journal,
            self.sink.directory(run),
            check_lease=self._epoch,
            splits=lanes or SPLITS,
            behind=self._journals.greatest(),
            number=int(run.rpartition("-")[2]),
            state=self._journals.states_of(source.name for source in sources),
            job_identity=self._lineage.identity,
            migration=migration,
            reported={name: one.reported for name, one in left.items()},
            is_repetition=lambda found: has_nothing_new(journal, found, self._live(), left),
            by_rows=by_rows,
        )
        return self._carry_out(request, dispatcher)

    def _carry_out(self, request: RunRequest, dispatcher: Dispatcher) -> RunReport:
        try:
            report = plan_and_send(request, dispatcher, self._engine, self._progress)
        except (OSError, PublisherError):
            check_inputs(
                request.settings.sources
            )  # an input that went while it was read may come back
            raise
        journal = request.journal
        if not report.is_kept:
            self._journals.discard(request.run)
            dispatcher.discard()
            return replace(report, run=self._settings.name)
        manifest = journal.manifest()
        assert manifest is not None
        if self._published is not None:
            self._published = self._published.with_runs([manifest])
        return self._acknowledged(journal, manifest, report, dispatcher)

    def expire(self) -> None:
        """Removes journals that are done with and older than they are kept."""
        kept = self._settings.retention
        self._epoch()
        idle = self._journals.idle()
        if self.sink.is_files:
            for run in idle:  # before its journal, which would not be found again after a crash
                shutil.rmtree(self.sink.directory(run), ignore_errors=True)
        self._journals.remove(idle)
        self._journals.expire(days=kept.retention_days, most=kept.retention_runs)

    @contextmanager
    def _told_when_replaced(self) -> Iterator[None]:
        """A newer instance takes away what this one works on: then that is the error to tell."""
        try:
            yield
        except (OSError, PublisherError):
            self._epoch()
            raise

    def _acknowledged(
        self,
        journal: Journal,
        manifest: Manifest,
        report: RunReport,
        dispatcher: Dispatcher,
        wrong_table: WrongTable = WrongTable.REFUSE,
    ) -> RunReport:
        """Tells the rows of live event logs what became of them, then notes that the run is done."""
        options = self._settings.acknowledge
        refused = refused_of(dispatcher.refusals(journal))
        left = read_leftovers(self._journals.root)
        work = StatusWriting(journal, manifest, options, refused, self._epoch, wrong_table)
        statuses = work.write_all(self._settings.sources)
        for number, entry in enumerate(manifest.sources):
            if has_status(entry) and entry.name in self._live():
                left[entry.name] = leftovers_of(journal, manifest, number)
        self._epoch()
        self._journals.note_greatest(statuses.greatest)
        write_leftovers(self._journals.root, left)
        report = with_notes(report, [*statuses.notes, *self._compared(journal, manifest)])
        journal.mark_sent(report.notes, idle=report.is_idle)
        report = replace(report, statuses=dict(sorted(statuses.changed.items())))
        live = any(has_status(entry) for entry in manifest.sources)
        return with_notes(report, [STATUS_NOTE] if live and not options.write_status else [])

    def _compared(self, journal: Journal, manifest: Manifest) -> list[str]:
        """What there is to say of the comparisons of a run; the states that it replaced go."""
        notes = []
        for source in manifest.sources:
            state = journal.state(source.name) if source.format in COMPARED else None
            if state is not None:
                notes += comparison_notes(state, source.name)
                forget_rows(self._journals.earlier_states(manifest.run, source.name))
        return notes

    def _live(self) -> frozenset[str]:
        """The names of the sources whose rows are told what became of them."""
        if not self._settings.acknowledge.write_status:
            return frozenset()
        return frozenset(source.name for source in self._settings.sources if source.has_status)

    def _due(self) -> Iterator[SourceSettings]:
        return pending_sources(self._settings, self._files, self._journals.state_of)

    def _files(self) -> PublishedFiles:
        if self._published is None:
            self._published = self._journals.published_files()
        return self._published


def publish(
    settings: Settings,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
    observer: Observer | None = None,
    by_rows: bool = False,
) -> RunReport:
    """Publishes once what the sources of a job have.

    A run that an earlier start planned but did not send wholly is sent first.  The observer is told
    of each run.  For ``by_rows`` see ``Publishing.once``.

    Raises:
        SettingsError: The job file lacks something that publishing needs.
        PublisherError: See ``errors``.
    """
    with Engine(settings.spark) as engine:
        engine.warm_up()
        with Publishing(settings, engine, progress) as job:
            recorder = PollRecorder(engine)
            done = job.finish()
            notes = notes_of(done)
            if observer is not None:
                observer.on_start(settings.name, job.sink.target, notes)
                for one in done:
                    observer.on_poll(recorder.poll(one))
            report = job.once(now, by_rows=by_rows) or nothing_read(settings.name)
            if observer is not None:
                observer.on_poll(recorder.poll(report))
            job.expire()
    return with_notes(report, notes)
