"""The Spark job of a survey: each task gathers a few facts of its splits that matter to the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from publisher.engine.spark.plan_job import Tasks
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.engine.survey import Facts, survey_splits
from publisher.engine.tasks import Work
from publisher.model.packed_batches import pack_batch, unpack_batch

_RESULT = "number long, facts binary"


def survey_in_tasks(spark: SparkSession, work: Work, numbers: Sequence[int]) -> list[Facts]:
    """Gathers the facts of splits, one task for each split; records stay in the tasks.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors():
        places = spark.range(0, len(numbers), 1, len(numbers))
        rows = places.mapInArrow(_surveyor(work, tuple(numbers)), _RESULT).collect()
    rows.sort(key=lambda row: int(row[0]))
    return [(row[0], unpack_batch(pa.py_buffer(bytes(row[1])))) for row in rows]


def _surveyor(work: Work, numbers: tuple[int, ...]) -> Tasks:
    def survey(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            places = (place for batch in batches for place in batch.column("id").to_pylist())
            for number, facts in survey_splits(work, (numbers[place] for place in places)):
                yield pa.RecordBatch.from_pydict({"number": [number], "facts": [pack_batch(facts)]})

    return survey
