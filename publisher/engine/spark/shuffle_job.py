"""The Spark job of a shuffle: reads parts, brings the pieces of each partition together, processes them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.engine.spark.task_errors import decode_errors
from publisher.engine.spark.task_functions import RESULT, Tasks, each_number, each_partition
from publisher.sources.task_runner import ShuffleWork


def shuffle_in_tasks(spark: SparkSession, work: ShuffleWork) -> list[str]:
    """Returns the results of all partitions: those of the attempts that Spark counts as successful.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors():
        pieces = spark.range(0, work.parts, 1, work.parts).mapInArrow(
            each_number(work.read), from_arrow_schema(work.schema)
        )
        results = pieces.repartitionById(work.partitions, "partition").mapInArrow(
            _processor(work), RESULT
        )
        return [row[0] for row in results.collect()]


def _processor(work: ShuffleWork) -> Tasks:
    def process(first: pa.RecordBatch, pieces: Iterator[pa.RecordBatch], attempt: str) -> str:
        return work.process(first.column("partition")[0].as_py(), pieces, attempt)

    return each_partition(process)
