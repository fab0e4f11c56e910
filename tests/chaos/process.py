"""The publisher as a process with all that it starts, and the end of all of them at once."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.chaos.marks import VARIABLE
from tests.support.process_tree import running_in
from tests.support.programs import PROGRAM, start_program

LAUNCHER = "tests.chaos.launcher"


class Started:
    """A started publisher: driver, JVM, workers, all in one session of the system."""

    def __init__(
        self, words: list[str], *, module: str = PROGRAM, marks: Path | None = None
    ) -> None:
        # a pipe that nobody reads would halt it; it appends wherever we read
        self._messages = tempfile.TemporaryFile("a+")  # noqa: SIM115
        self.process = start_program(
            words,
            module=module,
            environment={VARIABLE: str(marks)} if marks else {},
            starts_session=True,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
        )
        self._seen = {self.process.pid}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._messages.close()

    def members(self) -> set[int]:
        """All its processes that run."""
        self._seen = running_in(self.process.pid)
        return self._seen

    def kill(self) -> None:
        """SIGKILL to the driver, then to all others; none is left when it returns."""
        deadline = time.monotonic() + 30
        self._signal(signal.SIGKILL, [self.process.pid, *self._seen])
        while left := self.members():
            self._signal(signal.SIGKILL, left)
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {left} do not end")
            self.process.poll()
            time.sleep(0.005)
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP to all, the driver first."""
        self._signal(signal.SIGSTOP, [self.process.pid, *self._seen])
        for _ in range(2):  # what they started meanwhile, too
            self._signal(signal.SIGSTOP, self.members())

    def resume(self) -> None:
        """SIGCONT to all."""
        self._signal(signal.SIGCONT, self.members())

    def wait_until(self, reached: Callable[[], bool], seconds: float = 120) -> None:
        """Returns once ``reached()``; fails if the publisher ends before, or after ``seconds``."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert self.process.poll() is None, self.messages()
            assert time.monotonic() < deadline, self.messages()
            time.sleep(0.05)

    def wait_for_end(self, seconds: float = 120) -> tuple[int, str]:
        """Exit code and what it said, when it has ended by itself; fails if it does not end."""
        try:
            return self.process.wait(seconds), self.messages()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self.messages()}") from None

    def messages(self) -> str:
        """Returns its standard error so far."""
        self._messages.seek(0)
        return self._messages.read()

    def _signal(self, number: int, processes: list[int] | set[int]) -> None:
        for process in dict.fromkeys(processes):
            with suppress(ProcessLookupError):
                os.kill(process, number)
