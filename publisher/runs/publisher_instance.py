"""One instance of a job: finishes runs of earlier starts, then reads, plans, sends and acknowledges."""

# ruff: noqa: PLC0415 - a start that finds nothing to publish loads neither planner nor acknowledgement

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Self

from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.engine.contract import Engine
from publisher.errors import PublisherError
from publisher.ledger.conservation import RunReport, empty_report
from publisher.ledger.manifest import Manifest, RetriedRecord
from publisher.ledger.runs import LedgerRun
from publisher.model.clock import microseconds
from publisher.observing.contract import Observer
from publisher.runs.background import Background
from publisher.runs.job_sink import JobSink
from publisher.runs.lease import Lease
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.open_clients import ClientOpener
from publisher.runs.open_engine import open_engine
from publisher.runs.pending_sources import check_inputs
from publisher.runs.pending_work import Backlog, PendingWork
from publisher.runs.poll_recorder import PollRecorder

if TYPE_CHECKING:
    from publisher.ledger.hours import Closing
    from publisher.runs.acknowledge import Acknowledgement, SentRun
    from publisher.runs.new_ids import NewIds
    from publisher.runs.prepare import RunRequest


_SECONDS_BETWEEN_STEPS = 60.0


class PublisherInstance:
    """One instance of a job.  Of several instances only the newest works, see ``Lease``."""

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

        With ``recovers``, the runs of the job replace those of a lost ledger (see ``recover``).  With
        ``accepts_database``, tables of another database count as those that earlier runs have read.

        Raises:
            RunningError: An instance follows the job, and this one does not (``follows``).
            FatalError: The sink has progress that does not fit the ledger.
        """
        self._settings = settings = settings.for_publish()
        self.engine = engine
        self._accepts_database = accepts_database
        self._progress = progress
        self._lease, topics = Lease.take(settings, recovers=recovers, follows=follows)
        self._ledger = ledger = self._lease.ledger
        lanes = ledger.raise_lanes(settings.run.lane_count)
        check_lease = self._lease.check
        self.sink = JobSink(settings, ledger, engine, check_lease, lanes, recovers, progress)
        self._step, self._next_step = Background[bool]("hours"), 0.0
        self._stack = ExitStack()
        self._pending = self._stack.enter_context(PendingWork(settings, self._ledger))
        for close in (self._step.close, self.sink.close):
            self._stack.callback(close)
        self.sink.take_over(topics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def backlog(self) -> Backlog:
        """Counts the pending work of the job, see ``PendingWork.backlog``."""
        return self._pending.backlog()

    def finish(self) -> list[RunReport]:
        """Sends and acknowledges planned runs; discards runs that were not planned completely.

        No document of a discarded run was sent.  Returns the reports of the finished runs.
        """
        self._finish_step()
        with self._lease.guard():
            for run in self._ledger.discard_incomplete(self._lease.check):
                self.sink.discard(run)
            return [self._finish_run(*planned) for planned in self._ledger.unsent_runs()]

    def _finish_run(self, ledger_run: LedgerRun, manifest: Manifest) -> RunReport:
        from publisher.runs.execute import find_sent, send

        ledger_run.write_files(manifest)
        dispatcher = self.sink.dispatcher(manifest.run)
        if dispatcher.has_run(manifest):
            sent = find_sent(ledger_run, manifest, dispatcher)
        else:
            sent = send(ledger_run, manifest, dispatcher)
        note = f"run {manifest.run}, which an earlier start had planned, was sent first"
        return self._acknowledge(sent._replace(report=with_notes(sent.report, [note])))

    def abandon(self, run: str) -> RunReport:
        """Ends a sent run, also if its statuses cannot be written.

        Raises:
            UsageError: The run does not wait for its acknowledgement, or is not sent yet.
        """
        from publisher.runs.acknowledge import WrongTable, find_waiting_run, refuse_unsent_run
        from publisher.runs.execute import find_sent

        with self._lease.guard():
            ledger_run, manifest = find_waiting_run(self._ledger, run)
            ledger_run.write_files(manifest)
            dispatcher = self.sink.dispatcher(run)
            refuse_unsent_run(dispatcher, manifest)
            sent = find_sent(ledger_run, manifest, dispatcher)
            writing = self._acknowledgement.status_writing(sent, WrongTable.ABANDON)
            return self._acknowledgement.acknowledge(sent, writing)

    def run_once(
        self,
        now: datetime | None = None,
        lanes: int | None = None,
        *,
        backlog: Backlog | None = None,
    ) -> RunReport | None:
        """Publishes the pending work; returns ``None`` if no file is new and no table is read.

        A run that finds only rows that earlier runs left N is discarded; its report names no ledger.
        ``backlog`` is the pending work if it is known.

        Raises:
            PublisherError: See ``errors``.
        """
        with self._lease.guard():
            sources = self._pending.sources() if backlog is None else backlog.sources
            if not any(source.reads for source in sources):
                return None
            request = self._request(sources, now, lanes)
            waiting = None if backlog is None else backlog.rows
            return self._carry_out(replace(request, waiting=waiting))

    def publish_pending(self, now: datetime | None = None) -> RunReport:
        """Publishes the pending work, see ``run_once``; plans no run if nothing is pending.

        Raises:
            PublisherError: See ``errors``.
        """
        with self._lease.guard():
            sources = self._pending.sources()
            waiting = None
            with suppress(PublisherError):  # the run itself will report the problem in full
                backlog = self._pending.backlog(sources)
                if backlog.is_empty:
                    return empty_report(self._settings.name)
                waiting = backlog.rows
            request = self._request(sources, now)
            return self._carry_out(replace(request, waiting=waiting))

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
        with self._lease.guard():
            return self._carry_out(self._request(tuple(sources), now).for_sources(retried))

    def unsent_runs(self) -> list[tuple[LedgerRun, Manifest]]:
        """The runs that an earlier start planned, but did not send completely."""
        return self._ledger.unsent_runs()

    def tidy(self) -> None:
        """Starts to move the rows of small runs into the files of their hour, once it is over.

        A thread does it, a few runs at a time, so that the next poll does not wait."""
        if self._step.is_done:
            self._finish_step()
        if self._step.is_free and time.monotonic() > self._next_step:
            self._next_step = time.monotonic() + _SECONDS_BETWEEN_STEPS
            self._step.start(self._closing.step)

    def _finish_step(self) -> None:
        """Waits for the runs that move into the files of their hour."""
        with self._lease.guard():
            self._step.wait()

    def expire(self) -> None:
        """Removes finished runs that are older than the retention."""
        self._finish_step()
        self._lease.check()
        idle = self._ledger.idle_runs()
        if self.sink.is_files:
            # before the runs, without which a later start cannot find the folders
            for run in idle:
                shutil.rmtree(self.sink.directory(run), ignore_errors=True)
        self._ledger.remove(idle)
        days = self._settings.retention.retention_days
        if self._ledger.has_hours:
            self._closing.remove_remains()
            self._closing.expire(days)
        self._ledger.expire(days=days)

    def _request(
        self,
        sources: tuple[SourceSettings, ...],
        now: datetime | None,
        lanes: int | None = None,
    ) -> RunRequest:
        """Requests the next run of the job."""
        from publisher.acknowledge.leftovers import has_nothing_new
        from publisher.runs.prepare import SPLITS, RunRequest

        settings = replace(self._settings, sources=sources)
        if lanes is not None:
            lanes = min(lanes, settings.run.lane_count)
            settings = replace(settings, run=replace(settings.run, lanes=lanes))
        leftovers = self._ledger.leftovers()
        live = self._acknowledgement.live_sources
        run = self._ledger.create_run()
        ledger_run = self._ledger.run(run)
        return RunRequest(
            run,
            settings,
            microseconds(now),
            ledger_run,
            self.sink.directory(run),
            check_lease=self._lease.check,
            splits=lanes or SPLITS,
            behind=self._ledger.greatest_ids(),
            number=(number := int(run.rpartition("-")[2])),
            objects=self.sink.stored_objects(number),
            state=self._ledger.states_of(s.name for s in sources if not s.has_status),
            job_identity=self._lease.check.identity,
            reported={name: rows.reported for name, rows in leftovers.items()},
            is_repetition=lambda manifest: has_nothing_new(ledger_run, manifest, live, leftovers),
            accepts_database=self._accepts_database,
            in_place=not (self.sink.is_files or settings.documents.minimal),
        )

    def _carry_out(self, request: RunRequest) -> RunReport:
        """Plans, sends and acknowledges a run."""
        try:
            sent = self._ids.plan_and_send(request, self.sink, self.engine, self._progress)
        except (OSError, PublisherError):
            # a missing input is the likely cause; its error says so, and ``--follow`` tries again
            check_inputs(request.settings.sources)
            raise
        if not sent.report.has_ledger:
            return replace(sent.report, run=self._settings.name)
        self._pending.mark_published(sent.manifest)
        return self._acknowledge(sent)

    @cached_property
    def _closing(self) -> Closing:
        from publisher.ledger.hours import Closing

        return Closing(self._ledger.root, self._lease.check)

    @cached_property
    def _ids(self) -> NewIds:
        from publisher.runs.new_ids import NewIds

        return NewIds(self._ledger, self._lease.check.identity)

    @cached_property
    def _acknowledgement(self) -> Acknowledgement:
        from publisher.runs.acknowledge import Acknowledgement

        check_lease = self._lease.check
        return Acknowledgement(self._settings, self._ledger, check_lease, self._progress)

    def _acknowledge(self, sent: SentRun) -> RunReport:
        from publisher.runs.acknowledge import WrongTable

        wrong_table = WrongTable.ACCEPT if self._accepts_database else WrongTable.REFUSE
        writing = self._acknowledgement.status_writing(sent, wrong_table)
        return self._acknowledgement.acknowledge(sent, writing)


@contextmanager
def open_job(
    settings: Settings, progress: Progress | None = None, *, recovers: bool = False
) -> Iterator[PublisherInstance]:
    """Takes a job over in an engine of its own, see ``PublisherInstance``."""
    with (
        open_engine(settings) as engine,
        PublisherInstance(settings, engine, progress, recovers=recovers) as job,
    ):
        yield job


def publish(
    settings: Settings,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
    observer: Observer | None = None,
    accepts_database: bool = False,
) -> RunReport:
    """Publishes the pending work of a job once, and reports each run to the observer.

    A run that an earlier start planned but did not send completely is sent first.  For
    ``accepts_database`` see ``PublisherInstance``.

    Raises:
        SettingsError: The job file lacks a setting that publishing needs.
        PublisherError: See ``errors``.
    """
    with open_engine(settings) as engine:
        clients = ClientOpener(settings)
        with PublisherInstance(
            settings, engine, progress, accepts_database=accepts_database
        ) as job:
            recorder = PollRecorder(job.sink.sending)
            finished = job.finish()
            notes = notes_of(finished)
            if observer is not None:
                observer.on_start(settings.name, job.sink.target, notes)
                for earlier in finished:
                    observer.on_poll(recorder.poll(earlier))
            is_idle = clients.wait()
            report = empty_report(settings.name) if is_idle else job.publish_pending(now)
            if observer is not None:
                observer.on_poll(recorder.poll(report))
            job.expire()
    return with_notes(report, notes)
