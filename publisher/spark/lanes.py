"""The one Spark job of a run: read the splits, bring each object's changes into its lane, plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.change import RECORD_SCHEMA
from publisher.journal.lane import LaneResult
from publisher.spark.progress import Progress, watched
from publisher.spark.ranks import ranked
from publisher.spark.task_errors import decoded, encoded
from publisher.tasks import Work, plan_lane, read_split

_RESULT = "result string"
_SORTED_BY = ["source", "part", "rank", "high", "low", "ordinal"]
_SORTED_BY_ONE_LOG = ["rank", "part", "high", "low", "ordinal"]
"""Of one source whose records have no part.  Rank first: the prefix of the sort then decides."""


def plan_in_lanes(
    spark: SparkSession,
    work: Work,
    *,
    staging: Path,
    documents: Path,
    progress: Progress | None = None,
) -> list[LaneResult]:
    """Plans all lanes of the work; their files are staged, nothing is committed.

    ``staging`` and ``documents`` are directories that all executors see.  The results are those of
    the attempts that Spark counts as successful, in the order of lanes.

    Raises:
        PublisherError: What a task raised.
    """
    splits = len(work.splits())
    records = spark.range(0, splits, 1, splits).mapInArrow(
        _reader(work), from_arrow_schema(RECORD_SCHEMA)
    )
    by_time = [
        number
        for number, source in enumerate(work.sources)
        if source.polls is not None and source.polls.future_events
    ]
    if by_time:
        records = ranked(records, by_time)
    one_log = len(work.sources) == 1 and work.sources[0].polls is not None
    lanes = (
        records.repartitionById(work.lanes, "lane")
        .sortWithinPartitions(*(_SORTED_BY_ONE_LOG if one_log else _SORTED_BY))
        .mapInArrow(_planner(work, staging, documents), _RESULT)
    )
    with decoded(), watched(spark, progress):
        results = {
            result.lane: result for result in map(LaneResult.from_json, _collected(lanes.collect()))
        }
    for lane in range(work.lanes):
        if lane not in results:  # Spark does not call the function for an empty partition
            results[lane] = plan_lane(
                work, (), lane=lane, staging=staging, documents=documents, attempt="driver"
            )
    return [results[lane] for lane in range(work.lanes)]


def _collected(rows: list[object]) -> Iterator[str]:
    return (row[0] for row in rows)  # type: ignore[index]


def _reader(work: Work):
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encoded():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from read_split(work, number)

    return read


def _planner(work: Work, staging: Path, documents: Path):
    def plan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encoded():
            batches = (batch for batch in batches if batch.num_rows)
            first = next(batches, None)
            if first is None:
                return
            context = TaskContext.get()
            assert context is not None
            result = plan_lane(
                work,
                _chain(first, batches),
                lane=first.column("lane")[0].as_py(),
                staging=staging,
                documents=documents,
                attempt=f"task-{context.taskAttemptId()}",
            )
            yield pa.RecordBatch.from_pydict({"result": [result.to_json()]})

    return plan


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
