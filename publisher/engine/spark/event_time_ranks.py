"""Ranks by event time in Spark: the only mode of an event log that needs an extra pass over all events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, chain

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from publisher.engine.event_time_ranks import PLACE, TIME_ORDER, Place, first_of_places, set_ranks

_PIECE = "piece"
"""Column with the partition of ordered events; in a union, the task has another partition number."""


def rank_by_time(records: DataFrame, sources: list[int], pieces: int) -> DataFrame:
    """Ranks the events of some sources by event time, then record_id, from 1.

    Events are sorted in ``pieces`` parts, each of which costs a task, however few events it has.
    Reads the input once: the records are kept on disk.
    """
    cached = records.persist(StorageLevel.DISK_ONLY)
    result = cached.where(~F.col("source").isin(sources) | F.col("outcome").isNotNull())
    for source in sources:
        events = cached.where((F.col("source") == source) & F.col("outcome").isNull())
        sorted_ = events.repartitionByRange(pieces, *PLACE).sortWithinPartitions(*TIME_ORDER)
        ordered = sorted_.withColumn(_PIECE, F.spark_partition_id()).persist(StorageLevel.DISK_ONLY)
        # collects one small row for each part; grouping in Spark would be a further shuffle
        rows = (
            ordered.select(_PIECE, *PLACE)
            .mapInArrow(count_ranks, "piece int, events bigint")
            .collect()
        )
        counts = {row[0]: row[1] for row in rows}
        result = result.union(ordered.mapInArrow(number_ranks(_offsets(counts)), events.schema))
    return result


def count_ranks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts the ranks of a part; yields nothing for an empty part."""
    events = 0
    last: Place = None
    for batch in batches:
        if batch.num_rows:
            piece = _piece_of(batch)
            is_first, last = first_of_places(batch, last)
            events += int(is_first.sum())
    if events:
        yield pa.RecordBatch.from_pydict(
            {"piece": pa.array([piece], pa.int32()), "events": pa.array([events], pa.int64())}
        )


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
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is not None:
            for batch in set_ranks(chain([first], batches), offsets[_piece_of(first)]):
                yield batch.drop_columns([_PIECE])

    return number


def _piece_of(batch: pa.RecordBatch) -> int:
    return int(batch.column(_PIECE)[0].as_py())
