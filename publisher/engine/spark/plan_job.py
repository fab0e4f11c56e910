"""The one Spark job of a run: read the splits, bring each object's changes into its lane, plan."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
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

_BY_POSITION = ["source", "part", "rank", "high", "low", "ordinal", "split", "row"]
"""Sort columns of the records of a lane that are not packed."""


def plan_in_lanes(
    spark: SparkSession,
    work: Work,
    *,
    staging: Path,
    documents: Path,
    progress: Progress | None = None,
) -> list[LaneResult]:
    """Plans all lanes of the work; stages their files, and commits nothing.

    ``staging`` and ``documents`` are directories that all executors see.  The results are those of
    the attempts that Spark counts as successful, in the order of lanes.

    Raises:
        PublisherError: The error of a task.
    """
    by_time = _ordered_by_time(work)
    packed = not by_time  # to rank events by time the engine has to see them
    with decode_errors(), report_progress(spark, progress):
        records = _records(spark, work, by_time, packed=packed)
        lanes = (
            records.repartitionById(work.lanes, "lane")
            .sortWithinPartitions(*(KEYS if packed else _BY_POSITION))
            .mapInArrow(_planner(work, staging, documents, packed=packed), _RESULT)
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


def _ordered_by_time(work: Work) -> list[int]:
    """Numbers of the sources whose events are ordered by event time."""
    return [
        number
        for number, source in enumerate(work.sources)
        if source.polls is not None and source.polls.future_events
    ]


def _records(spark: SparkSession, work: Work, by_time: list[int], *, packed: bool) -> DataFrame:
    """Reads the records of all splits, one task for each split, and ranks them if needed."""
    splits = len(work.splits())
    schema = PIECE_SCHEMA if packed else RECORD_SCHEMA
    records = spark.range(0, splits, 1, splits).mapInArrow(
        _reader(work, packed=packed), from_arrow_schema(schema)
    )
    return rank_by_time(records, by_time, work.lanes) if by_time else records


def _reader(work: Work, *, packed: bool) -> Tasks:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            records = (
                records
                for batch in batches
                for number in batch.column("id").to_pylist()
                for records in read_split(work, number)
            )
            yield from pack(records) if packed else records

    return read


def _planner(work: Work, staging: Path, documents: Path, *, packed: bool) -> Tasks:
    # a task of a killed run may outlive it for a moment: use other names
    run = secrets.token_hex(4)

    def plan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            batches = (batch for batch in batches if batch.num_rows)
            first = next(batches, None)
            if first is None:
                return
            records = _chain(first, batches)
            context = TaskContext.get()
            assert context is not None
            result = plan_lane(
                work,
                unpack(records) if packed else records,
                lane=first.column("lane")[0].as_py(),
                staging=staging,
                documents=documents,
                attempt=f"{run}-{context.taskAttemptId()}",
            )
            yield pa.RecordBatch.from_pydict({"result": [result.to_json()]})

    return plan


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
