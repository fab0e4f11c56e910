"""The local engine: runs tasks in this process, or those of large runs in several processes."""

# ruff: noqa: PLC0415 - polls without rows plan nothing, small runs need no other processes, and only one
# command counts activity

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from publisher.console import Phase, Progress
from publisher.engine.contract import InputSize
from publisher.engine.local.event_time_ranks import rank_by_time
from publisher.engine.local.external_sort import MEMORY_BYTES, ExternalSort
from publisher.engine.shuffle_pieces import (
    KEYS,
    PIECE_SCHEMA,
    gather_records,
    pack_gathered,
    sort_lanes,
    unpack,
)
from publisher.engine.survey import SurveyWork
from publisher.engine.tasks import Work, read_split
from publisher.journal.conservation import EngineUse
from publisher.journal.lane_result import LaneResult
from publisher.sources.task_runner import ShuffleWork

if TYPE_CHECKING:
    from publisher.activity.counts import Activity
    from publisher.activity.work import Samples
    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
    from publisher.engine.local.parallel_tasks import ParallelTasks

ONE_PROCESS = InputSize(rows=250_000, bytes=32_000_000)
"""Maximum input of a run in this process alone: to start other processes takes half a second."""


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

        A run beyond ``one_process`` works in ``processes``, by default one for each core.  Reading more
        than ``max_bytes`` of records in a smaller run raises ``OutgrownError``."""
        self.use = EngineUse("local", reason)
        self._memory = memory
        self._max_bytes = max_bytes
        self._one_process = one_process
        self._process_count = processes or len(os.sched_getaffinity(0))
        self._parallel: ParallelTasks | None = None
        self._is_large = False
        self.seconds = 0.0
        self.transactions = self.retries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_idle_processes()

    def warm_up(self) -> None:
        """Starts nothing: the input may be small."""

    def stop_idle_processes(self) -> None:
        """See ``Engine.stop_idle_processes``."""
        if self._parallel is not None:
            self._parallel.close()
            self._parallel = None

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
        attempt = secrets.token_hex(4)
        with ExternalSort(work.schema, ("partition",), memory=self._memory) as pieces:
            for part in range(work.parts):
                for batch in self._limit_bytes(work.read(part)):
                    pieces.add(batch)
            return [
                work.process(partition, rows, attempt)
                for partition, rows in _group(pieces.sorted_batches(), "partition")
            ]

    def plan(
        self, work: Work, *, staging: Path, documents: Path, progress: Progress | None = None
    ) -> list[LaneResult]:
        """See ``Engine.plan``."""
        from publisher.engine.lane_tasks import plan_lane

        report = progress or _report_nothing
        parallel = self._parallel_tasks(is_large=self._is_large)
        if parallel is not None and not work.sources_by_time():
            return parallel.plan(work, staging, documents, report)
        attempt = secrets.token_hex(4)
        results: dict[int, LaneResult] = {}

        def plan(lane: int, records: Iterable[pa.RecordBatch]) -> None:
            report(Phase.PLANNING, lane, work.lanes)
            results[lane] = plan_lane(
                work,
                records,
                lane=lane,
                staging=staging,
                documents=documents,
                attempt=attempt,
                syncs=False,
            )

        with closing(self._read_lanes(work, staging, report)) as lanes:
            for lane, records in lanes:
                plan(lane, records)
        for lane in range(work.lanes):
            if lane not in results:
                plan(lane, ())
        return [results[lane] for lane in range(work.lanes)]

    def _read_lanes(
        self, work: Work, folder: Path, report: Progress
    ) -> Generator[tuple[int, Iterable[pa.RecordBatch]]]:
        """Yields the lanes that have records, and their records in order; packs more than one batch."""
        limited = self._limit_bytes(_read(work, report))
        batches = gather_records(rank_by_time(limited, work, folder, self._memory))
        first = list(islice(batches, 2))
        if len(first) < 2 and sum(batch.nbytes for batch in first) <= self._memory:
            for records in first:
                for lane, of_lane in sort_lanes(records):
                    yield lane, (of_lane,)
            return
        with ExternalSort(PIECE_SCHEMA, ("lane", *KEYS), folder, self._memory) as pieces:
            for batch in pack_gathered(chain(first, batches)):
                pieces.add(batch)
            for lane, rows in _group(pieces.sorted_batches(), "lane"):
                yield lane, unpack(rows)

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

    def count_activity(self, samples: Samples) -> Activity:
        """See ``Engine.count_activity``."""
        from publisher.engine.local.activity import count_activity

        return count_activity(samples, self._memory)

    def _parallel_tasks(self, *, is_large: bool) -> ParallelTasks | None:
        """Returns the tasks of large work in several processes; ``None`` if this process does it alone."""
        if not is_large or self._process_count == 1:
            return None
        if self._parallel is None:
            from publisher.engine.local.parallel_tasks import ParallelTasks
            from publisher.engine.local.worker_processes import WorkerProcesses

            self._parallel = ParallelTasks(WorkerProcesses(self._process_count))
        return self._parallel

    def _limit_bytes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches; raises ``OutgrownError`` if they have more bytes than the engine may read."""
        size = 0
        for batch in batches:
            size += batch.nbytes
            if not self._is_large and self._max_bytes is not None and size > self._max_bytes:
                raise OutgrownError
            yield batch


def _report_nothing(phase: Phase, done: int, total: int) -> None:
    """Replaces a progress bar that is not shown."""


def _read(work: Work, report: Progress) -> Iterator[pa.RecordBatch]:
    """Reads the records of all splits."""
    splits = len(work.splits())
    for number in range(splits):
        report(Phase.READING, number, splits)
        yield from read_split(work, number)


def _group(
    batches: Iterable[pa.RecordBatch], key: str
) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Groups sorted batches by an integer column; each group must be read before the next one."""
    return groupby(_cut(batches, key), key=lambda batch: int(batch.column(key)[0].as_py()))


def _cut(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[pa.RecordBatch]:
    """Cuts batches where the column changes."""
    for batch in batches:
        changes = np.flatnonzero(np.diff(batch.column(key).to_numpy())) + 1
        for start, end in pairwise([0, *changes.tolist(), batch.num_rows]):
            yield batch.slice(start, end - start)
