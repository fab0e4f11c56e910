"""The Spark job of a comparison: read tables, bring each bucket's rows together, compare."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.engine.spark.plan_job import Tasks
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.sources.triggerless.comparison import BucketResult, Comparison
from publisher.sources.triggerless.shuffle_pieces import BUCKET_PIECE_SCHEMA
from publisher.sources.triggerless.tasks import compare_bucket, make_folders, read_pieces


def compare_in_buckets(spark: SparkSession, comparison: Comparison) -> list[BucketResult]:
    """Compares all tables; the tasks write into the target, which is not current yet.

    The results are those of the attempts that Spark counts as successful.

    Raises:
        PublisherError: The error of a task.
    """
    make_folders(comparison)
    splits = len(comparison.splits())
    with decode_errors():
        pieces = spark.range(0, splits, 1, splits).mapInArrow(
            _reader(comparison), from_arrow_schema(BUCKET_PIECE_SCHEMA)
        )
        results = pieces.repartitionById(comparison.partitions, "partition").mapInArrow(
            _comparer(comparison), "result string"
        )
        return [BucketResult.from_json(row[0]) for row in results.collect()]


def _reader(comparison: Comparison) -> Tasks:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from read_pieces(comparison, number)

    return read


def _comparer(comparison: Comparison) -> Tasks:
    run = secrets.token_hex(4)  # a task of a killed run may outlive it for a moment

    def compare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            batches = (batch for batch in batches if batch.num_rows)
            first = next(batches, None)
            if first is None:
                return
            context = TaskContext.get()
            assert context is not None
            result = compare_bucket(
                comparison,
                first.column("partition")[0].as_py(),
                _chain(first, batches),
                f"{run}-{context.taskAttemptId()}",
            )
            yield pa.RecordBatch.from_pydict({"result": [result.to_json()]})

    return compare


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
