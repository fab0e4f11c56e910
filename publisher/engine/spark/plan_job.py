"""The one Spark job of a run: read the splits, bring each object's changes into its lane, plan."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.console import Progress
from publisher.engine.shuffle_pieces import KEYS, PIECE_SCHEMA, pack, unpack
from publisher.engine.spark.event_time_ranks import rank_by_time
from publisher.engine.spark.progress import report_progress
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.engine.tasks import Work, plan_lane, read_split
from publisher.journal.lane_writer import LaneResult
from publisher.model.change import RECORD_SCHEMA

_RESULT = "result string"
Tasks = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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
            .mapInArrow(_planner(work, staging, documents), _RESULT)
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
    places = spark.range(0, splits, 1, splits)
    by_time = work.sources_by_time()
    packed = from_arrow_schema(PIECE_SCHEMA)
    if not by_time:
        return places.mapInArrow(_reader(work), packed)
    # Spark has to see the events to rank them
    records = places.mapInArrow(_record_reader(work), from_arrow_schema(RECORD_SCHEMA))
    return rank_by_time(records, by_time, work.lanes).mapInArrow(pack, packed)


def _reader(work: Work) -> Tasks:
    read_records = _record_reader(work)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            yield from pack(read_records(batches))

    return read


def _record_reader(work: Work) -> Tasks:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from read_split(work, number)

    return read


def _planner(work: Work, staging: Path, documents: Path) -> Tasks:
    # tasks of a killed run may still write for a moment: use other file names
    run = secrets.token_hex(4)

    def plan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            batches = (batch for batch in batches if batch.num_rows)
            first = next(batches, None)
            if first is None:
                return
            context = TaskContext.get()
            assert context is not None
            result = plan_lane(
                work,
                unpack(chain([first], batches)),
                lane=first.column("lane")[0].as_py(),
                staging=staging,
                documents=documents,
                attempt=f"{run}-{context.taskAttemptId()}",
            )
            yield pa.RecordBatch.from_pydict({"result": [result.to_json()]})

    return plan
