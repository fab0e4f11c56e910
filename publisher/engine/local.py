"""The local engine: tasks in this process, or those of large runs in one process for each core."""

# ruff: noqa: PLC0415 - polls without rows read nothing, and small runs need no other processes

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Self

from publisher.console import Phase, Progress
from publisher.engine.contract import InputSize, Item, Result
from publisher.engine.garbage import collect_rarely
from publisher.errors import FatalError
from publisher.model.engine_use import EngineUse
from publisher.no_pandas import hide_pandas

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    import pyarrow as pa

    from publisher.engine.local_rows import LocalRows

ONE_PROCESS = InputSize(rows=250_000, bytes=32_000_000)
"""Maximum input of a run in this process alone: to start other processes takes about a second."""
MEMORY_BYTES = 32 << 20
"""Bytes of rows that an exchange holds in memory; more are packed into files."""


class LocalEngine:
    """Implements ``engine.contract.Engine`` without Spark."""

    repeats_tasks = False
    seconds = 0.0

    def __init__(
        self,
        reason: str = "set by engine",
        *,
        memory: int = MEMORY_BYTES,
        one_process: InputSize = ONE_PROCESS,
        processes: int | None = None,
    ) -> None:
        """A run beyond ``one_process`` works in ``processes``: by default one for each core if our command
        line runs, else one, because a new process would run a script without a ``__main__`` guard again."""
        self.use = EngineUse("local", reason)
        self.memory = memory
        self._one_process = one_process
        of_command_line = "publisher.cli.main" in sys.modules
        self._count = processes or (len(os.sched_getaffinity(0)) if of_command_line else 1)
        self._is_large = False
        self._pool: ProcessPoolExecutor | None = None
        self._lifeline: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.rest()

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """See ``Engine.expect``."""
        self._is_large = measure().exceeds(self._one_process)

    def rest(self) -> None:
        """See ``Engine.rest``: ends the other processes, even in the middle of a task."""
        if self._pool is not None and self._lifeline is not None:
            self._lifeline.close()
            self._pool.shutdown(cancel_futures=True)
            self._pool = self._lifeline = None

    def read(
        self,
        splits: Sequence[Item],
        decode: Callable[[Item], Iterable[pa.RecordBatch]],
        name: str,  # noqa: ARG002 - Spark shows it
    ) -> LocalRows:
        """See ``Engine.read``."""
        from publisher.engine.local_rows import read_rows

        return read_rows(self, splits, decode)

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        name: str,  # noqa: ARG002 - Spark shows it
        *,
        rows: int = 0,
        progress: Progress | None = None,
    ) -> list[Result]:
        """See ``Engine.map``."""
        is_large = self._is_large or rows > self._one_process.rows
        total = rows or len(items)
        return self.each(task, items, (Phase.SENDING, total), progress, is_large=is_large)

    def each(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        phase: tuple[Phase, int],
        progress: Progress | None,
        *,
        is_large: bool | None = None,
    ) -> list[Result]:
        """Calls a task for each item, in the processes of a large run; reports ``phase`` with its total.

        After an error all processes end, so that no other task goes on.

        Raises:
            FatalError: A process was killed.
        """
        calls = self._in_processes if self.shares_cores(is_large=is_large) else _one_by_one
        results: list[Result] = []
        name, total = phase
        for result in calls(task, items):
            results.append(result)
            if progress is not None:
                progress(name, total * len(results) // len(items), total)
        return results

    def shares_cores(self, *, is_large: bool | None = None) -> bool:
        """Returns whether the tasks of the run, or of larger work, run in several processes."""
        return (self._is_large if is_large is None else is_large) and self._count > 1

    def _in_processes(
        self, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterable[Result]:
        from concurrent.futures.process import BrokenProcessPool

        try:
            yield from self._processes().map(task, items)
        except BrokenProcessPool:
            self.rest()
            raise FatalError(
                "a worker process was killed: memory ran out, or a file was truncated while it was read;"
                " use more memory, do not change files while they are read, and start again"
            ) from None
        except BaseException:
            self.rest()
            raise

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            context = get_context("spawn")
            lifeline, self._lifeline = context.Pipe(duplex=False)
            self._pool = ProcessPoolExecutor(self._count, context, _begin, (lifeline,))
        return self._pool


def _one_by_one(task: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
    collect_rarely()
    return map(task, items)


def _begin(lifeline: Connection) -> None:
    """Prepares another process: it ignores Ctrl-C, and ends when the process that started it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    hide_pandas()
    collect_rarely()


def _end_with_parent(lifeline: Connection) -> None:
    with closing(lifeline):
        lifeline.poll(None)
    os._exit(1)
