"""Marks of what a publisher is doing: its processes write them, whoever kills it reads them.

They go through a named pipe; a mark is written whole or not at all.
"""

from __future__ import annotations

import functools
import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

PHASES = ("read", "plan", "commit", "dispatch", "acknowledge")
TRANSACTION = "transaction"
"""A part of dispatch: the brokers have documents of a transaction that is not committed."""
WRITTEN = "written"
"""A part of acknowledge: rows are changed and the change is not committed."""
PARTS = {TRANSACTION: "dispatch", WRITTEN: "acknowledge"}
"""Parts of phases, and the phase of each."""
VARIABLE = "CHAOS_MARKS"
"""Environment variable with the path of the pipe."""


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Marks the begin and the end of a phase in this process."""
    mark("+", name)
    try:
        yield
    finally:
        mark("-", name)


def mark(sign: str, name: str) -> None:
    """Says that a phase begins (+) or ends (-)."""
    pipe = os.open(os.environ[VARIABLE], os.O_WRONLY)
    try:
        os.write(pipe, f"{sign} {name} {os.getpid()} {time.monotonic()}\n".encode())
    finally:
        os.close(pipe)


def during(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Puts marks around a function."""

    @functools.wraps(function)
    def call_with_marks(*words: Any, **named: Any) -> Any:
        with phase(name):
            return function(*words, **named)

    return call_with_marks


def while_read(name: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Puts marks around a generator."""

    @functools.wraps(function)
    def call_with_marks(*words: Any, **named: Any) -> Iterator[Any]:
        with phase(name):
            yield from function(*words, **named)

    return call_with_marks


@dataclass
class Marks:
    """The reading end of the pipe: the phases that are open now, in the order of their begin."""

    path: Path
    open: dict[tuple[str, int], float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    """Seconds that a phase took when last it was seen to its end."""
    _rest: bytes = b""

    def __enter__(self) -> Self:
        os.mkfifo(self.path, 0o600)
        self._pipe = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)  # a writer, too: it never ends
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pipe)
        self.path.unlink()

    def clear(self) -> None:
        """Forgets what a process has said that is gone or halted."""
        self.drain()
        self.open.clear()
        self._rest = b""

    def take(self, seconds: float) -> bool:
        """Takes what has come, waiting for it so long; whether there was any."""
        if not select.select([self._pipe], [], [], seconds)[0]:
            return False
        *lines, self._rest = (self._rest + os.read(self._pipe, 1 << 16)).split(b"\n")
        for line in lines:
            sign, name, process, moment = line.decode().split()
            self._note(sign, name, int(process), float(moment))
        return True

    def drain(self) -> None:
        """Takes all that has come."""
        while self.take(0):
            pass

    def is_open(self, name: str) -> bool:
        """True while a process is in a phase."""
        return any(known == name for known, _ in self.open)

    @property
    def last(self) -> str | None:
        """The phase that was begun last and is not ended."""
        return max(self.open, key=lambda key: self.open[key])[0] if self.open else None

    def _note(self, sign: str, name: str, process: int, moment: float) -> None:
        if sign == "+":
            self.open[name, process] = moment
        else:
            begun = self.open.pop((name, process), None)
            if begun is not None:
                self.took[name] = moment - begun
