"""Publishes continuously: poll after poll in one engine, until a stop is requested.

A poll takes the rows that have status N when it begins, not the rows after a watermark: a smaller
record_id that was committed later is not lost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

from publisher.config.settings import Settings
from publisher.console import Phase, Progress
from publisher.database.connection_cache import keep_connections
from publisher.engine.contract import Engine
from publisher.engine.start import start_engine
from publisher.errors import PublisherError, ReplacedError, UnreachableError
from publisher.formats.live.notifications import Listener, Notifications
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.observing.contract import Observer
from publisher.runs.following import Request, answer_request, mark_following, next_request
from publisher.runs.inputs import Backlog
from publisher.runs.job import Job
from publisher.runs.notes import notes_of
from publisher.runs.repair import RepairReport, repair_in
from publisher.runs.verify import VerifyRequest
from publisher.stop_request import StopRequest

_ROWS_A_LANE = 2_000
"""Rows per lane of a small poll, which uses few lanes: each costs some files and a transaction."""
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
"""Seconds before an unreachable system is tried again; doubled each time."""
_SHORTEST_PAUSE = 0.05
"""Minimum seconds between two checks of an empty log, however short the interval."""
_PAUSE_WITHOUT_EFFECT = 1.0
"""Seconds after a poll that changed nothing, for instance with events of the future only."""
SECONDS_BETWEEN_EXPIRIES = 60.0
_LONGEST_PAUSE = 60.0
"""Maximum seconds between two checks of the clock, which may be changed or stop while a machine sleeps."""
_SWITCH_SECONDS = 0.0005
"""Maximum seconds for which the thread that moves finished runs delays a poll after each of its waits;
Python's default is ten times as long."""


def follow(
    settings: Settings,
    observer: Observer,
    stop: StopRequest,
    progress: Progress | None = None,
) -> None:
    """Publishes the changes of a job's sources until ``stop`` is set.

    Raises:
        SettingsError: Each poll would publish the same rows again.
        PublisherError: An error that waiting does not resolve, for instance a newer instance of the job.
    """
    settings.for_publish(follows=True)
    sys.setswitchinterval(_SWITCH_SECONDS)
    with start_engine(settings.run.engine, settings.spark) as engine:
        Follower(settings, engine, observer, stop, progress=progress).run()


