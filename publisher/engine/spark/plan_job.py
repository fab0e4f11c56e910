"""The one Spark job of a run: read the splits, bring each object's changes into its lane, plan."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.console import Progress
from publisher.engine.shuffle_pieces import KEYS, PIECE_SCHEMA, pack, unpack
from publisher.engine.spark.event_time_ranks import rank_by_time
from publisher.engine.spark.progress import report_progress
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.engine.spark.task_functions import RESULT, Tasks, each_number, each_partition
from publisher.engine.tasks import Work, plan_lane, read_split
from publisher.journal.lane_writer import LaneResult
from publisher.model.change import RECORD_SCHEMA


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
    splits = len(work.splits())
    numbers = spark.range(0, splits, 1, splits)
    by_time = work.sources_by_time()
    packed = from_arrow_schema(PIECE_SCHEMA)
    if not by_time:
        return numbers.mapInArrow(_reader(work), packed)
    # Spark ranks the events, so they must not be packed yet
    records = numbers.mapInArrow(
        each_number(partial(read_split, work)), from_arrow_schema(RECORD_SCHEMA)
    )
    return rank_by_time(records, by_time, work.lanes).mapInArrow(pack, packed)


def _reader(work: Work) -> Tasks:
    read_records = each_number(partial(read_split, work))

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
