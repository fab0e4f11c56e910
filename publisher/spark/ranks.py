"""Ranks by event time: the one mode of an event log that takes a pass over the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

_ORDER = ["event_time", "high", "split", "row"]


def ranked(records: DataFrame, sources: list[int]) -> DataFrame:
    """``records`` with the events of these sources ranked by event time, then record_id, from 1.

    Reads the input once: what follows works on what was read, kept on disk.
    """
    kept = records.persist(StorageLevel.DISK_ONLY)
    result = kept.where(~F.col("source").isin(sources) | F.col("outcome").isNotNull())
    for source in sources:
        events = kept.where((F.col("source") == source) & F.col("outcome").isNull())
        ordered = events.orderBy(*_ORDER).persist(StorageLevel.DISK_ONLY)
        counts = {
            row[0]: row[1] for row in ordered.groupBy(F.spark_partition_id()).count().collect()
        }
        result = result.union(ordered.mapInArrow(_numbered(_offsets(counts)), ordered.schema))
    return result


def _offsets(counts: dict[int, int]) -> dict[int, int]:
    """How many events lie in the partitions before each."""
    partitions = sorted(counts)
    before = accumulate((counts[partition] for partition in partitions), initial=0)
    return dict(zip(partitions, before, strict=False))


def _numbered(
    offsets: dict[int, int],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        done = offsets.get(context.partitionId(), 0)
        for batch in batches:
            ranks = np.arange(done + 1, done + 1 + batch.num_rows, dtype=np.int64)
            place = batch.schema.get_field_index("rank")
            yield batch.set_column(place, "rank", pa.array(ranks))
            done += batch.num_rows

    return number
