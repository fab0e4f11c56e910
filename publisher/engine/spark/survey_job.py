"""The Spark job of a survey: each task gathers a few facts about its item for the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.engine.spark.task_functions import Tasks
from publisher.engine.survey import SurveyWork
from publisher.model.packed_batches import compress, decompress

_RESULT = "number long, facts binary"


def survey_in_tasks(spark: SparkSession, work: SurveyWork) -> list[Any]:
    """Gathers the facts of all items, one task for each item; records stay in the tasks.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors():
        numbers = spark.range(0, len(work.items), 1, len(work.items))
        rows = numbers.mapInArrow(_surveyor(work), _RESULT).collect()
    rows.sort(key=lambda row: int(row[0]))
    return [pickle.loads(decompress(pa.py_buffer(bytes(row[1])))) for row in rows]  # noqa: S301 - of our tasks


def _surveyor(work: SurveyWork) -> Tasks:
    def survey(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            numbers = (number for batch in batches for number in batch.column("id").to_pylist())
            for number, facts in work.facts(numbers):
                packed = compress(pa.py_buffer(pickle.dumps(facts)))
                yield pa.RecordBatch.from_pydict({"number": [number], "facts": [packed]})

    return survey
