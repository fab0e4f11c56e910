"""The Spark job that sends lanes to a sink: one task, one producer for each lane."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import SparkSession

from publisher.console import Phase, Progress
from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.engine.garbage import collect_rarely
from publisher.engine.spark.progress import report_progress
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.model.plain import restore


def send_lanes(
    spark: SparkSession, lanes: Sequence[LaneSendTask], progress: Progress | None = None
) -> list[LaneSendReport]:
    """Sends each lane in a task of its own; a repeated task continues after the token.

    Raises:
        PublisherError: The error of a task.
    """
    tasks = tuple(lanes)

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        collect_rarely()
        with encode_errors():
            for batch in batches:
                results = [tasks[number].send() for number in batch.column("id").to_pylist()]
                yield pa.RecordBatch.from_pydict(
                    {"sent": [json.dumps(asdict(result)) for result in results]}
                )

    count = len(tasks)
    documents = sum(task.total for task in tasks)
    with decode_errors(), report_progress(spark, progress, (Phase.SENDING,), documents):
        rows = spark.range(0, count, 1, count).mapInArrow(send, "sent string").collect()
    return [restore(LaneSendReport, json.loads(row[0])) for row in rows]
