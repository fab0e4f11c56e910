"""The one Spark job of a run: read the splits, bring each object's changes into its lane, plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.console import Progress
from publisher.engine.lane_tasks import plan_lane
from publisher.engine.shuffle_pieces import KEYS, PIECE_SCHEMA, pack, unpack
from publisher.engine.spark.event_time_ranks import rank_by_time
from publisher.engine.spark.progress import report_progress
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.engine.spark.task_functions import RESULT, Tasks, each_number, each_partition
from publisher.engine.tasks import Work, read_split
from publisher.ledger.lane_result import LaneResult
from publisher.model.record_schema import RECORD_SCHEMA


def plan_in_lanes(
    spark: SparkSession,
    work: Work,
    *,
    staging: Path,
    documents: Path,
    progress: Progress | None = None,
) -> list[LaneResult]:
    """Plans all lanes of the work and stages their files; commits nothing.

    ``staging`` and ``documents`` are directories that all executors see.  The results are those of
    the attempts that Spark counts as successful, in the order of lanes.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors(), report_progress(spark, progress):
        lanes = (
            _pieces(spark, work)
            .repartitionById(work.lanes, "lane")
            .sortWithinPartitions(*KEYS)
            .mapInArrow(_planner(work, staging, documents), RESULT)
        )
        results = {
            result.lane: result
            for result in (LaneResult.from_json(row[0]) for row in lanes.collect())
        }
    for lane in range(work.lanes):
        if lane not in results:  # Spark does not call the function for an empty partition
            results[lane] = plan_lane(
                work, (), lane=lane, staging=staging, documents=documents, attempt="driver"
            )
    return [results[lane] for lane in range(work.lanes)]


def _pieces(spark: SparkSession, work: Work) -> DataFrame:
    """Reads and packs the records of all splits, one task for each split."""
    by_time = work.sources_by_time()
    ranked: list[int] = []
    others: list[int] = []
    for number, (source, _) in enumerate(work.splits()):
        (ranked if source in by_time else others).append(number)
    packed = from_arrow_schema(PIECE_SCHEMA)
    pieces = _numbers(spark, len(others)).mapInArrow(_reader(work, others), packed)
    if not ranked:
        return pieces
    # Spark ranks the events, so they must not be packed yet
    records = _numbers(spark, len(ranked)).mapInArrow(
        _record_reader(work, ranked), from_arrow_schema(RECORD_SCHEMA)
    )
    events = rank_by_time(records, by_time, work.lanes).mapInArrow(pack, packed)
    return pieces.union(events) if others else events


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Numbers from 0, one in each partition."""
    return spark.range(0, count, 1, count or 1)


def _record_reader(work: Work, splits: Sequence[int]) -> Tasks:
    read = partial(read_split, work)
    return each_number(lambda number: read(splits[number]))


def _reader(work: Work, splits: Sequence[int]) -> Tasks:
    read_records = _record_reader(work, splits)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            yield from pack(read_records(batches))

    return read


def _planner(work: Work, staging: Path, documents: Path) -> Tasks:
    def plan(first: pa.RecordBatch, pieces: Iterator[pa.RecordBatch], attempt: str) -> str:
        result = plan_lane(
            work,
            unpack(pieces),
            lane=first.column("lane")[0].as_py(),
            staging=staging,
            documents=documents,
            attempt=attempt,
        )
        return result.to_json()

    return each_partition(plan)
