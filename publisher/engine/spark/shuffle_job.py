"""The Spark job of work in two steps: read parts, bring each partition's pieces together, process them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.engine.spark.plan_job import Tasks
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.sources.task_runner import ShuffleWork


def shuffle_in_tasks(spark: SparkSession, work: ShuffleWork) -> list[str]:
    """Returns the results of all partitions: those of the attempts that Spark counts as successful.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors():
        pieces = spark.range(0, work.parts, 1, work.parts).mapInArrow(
            _reader(work), from_arrow_schema(work.schema)
        )
        results = pieces.repartitionById(work.partitions, "partition").mapInArrow(
            _processor(work), "result string"
        )
        return [row[0] for row in results.collect()]


def _reader(work: ShuffleWork) -> Tasks:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            for batch in batches:
                for part in batch.column("id").to_pylist():
                    yield from work.read(part)

    return read


def _processor(work: ShuffleWork) -> Tasks:
    run = secrets.token_hex(4)  # tasks of a killed run may still write for a moment

    def process(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            batches = (batch for batch in batches if batch.num_rows)
            first = next(batches, None)
            if first is None:
                return
            context = TaskContext.get()
            assert context is not None
            result = work.process(
                first.column("partition")[0].as_py(),
                chain([first], batches),
                f"{run}-{context.taskAttemptId()}",
            )
            yield pa.RecordBatch.from_pydict({"result": [result]})

    return process
