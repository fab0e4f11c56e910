"""Functions for ``mapInArrow``: for each number of a range, and for the rows of each partition."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext

from publisher.engine.spark.task_errors import encode_errors

Tasks = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
RESULT = "result string"
"""Schema of the results of ``each_partition``."""


def each_number(read: Callable[[int], Iterable[pa.RecordBatch]]) -> Tasks:
    """Creates a task function that yields ``read(number)`` for each number of ``spark.range``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from read(number)

    return run


def each_partition(
    process: Callable[[pa.RecordBatch, Iterator[pa.RecordBatch], str], str],
) -> Tasks:
    """Creates a task function that calls ``process`` once for each partition with rows.

    ``process`` gets the first batch, all batches, and a name that no other attempt has: tasks of a killed
    run may still write for a moment.
    """
    run_name = secrets.token_hex(4)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            batches = (batch for batch in batches if batch.num_rows)
            first = next(batches, None)
            if first is None:
                return
            context = TaskContext.get()
            assert context is not None
            result = process(
                first, chain([first], batches), f"{run_name}-{context.taskAttemptId()}"
            )
            yield pa.RecordBatch.from_pydict({"result": [result]})

    return run
