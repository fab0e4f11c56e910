"""Ranks by event time: the one mode of an event log that takes a pass over the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

_ORDER = ["event_time", "high", "split", "row"]
_PIECE = "piece"
"""Number of a partition of the ordered events: in a union its task has another."""


def ranked(records: DataFrame, sources: list[int], pieces: int) -> DataFrame:
    """``records`` with the events of these sources ranked by event time, then record_id, from 1.

    They are sorted in ``pieces`` parts, each of which costs a task, however few events it has.  Reads the
    input once: what follows works on what was read, kept on disk.
    """
    kept = records.persist(StorageLevel.DISK_ONLY)
    result = kept.where(~F.col("source").isin(sources) | F.col("outcome").isNotNull())
    for source in sources:
        events = kept.where((F.col("source") == source) & F.col("outcome").isNull())
        sorted_ = events.repartitionByRange(pieces, *_ORDER).sortWithinPartitions(*_ORDER)
        ordered = sorted_.withColumn(_PIECE, F.spark_partition_id()).persist(StorageLevel.DISK_ONLY)
        # one small row of each part; grouping them would be a further shuffle
        rows = ordered.select(_PIECE).mapInArrow(_counted, "piece int, events bigint").collect()
        counts = {row[0]: row[1] for row in rows}
        result = result.union(ordered.mapInArrow(_numbered(_offsets(counts)), events.schema))
    return result


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The number of a part and how many events it has; nothing of an empty one."""
    events = 0
    for batch in batches:
        if batch.num_rows:
            piece = batch.column(0)[0].as_py()
            events += batch.num_rows
    if events:
        yield pa.RecordBatch.from_pydict(
            {"piece": pa.array([piece], pa.int32()), "events": pa.array([events], pa.int64())}
        )


def _offsets(counts: dict[int, int]) -> dict[int, int]:
    """How many events lie in the partitions before each."""
    partitions = sorted(counts)
    before = accumulate((counts[partition] for partition in partitions), initial=0)
    return dict(zip(partitions, before, strict=False))


def _numbered(
    offsets: dict[int, int],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done: int | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if done is None:
                done = offsets[batch.column(_PIECE)[0].as_py()]
            ranks = np.arange(done + 1, done + 1 + batch.num_rows, dtype=np.int64)
            place = batch.schema.get_field_index("rank")
            yield batch.set_column(place, "rank", pa.array(ranks)).drop_columns([_PIECE])
            done += batch.num_rows

    return number
