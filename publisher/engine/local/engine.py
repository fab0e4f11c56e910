"""The local engine: runs tasks in this process, or those of large runs in several processes."""

# ruff: noqa: PLC0415 - polls without rows plan nothing, and small runs need no other processes

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from publisher.console import Phase, Progress
from publisher.engine.contract import InputSize
from publisher.ledger.conservation import EngineUse

if TYPE_CHECKING:
    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
    from publisher.engine.local.parallel_tasks import ParallelTasks
    from publisher.engine.local.serial_tasks import SerialTasks
    from publisher.engine.local.worker_processes import WorkerProcesses
    from publisher.engine.survey import SurveyWork
    from publisher.engine.tasks import Work
    from publisher.ledger.lane_result import LaneResult
    from publisher.sources.task_runner import ShuffleWork

ONE_PROCESS = InputSize(rows=250_000, bytes=32_000_000)
"""Maximum input of a run in this process alone: to start other processes takes half a second."""
MEMORY_BYTES = 128 << 20
"""Bytes of records that are held in memory."""


class OutgrownError(Exception):
    """The input turned out to be larger than expected; nothing is staged yet."""


class LocalEngine:
    """Implements ``engine.contract.Engine`` without Spark, in bounded memory."""

    def __init__(
        self,
        reason: str = "set by engine",
        *,
        memory: int = MEMORY_BYTES,
        max_bytes: int | None = None,
        one_process: InputSize = ONE_PROCESS,
        processes: int | None = None,
    ) -> None:
        """Packed records beyond ``memory`` bytes are sorted in files.

        A run beyond ``one_process`` works in ``processes``, by default one for each core if our command line
        runs, else one.  Reading more
        than ``max_bytes`` of records in a smaller run raises ``OutgrownError``."""
        self.use = EngineUse("local", reason)
        self._memory = memory
        self._max_bytes = max_bytes
        self._one_process = one_process
        self._process_count = processes or _cores()
        self._starting = Lock()
        """Held while the processes are created: ``warm_up`` may run in another thread."""
        self._processes: WorkerProcesses | None = None
        self._parallel: ParallelTasks | None = None
        self._is_large = False
        self.seconds = 0.0
        self.transactions = self.retries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_idle_processes()

    def warm_up(self, rows: int = 0) -> None:
        """See ``Engine.warm_up``."""
        if self._needs_processes(is_large=InputSize(rows).exceeds(self._one_process)):
            self._worker_processes()

    def stop_idle_processes(self) -> None:
        """See ``Engine.stop_idle_processes``."""
        if self._processes is not None:
            self._processes.close()
        self._processes = self._parallel = None

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """See ``Engine.expect``: starts processes if the input is large."""
        self._is_large = measure().exceeds(self._one_process)
        self._parallel_tasks(is_large=self._is_large)

    def survey(self, work: SurveyWork) -> list[Any]:
        """See ``Engine.survey``."""
        if parallel := self._parallel_tasks(is_large=self._is_large):
            return parallel.survey(work)
        return [facts for _, facts in work.facts(range(len(work.items)))]

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``Engine.shuffle``."""
        if parallel := self._parallel_tasks(is_large=self._is_large):
            return parallel.shuffle(work)
        return self._serial_tasks().shuffle(work)

    def plan(
        self, work: Work, *, staging: Path, documents: Path, progress: Progress | None = None
    ) -> list[LaneResult]:
        """See ``Engine.plan``."""
        report = progress or _report_nothing
        parallel = self._parallel_tasks(is_large=self._is_large)
        if parallel is not None and not work.sources_by_time():
            return parallel.plan(work, staging, documents, report)
        return self._serial_tasks().plan(work, staging, documents, report)

    def send(
        self, lanes: Sequence[LaneSendTask], progress: Progress | None = None
    ) -> list[LaneSendReport]:
        """See ``Engine.send``."""
        documents = sum(lane.total for lane in lanes)
        is_large = self._is_large or documents > self._one_process.rows
        parallel = self._parallel_tasks(is_large=is_large)
        sending = parallel.send(lanes) if parallel else (lane.send() for lane in lanes)
        reports: list[LaneSendReport] = []
        show, sent = progress or _report_nothing, 0
        show(Phase.SENDING, sent, documents)
        for lane, report in zip(lanes, sending, strict=True):
            reports.append(report)
            sent += lane.total
            show(Phase.SENDING, sent, documents)
        self.transactions += sum(report.transactions for report in reports)
        self.retries += sum(report.retries for report in reports)
        return reports

    def _parallel_tasks(self, *, is_large: bool) -> ParallelTasks | None:
        """Returns the tasks of large work in several processes; ``None`` if this process does it alone."""
        if not self._needs_processes(is_large=is_large):
            return None
        if self._parallel is None:
            processes = self._worker_processes()  # they start during the import
            from publisher.engine.local.parallel_tasks import ParallelTasks

            self._parallel = ParallelTasks(processes)
        return self._parallel

    def _needs_processes(self, *, is_large: bool) -> bool:
        return is_large and self._process_count > 1

    def _worker_processes(self) -> WorkerProcesses:
        """Returns the processes of large work, which start in the background."""
        with self._starting:
            if self._processes is None:
                from publisher.engine.local.worker_processes import WorkerProcesses

                self._processes = WorkerProcesses(self._process_count)
            return self._processes

    def _serial_tasks(self) -> SerialTasks:
        """Returns the tasks of work in this process alone."""
        from publisher.engine.local.serial_tasks import SerialTasks

        return SerialTasks(self._memory, None if self._is_large else self._max_bytes)


def _cores() -> int:
    """The processes of a large run: a new process would run a script without a ``__main__`` guard again."""
    return len(os.sched_getaffinity(0)) if "publisher.cli.main" in sys.modules else 1


def _report_nothing(phase: Phase, done: int, total: int) -> None:
    """Replaces a progress bar that is not shown."""
