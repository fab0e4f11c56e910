"""The Spark job of a survey: each task says what its splits say of the others, in a few facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from publisher.engine.spark.plan_job import Tasks
from publisher.engine.spark.task_errors import decoded, encoded
from publisher.engine.survey import Facts, survey_splits
from publisher.engine.tasks import Work

_RESULT = "number long, facts binary"


def survey_in_tasks(spark: SparkSession, work: Work, numbers: Sequence[int]) -> list[Facts]:
    """The facts of splits, one task each; rows never come here.

    Raises:
        PublisherError: What a task raised.
    """
    with decoded():
        places = spark.range(0, len(numbers), 1, len(numbers))
        found = places.mapInArrow(_surveyor(work, tuple(numbers)), _RESULT).collect()
    return [(row[0], _read(row[1])) for row in sorted(found, key=lambda row: int(row[0]))]


def _surveyor(work: Work, numbers: tuple[int, ...]) -> Tasks:
    def survey(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encoded():
            places = (place for batch in batches for place in batch.column("id").to_pylist())
            for number, facts in survey_splits(work, (numbers[place] for place in places)):
                yield pa.RecordBatch.from_pydict({"number": [number], "facts": [_written(facts)]})

    return survey


def _written(facts: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, facts.schema) as writer:
        writer.write_batch(facts)
    return bytes(sink.getvalue())


def _read(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
