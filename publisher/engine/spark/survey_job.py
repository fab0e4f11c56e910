"""The Spark job of a survey: each task gathers a few facts of its splits that matter to the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from publisher.engine.spark.plan_job import Tasks
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.engine.survey import Facts, survey_splits
from publisher.engine.tasks import Work

_RESULT = "number long, facts binary"


def survey_in_tasks(spark: SparkSession, work: Work, numbers: Sequence[int]) -> list[Facts]:
    """Gathers the facts of splits, one task for each split; records stay in the tasks.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors():
        places = spark.range(0, len(numbers), 1, len(numbers))
        rows = places.mapInArrow(_surveyor(work, tuple(numbers)), _RESULT).collect()
    return [(row[0], _deserialize(row[1])) for row in sorted(rows, key=lambda row: int(row[0]))]


def _surveyor(work: Work, numbers: tuple[int, ...]) -> Tasks:
    def survey(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            places = (place for batch in batches for place in batch.column("id").to_pylist())
            for number, facts in survey_splits(work, (numbers[place] for place in places)):
                yield pa.RecordBatch.from_pydict({"number": [number], "facts": [_serialize(facts)]})

    return survey


def _serialize(facts: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, facts.schema) as writer:
        writer.write_batch(facts)
    return bytes(sink.getvalue())


def _deserialize(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
