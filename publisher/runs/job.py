"""A job: one instance of the program takes it over, finishes the runs of earlier starts, then publishes what
is pending, run after run."""

# ruff: noqa: PLC0415 - a start that finds nothing to publish loads neither planner nor acknowledgement

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.database.connection_cache import keep_connections
from publisher.engine.contract import Engine
from publisher.engine.start import start_engine
from publisher.errors import PublisherError, RunningError
from publisher.ledger.conservation import NOTHING_NEW, RunReport, empty_report, report_of
from publisher.ledger.instance import Epoch
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest, RetriedRecord
from publisher.ledger.runs import LedgerRun
from publisher.model.clock import microseconds
from publisher.observing.contract import Poll
from publisher.runs.following import describe_follower, is_followed
from publisher.runs.inputs import Backlog, PendingInput, check_inputs
from publisher.runs.job_sink import JobSink, refuse_foreign_progress
from publisher.runs.notes import with_notes

if TYPE_CHECKING:
    from publisher.dispatch.contract import Dispatcher
    from publisher.ledger.hours import Closing
    from publisher.runs.acknowledge import SentRun, WrongTable
    from publisher.runs.prepare import RunRequest
    from publisher.runs.run import Plan

_SECONDS_BETWEEN_STEPS = 60.0
"""Seconds between two looks for an hour that is over."""


