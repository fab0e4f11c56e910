"""Publishing for good: poll after poll over one Spark session, until told to stop.

A poll takes what has status N when it begins, not what lies behind a mark: a smaller record_id that
was committed later is not lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime

from publisher.config.settings import Settings
from publisher.engine.spark.engine import Engine
from publisher.errors import UnreachableError
from publisher.observing.contract import Observer, Poll
from publisher.runs.notes import notes_of
from publisher.runs.poll_report import Polled
from publisher.runs.publisher_instance import Backlog, Publishing

_ROWS_A_LANE = 2_000
"""A small poll uses few lanes: each costs some files and a transaction."""
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
"""Seconds until what does not answer is tried again; twice as long each time."""
_BREATH = 0.05
"""Seconds between two looks at a log with nothing to read, however short the interval."""
_NO_EFFECT = 1.0
"""The same where what there is to read stays: events of the future, say."""
_SECONDS_BETWEEN_EXPIRIES = 60.0
_LONGEST_WAIT = 60.0
"""Seconds between two looks at the clock, which may be set, or stand still while a machine sleeps."""


class Follower:
    """Follows the sources of a job."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        observer: Observer,
        stop: threading.Event,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``stop`` ends it after the poll in hand; ``clock`` gives a time with a zone."""
        self._settings = settings
        self._engine = engine
        self._polled = Polled(engine)
        self._observer = observer
        self._stop = stop
        self._clock = clock
        at_times = settings.follow.at_times
        self._next = settings.follow.next_publication(clock()) if at_times else None
        """The next publication time; ``None`` where polls go by the interval."""
        self._job: Publishing | None = None
        self._settled = False
        self._failures = 0
        self._expired = -_SECONDS_BETWEEN_EXPIRIES
        self._beaten = time.monotonic()

    def run(self) -> None:
        """Polls until it is told to stop.

        Raises:
            PublisherError: What does not go away by waiting.
        """
        with ExitStack() as stack:
            while not self._stop.is_set():
                try:
                    pause = self._turn(stack)
                except UnreachableError as error:
                    self._settled = False
                    pause = min(_LAST_RETRY, _FIRST_RETRY * 2**self._failures)
                    self._failures += 1
                    self._observer.failed(error, pause)
                self._stop.wait(pause)
        self._observer.ended("told to stop")

    def _turn(self, stack: ExitStack) -> float:
        """One poll, or what is to be done before; gives the seconds to wait after it."""
        job = self._begun(stack)
        if not self._settled:
            self._told(self._finished(job))
        self._expire(job)
        if self._next is not None and self._clock() < self._next:
            self._beat(job)
            return self._pause()
        backlog = job.backlog()
        if backlog.is_empty:
            self._failures = 0
            self._schedule()
            self._observer.idle(backlog.rows, backlog.oldest)
            self._beat(job)
            return max(_BREATH, self._pause())
        return self._poll(job, backlog)

    def _begun(self, stack: ExitStack) -> Publishing:
        if self._job is None:
            job = stack.enter_context(Publishing(self._settings, self._engine))
            polls = self._finished(job)
            self._job = job
            notes = notes_of(poll.report for poll in polls)
            self._observer.begun(self._settings.name, job.sink.target, notes)
            self._told(polls)
        return self._job

    def _finished(self, job: Publishing) -> list[Poll]:
        """Finishes what a start, or a poll that was cut short, had planned: it counts now, as it was
        not told before."""
        reports = job.finish()
        self._settled = True
        return [self._polled.poll(report) for report in reports]

    def _told(self, polls: Sequence[Poll]) -> None:
        for poll in polls:
            self._observer.polled(poll)

    def _poll(self, job: Publishing, backlog: Backlog) -> float:
        started = time.monotonic()
        report = job.once(lanes=_lanes(backlog))
        self._failures = 0
        self._schedule()
        if report is None:
            return self._pause()
        if not report.is_kept:
            self._observer.idle(backlog.rows, backlog.oldest)
            self._beat(job)
            return max(_NO_EFFECT, self._pause())
        taken = time.monotonic() - started
        self._observer.polled(self._polled.poll(report, taken, backlog.rows, backlog.oldest))
        if report.documents:
            self._beaten = time.monotonic()
        effect = report.documents or report.statuses or backlog.files
        return max(0.0 if effect else _NO_EFFECT, self._pause())

    def _schedule(self) -> None:
        """Sets the next publication time after a poll; one that failed is repeated before."""
        if self._next is not None:
            now = max(self._clock(), self._next)
            self._next = self._settings.follow.next_publication(now)

    def _pause(self) -> float:
        if self._next is None:
            return self._settings.follow.polling_interval
        return min(_LONGEST_WAIT, max(0.0, (self._next - self._clock()).total_seconds()))

    def _beat(self, job: Publishing) -> None:
        """Shows consumers of a quiet topic that the publisher is there."""
        minutes = self._settings.follow.heartbeat_minutes
        if minutes and time.monotonic() - self._beaten >= minutes * 60:
            job.sink.heartbeat()
            self._beaten = time.monotonic()

    def _expire(self, job: Publishing) -> None:
        if time.monotonic() - self._expired >= _SECONDS_BETWEEN_EXPIRIES:
            job.expire()
            self._expired = time.monotonic()


def _lanes(backlog: Backlog) -> int | None:
    """Lanes of a poll, ``None`` for all that the job may use."""
    return None if backlog.files else max(1, -(-backlog.rows // _ROWS_A_LANE))


def follow(settings: Settings, observer: Observer, stop: threading.Event) -> None:
    """Publishes what the sources of a job have, and what they will have, until ``stop`` is set.

    Raises:
        SettingsError: Each poll would publish the same rows again.
        PublisherError: What does not go away by waiting; a newer instance of the job, for one.
    """
    settings.for_publish(follows=True)
    with Engine(settings.spark) as engine:
        engine.warm_up()
        Follower(settings, engine, observer, stop).run()
