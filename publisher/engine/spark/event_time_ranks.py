"""Ranks by event time: the only mode of an event log that needs an extra pass over all events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

_PLACE = ["event_time", "high"]
"""Events that are equal in these have one rank."""
_ORDER = [*_PLACE, "split", "row"]
_PIECE = "piece"
"""Number of a partition of the ordered events: in a union its task has another."""


def rank_by_time(records: DataFrame, sources: list[int], pieces: int) -> DataFrame:
    """Ranks the events of some sources by event time, then record_id, from 1.

    A repeated record has the same rank, so polls count it once.  Events are sorted in ``pieces``
    parts, each of which costs a task, however few events it has.  Reads the input once:
    the records are kept on disk.
    """
    cached = records.persist(StorageLevel.DISK_ONLY)
    result = cached.where(~F.col("source").isin(sources) | F.col("outcome").isNotNull())
    for source in sources:
        events = cached.where((F.col("source") == source) & F.col("outcome").isNull())
        sorted_ = events.repartitionByRange(pieces, *_PLACE).sortWithinPartitions(*_ORDER)
        ordered = sorted_.withColumn(_PIECE, F.spark_partition_id()).persist(StorageLevel.DISK_ONLY)
        # one small row of each part; grouping them would be a further shuffle
        rows = (
            ordered.select(_PIECE, *_PLACE)
            .mapInArrow(count_ranks, "piece int, events bigint")
            .collect()
        )
        counts = {row[0]: row[1] for row in rows}
        result = result.union(ordered.mapInArrow(number_ranks(_offsets(counts)), events.schema))
    return result


def count_ranks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts the ranks of a part; yields nothing for an empty part."""
    events = 0
    last: _At = None
    for batch in batches:
        if batch.num_rows:
            piece = batch.column(_PIECE)[0].as_py()
            begins, last = _begins(batch, last)
            events += int(begins.sum())
    if events:
        yield pa.RecordBatch.from_pydict(
            {"piece": pa.array([piece], pa.int32()), "events": pa.array([events], pa.int64())}
        )


_At = tuple[int, int] | None
"""Event time and record id of an event."""


def _begins(batch: pa.RecordBatch, last: _At) -> tuple[np.ndarray, _At]:
    """Marks the events of a sorted batch that differ from their predecessor; returns the last event too.

    ``last`` is the event before the batch."""
    times, ids = (batch.column(name).to_numpy() for name in _PLACE)
    begins = np.ones(len(ids), np.bool_)
    begins[1:] = (times[1:] != times[:-1]) | (ids[1:] != ids[:-1])
    begins[0] = last != (times[0], ids[0])
    return begins, (int(times[-1]), int(ids[-1]))


def _offsets(counts: dict[int, int]) -> dict[int, int]:
    """Counts the ranks in the partitions before each partition."""
    partitions = sorted(counts)
    before = accumulate((counts[partition] for partition in partitions), initial=0)
    return dict(zip(partitions, before, strict=False))


def number_ranks(
    offsets: dict[int, int],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the task that numbers the ranks of each part from its offset on."""

    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done: int | None = None
        last: _At = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if done is None:
                done = offsets[batch.column(_PIECE)[0].as_py()]
            begins, last = _begins(batch, last)
            ranks = done + np.cumsum(begins, dtype=np.int64)
            place = batch.schema.get_field_index("rank")
            yield batch.set_column(place, "rank", pa.array(ranks)).drop_columns([_PIECE])
            done = int(ranks[-1])

    return number
