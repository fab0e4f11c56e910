"""Counts any number of sweeps of the table queue in Spark, by table and by interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import from_arrow_schema

from publisher.activity.counts import (
    COUNTS,
    GAPS_SHOWN,
    Activity,
    ActivityCounts,
    CellCounts,
    IntervalCounts,
    NodeCounts,
    ProblemCount,
    SweepGap,
    TableCounts,
    interval_of,
    sort_cells,
    sort_tables,
)
from publisher.activity.work import Samples
from publisher.engine.spark.activity_sweeps import (
    TABLE,
    checked_sweeps,
    events_of,
    start_of,
    unique_calls,
)
from publisher.engine.spark.task_errors import decode_errors
from publisher.engine.spark.task_functions import each_number
from publisher.sources.table_queue.calls import SAMPLE_SCHEMA
from publisher.sources.table_queue.reading import read_samples

_BYTES_OF_A_TASK = 16 << 20
_SPREAD = 4


def count_activity(spark: SparkSession, samples: Samples) -> Activity:
    """Counts samples.  The driver collects only sums by node, table and interval.

    Raises:
        PublisherError: The error of a task.
    """
    with decode_errors(), _partitions(spark, samples), ExitStack() as cached:

        def cache(frame: DataFrame) -> DataFrame:
            cached.callback(frame.persist().unpersist)
            return frame

        read = cache(_read(spark, samples))
        calls = cache(unique_calls(read))
        sweeps = cache(checked_sweeps(calls, samples.reading, samples.counting.gap_seconds))
        number, problems, warnings = _quality(read)
        nodes = _nodes(sweeps)
        if not nodes:
            return Activity(number, problems=problems, warnings=warnings)
        width = interval_of(nodes, samples.counting.interval_seconds)
        events = cache(events_of(calls, sweeps, width))
        tables = _tables(events)
        return Activity(
            calls=number,
            nodes=nodes,
            tables=tables,
            interval_us=width,
            intervals=_intervals(sweeps, events, width),
            cells=_cells(spark, events, tables[: samples.counting.tables]),
            gaps=_gaps(sweeps) if any(node.gaps for node in nodes) else (),
            problems=problems,
            warnings=warnings,
        )


@contextmanager
def _partitions(spark: SparkSession, samples: Samples) -> Iterator[None]:
    """Sets the number of shuffle partitions by the size of the input: empty partitions cost time, too."""
    name = "spark.sql.shuffle.partitions"
    previous = str(spark.conf.get(name))
    count = max(spark.sparkContext.defaultParallelism, -(-samples.size // _BYTES_OF_A_TASK))
    spark.conf.set(name, str(count))
    try:
        yield
    finally:
        spark.conf.set(name, previous)


def _read(spark: SparkSession, samples: Samples) -> DataFrame:
    splits, options = samples.splits, samples.reading
    read = each_number(lambda number: read_samples(splits[number], options))
    count = len(splits)
    # many small files share a task
    tasks = max(_SPREAD * spark.sparkContext.defaultParallelism, samples.size // _BYTES_OF_A_TASK)
    parts = max(1, min(count, tasks))
    return spark.range(0, count, 1, parts).mapInArrow(read, from_arrow_schema(SAMPLE_SCHEMA))


def _quality(read: DataFrame) -> tuple[int, tuple[ProblemCount, ...], dict[str, int]]:
    """Counts calls, unusable calls by problem, and suspicious calls by warning."""
    first = F.min(F.struct("file", "row", "detail"))
    sums = F.count("*").alias("calls"), first.alias("first")
    rows = read.groupBy("problem", "warning").agg(*sums).orderBy("problem", "warning").collect()
    problems = (ProblemCount(row.problem, row.calls, *row.first) for row in rows if row.problem)
    warnings = {row.warning: row.calls for row in rows if row.warning}
    return sum(row.calls for row in rows), tuple(problems), warnings


def _nodes(sweeps: DataFrame) -> tuple[NodeCounts, ...]:
    state, counted = F.col("state"), F.col("state") == "counts"
    gap = F.col("starts") & F.col("previous").isNotNull()
    sums = {
        "sweeps": F.count_if(counted),
        "untimed": F.count_if(counted & F.col("time").isNull()),
        "first": F.min(F.when(counted, F.col("time"))),
        "last": F.max(F.when(counted, F.col("time"))),
        "observed_us": F.sum("observed"),
        "gaps": F.count_if(gap),
        "gap_us": F.coalesce(F.sum(F.when(gap, F.col("interval"))), F.lit(0)),
        "gap_limit_us": F.max("limit"),
        "shortest": F.min(F.when(counted, F.col("elements"))),
        "longest": F.max(F.when(counted, F.col("elements"))),
        "missing": F.sum("missing"),
        **{
            name: F.count_if(state == name)
            for name in ("incomplete", "failed", "implausible", "conflicting")
        },
        "duplicates": F.sum("duplicates"),
    }
    aggregates = [column.alias(name) for name, column in sums.items()]
    rows = sweeps.groupBy("node").agg(*aggregates).orderBy("node").collect()
    return tuple(NodeCounts(**row.asDict()) for row in rows)


def _tables(events: DataFrame) -> tuple[TableCounts, ...]:
    rows = events.groupBy(*TABLE).agg(*_sums()).collect()
    return sort_tables(TableCounts(row.node, row.owner, row.table, _counts(row)) for row in rows)


def _intervals(sweeps: DataFrame, events: DataFrame, width: int) -> tuple[IntervalCounts, ...]:
    by_start = ("node", "start")
    sweep_sums = (
        sweeps.where(F.col("number").isNotNull())
        .groupBy("node", start_of("time", width))
        .agg(F.count("*").alias("sweeps"), F.sum("observed").alias("observed_us"))
    )
    event_sums = events.where(F.col("start").isNotNull()).groupBy(*by_start).agg(*_sums())
    rows = sweep_sums.join(event_sums, list(by_start), "left").orderBy("start", "node").collect()
    return tuple(
        IntervalCounts(row.node, row.start, row.sweeps, row.observed_us, _counts(row))
        for row in rows
    )


def _cells(
    spark: SparkSession, events: DataFrame, tables: Sequence[TableCounts]
) -> tuple[CellCounts, ...]:
    """Counts the events of some tables by interval."""
    if not tables:
        return ()
    keys = [(table.node, table.owner, table.name) for table in tables]
    columns = [pa.array(column) for column in zip(*keys, strict=True)]
    table_frame = spark.createDataFrame(pa.table(columns, names=list(TABLE)))
    rows = (
        events.where(F.col("start").isNotNull())
        .join(F.broadcast(table_frame), list(TABLE))
        .groupBy(*TABLE, "start")
        .agg(*_sums())
        .collect()
    )
    return sort_cells(
        CellCounts(row.node, row.owner, row.table, row.start, _counts(row)) for row in rows
    )


def _gaps(sweeps: DataFrame) -> tuple[SweepGap, ...]:
    rows = (
        sweeps.where(F.col("starts") & F.col("previous").isNotNull())
        .orderBy("previous", "node")
        .limit(GAPS_SHOWN)
        .collect()
    )
    return tuple(SweepGap(row.node, row.previous, row.time) for row in rows)


def _sums() -> list[Column]:
    return [F.sum(name).alias(name) for name in COUNTS]


def _counts(row: Row) -> ActivityCounts:
    return ActivityCounts(**{name: row[name] or 0 for name in COUNTS})