class Job:
    """One instance of a job.  Of several instances only the newest works: its epoch is the last."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        progress: Progress | None = None,
        *,
        recovers: bool = False,
        follows: bool = False,
        accepts_database: bool = False,
    ) -> None:
        """Takes over the job, and the lanes of its sink, from older instances.

        Only an instance that ``follows`` takes the job over from one that follows: after any other command
        nobody would publish.  With ``recovers``, the runs of the job replace those of a lost ledger (see
        ``recover``).  With ``accepts_database``, tables of another database count as those that earlier runs
        have read.

        Raises:
            RunningError: An instance follows the job, and this one does not.
            FatalError: The progress of the sink does not fit the ledger.
        """
        self.settings = settings = settings.for_publish()
        self.engine = engine
        self._progress = progress
        self._accepts_database = accepts_database
        self.ledger = ledger = Ledger(settings.ledger_folder, settings.name)
        is_followed(ledger.root)  # refuses a job of another machine before its ledger is opened
        ledger.check()
        identity = ledger.open_identity()
        topics = None if recovers else refuse_foreign_progress(settings, ledger)
        refuse = None if follows else partial(_refuse_followed, settings)
        self.epoch = Epoch(ledger, ledger.begin_epoch(refuse), identity)
        lanes = ledger.raise_lanes(settings.run.lane_count)
        self.sink = JobSink(settings, ledger, engine, self.epoch, lanes, recovers, progress)
        self._pending = PendingInput(settings, ledger)
        self._thread = ThreadPoolExecutor(1, "hours")
        self._step: Future[bool] | None = None
        self._next_step = 0.0
        self._counts = 0, 0
        self.sink.take_over(topics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.sink.close()
        self._thread.shutdown()
        self._pending.close()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Raises ``ReplacedError`` instead of errors that a newer instance causes, such as missing files."""
        try:
            yield
        except (OSError, PublisherError):
            self.epoch()
            raise

    def finish(self) -> list[RunReport]:
        """Sends and acknowledges planned runs; discards runs that were not planned completely.

        No document of a discarded run was sent.  Returns the reports of the finished runs.
        """
        self._finish_step()
        with self._guard():
            for run in self.ledger.discard_incomplete(self.epoch):
                self.sink.discard(run)
            return [self._finish_run(*planned) for planned in self.ledger.unsent_runs()]

    def _finish_run(self, ledger_run: LedgerRun, manifest: Manifest) -> RunReport:
        from publisher.runs.run import find_sent, send

        ledger_run.remove_staging(manifest)
        dispatcher = self.sink.dispatcher(manifest.run)
        find = find_sent if dispatcher.has_run(manifest) else send
        sent = find(ledger_run, manifest, dispatcher)
        note = f"run {manifest.run}, which an earlier start had planned, was sent first"
        return self._acknowledge(sent._replace(report=with_notes(sent.report, [note])))

    def abandon(self, run: str) -> RunReport:
        """Ends a sent run, also if its statuses cannot be written.

        Raises:
            UsageError: The run does not wait for its acknowledgement, or is not sent yet.
        """
        from publisher.runs.acknowledge import WrongTable, find_waiting_run, refuse_unsent_run
        from publisher.runs.run import find_sent

        with self._guard():
            ledger_run, manifest = find_waiting_run(self.ledger, run)
            dispatcher = self.sink.dispatcher(run)
            refuse_unsent_run(dispatcher, manifest)
            return self._acknowledge(
                find_sent(ledger_run, manifest, dispatcher), WrongTable.ABANDON
            )

    def backlog(self) -> Backlog:
        """Counts the pending work, see ``PendingInput.backlog``."""
        return self._pending.backlog()

    def run(
        self,
        backlog: Backlog | None = None,
        *,
        now: datetime | None = None,
        lanes: int | None = None,
    ) -> RunReport:
        """Publishes the pending work, which is counted unless it is given, in at most so many lanes.

        The report names no ledger if nothing is pending, or only rows that earlier runs left N.

        Raises:
            PublisherError: See ``errors``.
        """
        with self._guard():
            try:
                backlog = self.backlog() if backlog is None else backlog
            except PublisherError:  # the run reports the problem in full, or accepts the database
                return self._publish(self._pending.sources(), now, lanes=lanes)
            if backlog.is_empty:
                return empty_report(self.settings.name)
            return self._publish(backlog.sources, now, lanes=lanes, waiting=backlog.rows)

    def publish_sources(
        self,
        sources: Sequence[SourceSettings],
        now: datetime | None = None,
        retried: Sequence[tuple[str, RetriedRecord]] = (),
    ) -> RunReport:
        """Publishes the input of these sources of the job, see ``RunRequest.for_sources``.

        Raises:
            PublisherError: See ``errors``.
        """
        with self._guard():
            return self._publish(sources, now, retried=retried)

    def _publish(
        self,
        sources: Sequence[SourceSettings],
        now: datetime | None,
        *,
        lanes: int | None = None,
        waiting: int | None = None,
        retried: Sequence[tuple[str, RetriedRecord]] | None = None,
    ) -> RunReport:
        """Plans a run until each event id names one document; commits, sends and acknowledges it.

        ``retried`` is ``None`` for the pending input of the job, see ``RunRequest.for_sources``."""
        from publisher.runs.new_ids import renew_ids
        from publisher.runs.run import commit_and_send, plan

        by_object, notes = set[str](), list[str]()
        while True:
            request = self._request(sources, now, lanes, by_object)
            request = replace(request, waiting=waiting)
            if retried is not None:
                request = request.for_sources(retried)
            dispatcher = self.sink.dispatcher(request.run)
            try:
                planned = plan(request, self.engine, self._progress)
            except (OSError, PublisherError):
                check_inputs(sources)  # a missing input is the likely cause, and may come back
                raise
            if not retried and self._has_nothing_new(planned):
                self._discard(dispatcher, request.run)
                return report_of(
                    replace(planned.manifest, run=self.settings.name),
                    state=NOTHING_NEW,
                    ledger="",
                    target="",
                    seconds=dict(planned.seconds),
                    engine=planned.engine,
                )
            more_by_object, more_notes = renew_ids(
                self.ledger, planned.ledger_run, planned.manifest
            )
            if not more_notes:
                break
            by_object |= more_by_object
            notes += more_notes
            self._discard(dispatcher, request.run)
        self.epoch()
        sent = commit_and_send(planned, dispatcher)
        self._pending.mark_published(sent.manifest)
        return self._acknowledge(sent._replace(report=with_notes(sent.report, notes)))

    def _request(
        self,
        sources: Sequence[SourceSettings],
        now: datetime | None,
        lanes: int | None,
        by_object: Collection[str],
    ) -> RunRequest:
        """Requests the next run of the job; event ids of the sources ``by_object`` name the objects, too."""
        from publisher.runs.prepare import SPLITS, RunRequest

        settings, ledger = replace(self.settings, sources=tuple(sources)), self.ledger
        if lanes is not None:
            lanes = min(lanes, settings.run.lane_count)
            settings = replace(settings, run=replace(settings.run, lanes=lanes))
        names = [source.name for source in sources]
        origins = ledger.epochs().origins(self.epoch.identity, names)
        run = ledger.create_run()
        number = int(run.rpartition("-")[2])
        return RunRequest(
            run,
            settings,
            microseconds(now),
            ledger.run(run),
            self.sink.directory(run),
            splits=lanes or SPLITS,
            behind=ledger.greatest_ids(),
            number=number,
            objects=self.sink.stored_objects(number),
            state=ledger.states_of(s.name for s in sources if not s.has_status),
            job_identity=self.epoch.identity,
            reported={name: rows.reported for name, rows in ledger.leftovers().items()},
            accepts_database=self._accepts_database,
            origins={
                name: origin._replace(by_object=name in by_object)
                for name, origin in origins.items()
            },
            epochs=ledger.epochs().numbers(),
        )

    def _has_nothing_new(self, planned: Plan) -> bool:
        """Returns whether a planned run has read only rows that stayed N after earlier runs."""
        from publisher.acknowledge.leftovers import has_nothing_new
        from publisher.runs.acknowledge import live_sources

        leftovers = self.ledger.leftovers()
        live = live_sources(self.settings)
        return has_nothing_new(planned.ledger_run, planned.manifest, live, leftovers)

    def _discard(self, dispatcher: Dispatcher, run: str) -> None:
        """Removes a run that is planned and not committed; the next run gets its number."""
        dispatcher.discard()  # first: the sink must never have a run that the ledger does not know
        self.ledger.discard(run)

    def _acknowledge(self, sent: SentRun, wrong_table: WrongTable | None = None) -> RunReport:
        from publisher.runs.acknowledge import WrongTable, acknowledge

        if wrong_table is None:
            wrong_table = WrongTable.ACCEPT if self._accepts_database else WrongTable.REFUSE
        return acknowledge(
            self.settings, self.ledger, sent, self.epoch, wrong_table, self._progress
        )

    def poll(
        self,
        report: RunReport,
        seconds: float | None = None,
        waiting: int | None = None,
        oldest: float | None = None,
    ) -> Poll:
        """Reports a run to observers, with what sending has counted since the last one.

        Without ``seconds`` those of the report count."""
        before, sending = self._counts, self.sink.sending
        self._counts = transactions, retries = sending.transactions, sending.retries
        seconds = sum(report.seconds.values()) if seconds is None else seconds
        return Poll(report, seconds, waiting, oldest, transactions - before[0], retries - before[1])

    def tidy(self) -> None:
        """Starts to move the rows of small runs into the files of their hour, once it is over.

        A thread does it, a few runs at a time, so that the next poll does not wait."""
        if self._step is not None and self._step.done():
            self._finish_step()
        if self._step is None and time.monotonic() > self._next_step:
            self._next_step = time.monotonic() + _SECONDS_BETWEEN_STEPS
            self._step = self._thread.submit(self._closing.step)

    def _finish_step(self) -> None:
        """Waits for the runs that move into the files of their hour."""
        step, self._step = self._step, None
        if step is not None:
            with self._guard():
                step.result()

    def expire(self) -> None:
        """Removes finished runs that are older than the retention."""
        self._finish_step()
        self.epoch()
        idle = self.ledger.idle_runs()
        if self.sink.is_files:
            # before the runs, without which a later start cannot find the folders
            for run in idle:
                shutil.rmtree(self.sink.directory(run), ignore_errors=True)
        self.ledger.remove(idle)
        days = self.settings.retention.retention_days
        if self.ledger.has_hours:
            self._closing.remove_remains()
            self._closing.expire(days)
        self.ledger.expire(days=days)

    @cached_property
    def _closing(self) -> Closing:
        from publisher.ledger.hours import Closing

        return Closing(self.ledger.root, self.epoch)


@contextmanager
def open_job(
    settings: Settings,
    progress: Progress | None = None,
    *,
    recovers: bool = False,
    accepts_database: bool = False,
) -> Iterator[Job]:
    """Takes a job over in an engine of its own, see ``Job``."""
    with (
        keep_connections(),
        start_engine(settings.run.engine, settings.spark) as engine,
        Job(
            settings, engine, progress, recovers=recovers, accepts_database=accepts_database
        ) as job,
    ):
        yield job


def _refuse_followed(settings: Settings) -> None:
    if is_followed(settings.ledger_folder):
        raise RunningError(
            f"job {settings.name} is followed by another instance "
            f"({describe_follower(settings.ledger_folder)}), which this command would end: stop it, "
            "then start this command again"
        )
