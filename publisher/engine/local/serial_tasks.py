"""The operations of the local engine in this process, one task after the other."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, groupby, islice, pairwise
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from publisher.console import Phase, Progress
from publisher.engine.lane_tasks import plan_lanes
from publisher.engine.local.engine import OutgrownError
from publisher.engine.local.event_time_ranks import rank_by_time
from publisher.engine.local.external_sort import ExternalSort
from publisher.engine.shuffle_pieces import (
    KEYS,
    PIECE_SCHEMA,
    gather_records,
    pack_gathered,
    sort_lanes,
    unpack,
)
from publisher.engine.tasks import Work, read_split
from publisher.ledger.lane_result import LaneResult
from publisher.sources.task_runner import ShuffleWork


class SerialTasks:
    """Runs the operations of an engine in this process, in bounded memory."""

    def __init__(self, memory: int, max_bytes: int | None) -> None:
        """Packed records beyond ``memory`` bytes are sorted in files.

        Reading more than ``max_bytes`` of records raises ``OutgrownError``; ``None``: no limit."""
        self._memory = memory
        self._max_bytes = max_bytes

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``Engine.shuffle``."""
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
        self, work: Work, staging: Path, documents: Path, report: Progress
    ) -> list[LaneResult]:
        """See ``Engine.plan``."""
        attempt = "" if work.in_place else secrets.token_hex(4)
        with closing(self._all_lanes(work, staging, report)) as lanes:
            results = plan_lanes(
                work, lanes, staging=staging, documents=documents, attempt=attempt, syncs=False
            )
            return sorted(results, key=attrgetter("lane"))

    def _all_lanes(
        self, work: Work, folder: Path, report: Progress
    ) -> Generator[tuple[int, Iterable[pa.RecordBatch]]]:
        """Yields each lane with its records, those without records at the end."""
        empty = set(range(work.lanes))
        with closing(self._read_lanes(work, folder, report)) as lanes:
            for lane, records in lanes:
                report(Phase.PLANNING, lane, work.lanes)
                empty.remove(lane)
                yield lane, records
        for lane in sorted(empty):
            report(Phase.PLANNING, lane, work.lanes)
            yield lane, ()

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
        with ExternalSort(PIECE_SCHEMA, ("lane", *KEYS), folder, memory=self._memory) as pieces:
            for batch in pack_gathered(chain(first, batches)):
                pieces.add(batch)
            for lane, rows in _group(pieces.sorted_batches(), "lane"):
                yield lane, unpack(rows)

    def _limit_bytes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the batches; raises ``OutgrownError`` if they have more bytes than may be read."""
        size = 0
        for batch in batches:
            size += batch.nbytes
            if self._max_bytes is not None and size > self._max_bytes:
                raise OutgrownError
            yield batch


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
