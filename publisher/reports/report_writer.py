"""Writes the report of a following job once a day, and when records are rejected.

Another process writes it, with low priority: polls neither wait for it nor fail with it.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from publisher.errors import PublisherError
from publisher.observing.contract import Poll

DAY = 86_400.0
PAUSE_AFTER_FAILURE = 3_600.0
SHORTEST_PAUSE = 60.0
"""Minimum seconds between two reports, whatever is rejected."""
_MULTIPLE = 10
"""Minimum pause after a report as a multiple of the time that it took."""
_LONGEST = 3_600.0
"""Seconds after which a report is given up."""
_NICE = 10
"""Priority of the process: low, but not so low that a busy machine never writes a report."""


@dataclass(slots=True)
class ReportSchedule:
    """Decides when a report is due: after new runs, if the last one is a day old or records are rejected.

    Times are seconds since 1970.
    """

    written: float | None
    """Time of the last report; ``None`` without one."""
    _has_runs: bool = False
    _has_rejects: bool = False
    _ended: float = -math.inf
    _pause: float = 0.0

    def add_run(self, rejected: int) -> None:
        """Takes a run with this number of rejected records into account."""
        self._has_runs = True
        self._has_rejects |= rejected > 0

    def is_due(self, now: float) -> bool:
        """Returns whether a report is due."""
        # a clock that is set back ends pauses
        is_old = self.written is None or abs(now - self.written) >= DAY
        may_start = self._has_runs and abs(now - self._ended) >= self._pause
        return may_start and (is_old or self._has_rejects)

    def start(self) -> None:
        """A report begins: it shows the runs so far."""
        self._has_runs = self._has_rejects = False

    def finish(self, now: float, seconds: float) -> None:
        """A report that took so many seconds is written."""
        self.written = self._ended = now
        self._pause = max(SHORTEST_PAUSE, _MULTIPLE * seconds)

    def fail(self, now: float) -> None:
        """A report was not written; it is repeated later."""
        self._has_runs = self._has_rejects = True
        self._ended, self._pause = now, PAUSE_AFTER_FAILURE


class ReportWriter:
    """An observer that has reports written; a context manager that ends an unfinished one."""

    def __init__(
        self,
        path: Path,
        journals: Path,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``journals`` is the directory of the job's journals."""
        self._path = path
        words = ["report", str(journals), "--to", str(path)]
        self._command = [sys.executable, "-m", "publisher.cli", *words]
        self._warn = warn
        self._clock = clock
        self._schedule = ReportSchedule(_time_of(path))
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._messages: IO[bytes] | None = None

    def on_start(self, job: str, target: str, notes: Sequence[str]) -> None:
        """See ``Observer``."""

    def on_poll(self, poll: Poll) -> None:
        """See ``Observer``."""
        self._schedule.add_run(poll.report.outcomes.get("rejected", 0))
        self._step()

    def on_idle(self, waiting: int, oldest: float | None) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._step()

    def on_failure(self, error: PublisherError, again_in: float | None) -> None:
        """See ``Observer``."""

    def on_stop(self, reason: str) -> None:  # noqa: ARG002
        """See ``Observer``."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _step(self) -> None:
        if self._process is not None:
            self._collect(self._process)
        if self._process is None and self._schedule.is_due(self._clock()):
            self._start()

    def _start(self) -> None:
        self._schedule.start()
        self._started = self._clock()
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _end
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this program
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._messages,
            )
        except OSError as error:
            self._fail(f"no process can be started ({error})")
            return
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        """Takes note of the end of the process; ends it if it takes too long."""
        now, code = self._clock(), process.poll()
        if code == 0:
            self._schedule.finish(now, now - self._started)
            self._end()
        elif code is not None:
            self._fail(self._last_message() or f"its process ended with {code}")
        elif now - self._started > _LONGEST:
            self._fail(f"it took more than {_LONGEST / 60:.0f} minutes")

    def _last_message(self) -> str:
        assert self._messages is not None
        self._messages.seek(0)
        lines = self._messages.read().decode("utf-8", "replace").splitlines()
        return lines[-1].removeprefix("error: ") if lines else ""

    def _fail(self, problem: str) -> None:
        self._end()
        self._schedule.fail(self._clock())
        self._warn(
            f"the report {self._path} was not written: {problem}. Polls continue; the next attempt follows in"
            f" {PAUSE_AFTER_FAILURE / 60:.0f} minutes"
        )

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._messages is not None:
            self._messages.close()
            self._messages = None


def _time_of(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