class Follower:
    """Follows the sources of a job."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        observer: Observer,
        stop: StopRequest,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        progress: Progress | None = None,
    ) -> None:
        """``stop`` ends ``run`` after the current poll; ``clock`` returns a time with a zone."""
        self._settings = settings
        self._ledger = Ledger(settings.ledger_folder, settings.name)
        self._engine = engine
        self._observer = observer
        self._stop = stop
        self._progress = progress
        self._clock = clock
        at_times = settings.follow.at_times
        self._next_publication = settings.follow.next_publication(clock()) if at_times else None
        """``None`` if polls follow the interval."""
        self._job: Job | None = None
        self._has_started = False
        self._is_finished = False
        """True while no planned run has to be finished."""
        self._failures = 0
        self._last_expiry = -SECONDS_BETWEEN_EXPIRIES
        self._last_heartbeat = time.monotonic()

    def run(self) -> None:
        """Polls until a stop is requested.

        Raises:
            PublisherError: An error that waiting does not resolve.
        """
        with ExitStack() as stack:
            cache = stack.enter_context(keep_connections())
            new_rows = stack.enter_context(self._notifications())
            give_sign_of_life: Callable[[], None] | None = None
            while not self._stop.is_set():
                cache.run += 1
                self._engine.rest()
                if give_sign_of_life is None:
                    mark = mark_following(self._settings.ledger_folder)
                    give_sign_of_life = stack.enter_context(mark)
                give_sign_of_life()
                try:
                    if self._job is None:
                        job = Job(self._settings, self._engine, self._progress, follows=True)
                        self._job = stack.enter_context(job)
                    pause = self._step(self._job)
                except UnreachableError as error:
                    self._wait_after(error)
                    continue
                self._failures = 0
                if not new_rows.has_come():
                    new_rows.wait(pause, self._stop)
        self._observer.on_stop("stop requested")

    def _notifications(self) -> Notifications:
        """Waits for new rows of all tables of the job, unless polls have fixed times."""
        if self._next_publication is not None:
            return Notifications()
        return Notifications(
            Listener(source.database, source.table)
            for source in self._settings.sources
            if source.table is not None and source.database is not None
        )

    def _wait_after(self, error: UnreachableError) -> None:
        self._is_finished = False
        pause = min(_LAST_RETRY, _FIRST_RETRY * 2**self._failures)
        self._failures += 1
        self._observer.on_failure(error, pause)
        while (request := next_request(self._ledger)) is not None:
            answer_request(self._ledger, request, error)
        self._stop.wait(pause)

    def _step(self, job: Job) -> float:
        """Polls once, after unfinished work; returns the seconds to wait afterwards."""
        if not self._is_finished:
            self._finish(job)
        if time.monotonic() - self._last_expiry >= SECONDS_BETWEEN_EXPIRIES:
            job.expire()
            self._last_expiry = time.monotonic()
        if (request := next_request(self._ledger)) is not None:
            self._obey(job, request)
        if self._next_publication is not None and self._clock() < self._next_publication:
            self._send_heartbeat(job)
            return self._pause()
        backlog = job.backlog()
        if self._progress is not None:
            self._progress(Phase.WAITING, 0, backlog.rows)
        started = time.monotonic()
        report = job.run(backlog, lanes=_lanes(backlog))
        seconds = time.monotonic() - started
        if self._next_publication is not None:  # a poll that failed is repeated before
            now = max(self._clock(), self._next_publication)
            self._next_publication = self._settings.follow.next_publication(now)
        if report.has_ledger:
            self._observer.on_poll(job.poll(report, seconds, backlog.rows, backlog.oldest))
            if report.documents:
                self._last_heartbeat = time.monotonic()
        else:
            self._observer.on_idle(backlog.rows, backlog.oldest)
            self._send_heartbeat(job)
        job.tidy()
        if report.documents or report.statuses or backlog.files:
            return self._pause()
        least = _SHORTEST_PAUSE if backlog.is_empty else _PAUSE_WITHOUT_EFFECT
        return max(least, self._pause())

    def _finish(self, job: Job) -> None:
        """Finishes runs that an earlier start or an interrupted poll had planned; they count as polls."""
        reports = job.finish()
        self._is_finished = True
        if not self._has_started:
            self._observer.on_start(self._settings.name, job.sink.target, notes_of(reports))
            self._has_started = True
        for report in reports:
            self._observer.on_poll(job.poll(report))

    def _obey(self, job: Job, request: Request) -> None:
        """Carries out a poll or a repair that another program has requested; reports either as a poll."""
        report: RepairReport | RunReport
        run: RunReport | None
        try:
            if request.is_poll:
                backlog = job.backlog()
                report = run = job.run(backlog, lanes=_lanes(backlog))
            else:
                verification = VerifyRequest(self._settings, request.examples)
                report = repair_in(job, verification, baseline=request.baseline)
                run = report.run
        except PublisherError as error:
            answer_request(self._ledger, request, error)
            if isinstance(error, ReplacedError):
                raise
            self._observer.on_failure(error, None)
            self._is_finished = False
            return
        answer_request(self._ledger, request, report)
        if run is not None and run.has_ledger:
            self._observer.on_poll(job.poll(run))

    def _pause(self) -> float:
        if self._next_publication is None:
            return self._settings.follow.polling_interval
        return min(
            _LONGEST_PAUSE, max(0.0, (self._next_publication - self._clock()).total_seconds())
        )

    def _send_heartbeat(self, job: Job) -> None:
        """Shows consumers of a quiet topic that the publisher is alive."""
        minutes = self._settings.follow.heartbeat_minutes
        if minutes and time.monotonic() - self._last_heartbeat >= minutes * 60:
            job.sink.heartbeat()
            self._last_heartbeat = time.monotonic()


def _lanes(backlog: Backlog) -> int | None:
    """Number of lanes for a poll; ``None`` for all lanes of the job."""
    return None if backlog.files else max(1, -(-backlog.rows // _ROWS_A_LANE))
