"""Processes that share the work of a large run between the cores of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from publisher.engine.garbage import collect_rarely
from publisher.errors import FatalError

_MODULES = "publisher.engine.local.worker_modules"
"""Imports the modules of the processes once, before they are forked."""

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class WorkerProcesses:
    """Calls functions in other processes, which start with the first call.

    The processes also end when this process ends, however that happens: each reads from a pipe whose
    other end only this process holds.
    """

    def __init__(self, count: int) -> None:
        """Starts the process that forks the others, but does not wait for it."""
        self._count = count
        self._executor: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None
        forkserver.set_forkserver_preload([_MODULES])
        forkserver.ensure_running()

    def close(self) -> None:
        """Ends the processes, even in the middle of a call; a later call starts others."""
        if self._executor is not None and self._lifeline is not None:
            self._lifeline.close()
            self._executor.shutdown(cancel_futures=True)
            self._executor = self._lifeline = None

    def each(
        self, function: Callable[[Argument], Result], arguments: Iterable[Argument]
    ) -> Iterator[Result]:
        """Calls the function with each argument; yields the results in the order of the arguments.

        After an error all processes end, so that no other call goes on.

        Raises:
            FatalError: A process was killed.
        """
        try:
            yield from self._start().map(function, arguments)
        except BrokenProcessPool:
            self.close()
            raise FatalError(
                "a worker process was killed: memory ran out, or a file was truncated while it was read;"
                " use more memory, do not change files while they are read, and start again"
            ) from None
        except BaseException:
            self.close()
            raise

    def _start(self) -> ProcessPoolExecutor:
        if self._executor is None:
            context = get_context("forkserver")
            lifeline, self._lifeline = context.Pipe(duplex=False)
            self._executor = ProcessPoolExecutor(self._count, context, _begin, (lifeline,))
        return self._executor


def _begin(lifeline: Connection) -> None:
    """Prepares a worker process: only the process that started it reacts to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    collect_rarely()


def _end_with_parent(lifeline: Connection) -> None:
    with closing(lifeline):
        lifeline.poll(None)
    os._exit(1)
