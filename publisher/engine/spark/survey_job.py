"""The Spark job of a survey: each task gathers a few facts of its item that matter to the others."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from publisher.engine.spark.plan_job import Tasks
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.engine.survey import SurveyWork
from publisher.model.packed_batches import pack_batch, unpack_batch

_RESULT = "number long, facts binary"


def survey_in_tasks(spark: SparkSession, work: SurveyWork) -> list[pa.RecordBatch]:
    """Gathers the facts of all items, one task for each item; records stay in the tasks.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors():
        places = spark.range(0, len(work.items), 1, len(work.items))
        rows = places.mapInArrow(_surveyor(work), _RESULT).collect()
    rows.sort(key=lambda row: int(row[0]))
    return [unpack_batch(pa.py_buffer(bytes(row[1]))) for row in rows]


def _surveyor(work: SurveyWork) -> Tasks:
    def survey(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            numbers = (number for batch in batches for number in batch.column("id").to_pylist())
            for number, facts in work.facts(numbers):
                yield pa.RecordBatch.from_pydict({"number": [number], "facts": [pack_batch(facts)]})

    return survey
