"""The local engine: tasks in this process, or those of large runs in one process for each core."""

# ruff: noqa: PLC0415 - small runs need no other processes

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from publisher.console import Phase, Progress
from publisher.engine.contract import Apply, Batches, InputSize, Item, Packing, Result
from publisher.engine.garbage import collect_rarely
from publisher.engine.packed_files import divide_index, read_packed, write_packed
from publisher.errors import FatalError
from publisher.model.engine_use import EngineUse
from publisher.no_pandas import hide_pandas

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

ONE_PROCESS = InputSize(rows=250_000, bytes=32_000_000)
"""Maximum input of a run in this process alone: to start other processes takes about a second."""
MEMORY_BYTES = 32 << 20
"""Bytes of rows that an exchange holds in memory; more are packed into files."""

Part = Callable[[], Iterable[pa.RecordBatch]]
"""Reads one partition; a plain value, which other processes may call."""


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
        parts = [partial(decode, split) for split in splits]
        return LocalRows(self, lambda *_: parts)

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
        results: list[Result] = []
        name, total = phase
        for result in self._results(task, items, is_large=self.works_in_processes(is_large)):
            results.append(result)
            if progress is not None:
                progress(name, total * len(results) // len(items), total)
        return results

    def works_in_processes(self, is_large: bool | None = None) -> bool:
        """Returns whether the tasks of the run share the cores."""
        return (self._is_large if is_large is None else is_large) and self._count > 1

    def _results(
        self, task: Callable[[Item], Result], items: Sequence[Item], *, is_large: bool
    ) -> Iterable[Result]:
        if not is_large:
            collect_rarely()
            return map(task, items)
        return self._in_processes(task, items)

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


class LocalRows:
    """Implements ``engine.contract.Rows``: reads when the results are asked for."""

    def __init__(
        self,
        engine: LocalEngine,
        open_parts: Callable[[ExitStack, Progress | None], Sequence[Part]],
    ) -> None:
        """``open_parts`` prepares the partitions; the stack removes their files."""
        self._engine = engine
        self._open_parts = open_parts

    def exchange(self, packing: Packing, partitions: int, folder: Path | None = None) -> LocalRows:
        """See ``Rows.exchange``."""
        return LocalRows(self._engine, partial(self._exchange, packing, partitions, folder))

    def apply(self, task: Apply) -> LocalRows:
        """See ``Rows.apply``."""

        def open_parts(stack: ExitStack, progress: Progress | None) -> Sequence[Part]:
            parts = self._open_parts(stack, progress)
            return [partial(_apply, task, number, part) for number, part in enumerate(parts)]

        return LocalRows(self._engine, open_parts)

    def gather(
        self, task: Callable[[int, Batches], Result], progress: Progress | None = None
    ) -> list[Result]:
        """See ``Rows.gather``."""
        with ExitStack() as stack:
            parts = list(enumerate(self._open_parts(stack, progress)))
            phase = Phase.PLANNING, len(parts)
            return self._engine.each(partial(_call, task), parts, phase, progress)

    def collect(self) -> pa.Table:
        """See ``Rows.collect``."""
        return pa.Table.from_batches(chain.from_iterable(self.gather(_list_rows)))

    def _exchange(
        self,
        packing: Packing,
        partitions: int,
        folder: Path | None,
        stack: ExitStack,
        progress: Progress | None,
    ) -> Sequence[Part]:
        parts = self._open_parts(stack, progress)
        if not self._engine.works_in_processes():
            few, more = self._take_few(_read_all(parts, progress))
            if packing.divide is not None and more is None:
                of_partitions = dict(packing.divide(pa.concat_batches(few))) if few else {}
                return [
                    partial(iter, [of_partitions[number]] if number in of_partitions else [])
                    for number in range(partitions)
                ]
            parts = [partial(chain, few, more or ())]
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = TemporaryDirectory(prefix="xds-publisher-rows-", dir=folder)
        write = partial(_pack, packing, Path(stack.enter_context(place)))
        phase = Phase.READING, len(parts)
        indexes = self._engine.each(write, list(enumerate(parts)), phase, progress)
        return [
            partial(_unpack, packing, index) for index in divide_index(indexes, packing, partitions)
        ]

    def _take_few(
        self, rows: Iterable[pa.RecordBatch]
    ) -> tuple[list[pa.RecordBatch], Iterable[pa.RecordBatch] | None]:
        """Takes rows while they fit in memory; returns them, and the others, ``None`` if there are none."""
        few: list[pa.RecordBatch] = []
        size = 0
        rows = iter(rows)
        for batch in rows:
            few.append(batch)
            size += batch.nbytes
            if size > self._engine.memory:
                return few, rows
        return few, None


def _read_all(parts: Sequence[Part], progress: Progress | None) -> Iterable[pa.RecordBatch]:
    for number, part in enumerate(parts):
        if progress is not None:
            progress(Phase.READING, number, len(parts))
        yield from part()


def _pack(packing: Packing, folder: Path, numbered: tuple[int, Part]) -> pa.Table:
    number, part = numbered
    return write_packed(packing.pack(part()), packing, folder / str(number))


def _unpack(packing: Packing, index: pa.Table) -> Batches:
    return packing.unpack(read_packed(index, packing))


def _apply(task: Apply, number: int, part: Part) -> Iterable[pa.RecordBatch]:
    return task(number, iter(part()))


def _call(task: Callable[[int, Batches], Result], numbered: tuple[int, Part]) -> Result:
    number, part = numbered
    return task(number, iter(part()))


def _list_rows(_: int, rows: Batches) -> list[pa.RecordBatch]:
    return list(rows)


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
