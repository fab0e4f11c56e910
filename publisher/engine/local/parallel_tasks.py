"""The operations of the local engine in several processes; pieces go from task to task in files."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.console import Phase, Progress
from publisher.engine.lane_tasks import plan_lane
from publisher.engine.local.piece_files import read_pieces, sort_index, write_pieces
from publisher.engine.local.worker_processes import WorkerProcesses
from publisher.engine.shuffle_pieces import KEYS, PIECE_SCHEMA, pack, unpack
from publisher.engine.survey import SurveyWork
from publisher.engine.tasks import Work, read_split
from publisher.ledger.lane_result import LaneResult
from publisher.sources.task_runner import ShuffleWork

if TYPE_CHECKING:
    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask


class ParallelTasks:
    """Runs the operations of an engine in several processes."""

    def __init__(self, processes: WorkerProcesses) -> None:
        self._processes = processes

    def survey(self, work: SurveyWork) -> list[Any]:
        """See ``Engine.survey``."""
        return list(self._processes.each(partial(_survey, work), range(len(work.items))))

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``Engine.shuffle``."""
        with TemporaryDirectory(prefix="xds-publisher-pieces-") as folder:
            read = partial(_read_part, work, Path(folder))
            index = sort_index(
                list(self._processes.each(read, range(work.parts))), work.schema, ("partition",)
            )
            process = partial(_process, work, secrets.token_hex(4))
            partitions = _divide(index, "partition", work.partitions)
            return list(self._processes.each(process, partitions))

    def plan(
        self, work: Work, staging: Path, documents: Path, report: Progress
    ) -> list[LaneResult]:
        """See ``Engine.plan``; only for work whose events are not ranked by time."""
        staging.mkdir(parents=True, exist_ok=True, mode=0o700)
        with TemporaryDirectory(prefix="xds-publisher-pieces-", dir=staging) as folder:
            splits = len(work.splits())
            parts: list[pa.Table] = []
            report(Phase.READING, 0, splits)
            read = partial(_read_split, work, Path(folder))
            for part in self._processes.each(read, range(splits)):
                parts.append(part)
                report(Phase.READING, len(parts), splits)
            index = sort_index(parts, PIECE_SCHEMA, ("lane", *KEYS))
            results: list[LaneResult] = []
            report(Phase.PLANNING, 0, work.lanes)
            plan = partial(_plan_lane, work, staging, documents, secrets.token_hex(4))
            for result in self._processes.each(plan, _divide(index, "lane", work.lanes)):
                results.append(result)
                report(Phase.PLANNING, len(results), work.lanes)
            return results

    def send(self, lanes: Sequence[LaneSendTask]) -> Iterator[LaneSendReport]:
        """See ``Engine.send``."""
        return self._processes.each(_send, lanes)


def _divide(index: pa.Table, column: str, count: int) -> Iterator[tuple[int, pa.Table]]:
    """Yields the part of an index with each number below ``count`` in a column."""
    for number in range(count):
        yield number, index.filter(pc.equal(index[column], number))


def _survey(work: SurveyWork, number: int) -> Any:
    ((_, facts),) = work.facts([number])
    return facts


def _read_part(work: ShuffleWork, folder: Path, part: int) -> pa.Table:
    return write_pieces(work.read(part), work.schema, folder / str(part))


def _process(work: ShuffleWork, attempt: str, part: tuple[int, pa.Table]) -> str:
    partition, index = part
    return work.process(partition, read_pieces(index, work.schema), attempt)


def _read_split(work: Work, folder: Path, number: int) -> pa.Table:
    return write_pieces(pack(read_split(work, number)), PIECE_SCHEMA, folder / str(number))


def _plan_lane(
    work: Work, staging: Path, documents: Path, attempt: str, part: tuple[int, pa.Table]
) -> LaneResult:
    lane, index = part
    return plan_lane(
        work,
        unpack(read_pieces(index, PIECE_SCHEMA)),
        lane=lane,
        staging=staging,
        documents=documents,
        attempt=attempt,
    )


def _send(lane: LaneSendTask) -> LaneSendReport:
    return lane.send()
