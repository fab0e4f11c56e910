"""Sweeps of a table queue in Spark's columns: their validity, and the events between two of them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from publisher.activity.counts import COUNTS, MEDIANS_OF_A_GAP
from publisher.sources.table_queue.calls import SYSTEM_ELEMENTS
from publisher.sources.table_queue.options import EORR, NORMAL, TableQueueOptions

SWEEP = ("node", "sweep")
TABLE = ("node", "owner", "table")

_CONTENT = ("time", "completion", "owner", "table", "updated", "problem")
_NUMBER = "^[0-9]{1,18}$"


def unique_calls(samples: DataFrame) -> DataFrame:
    """Joins the calls of each ordinal of a sweep to one row; omits calls without a sweep.

    ``conflict``: the joined calls differ; ``copies``: their number.
    """
    content = F.struct(*_CONTENT)
    return (
        samples.where(F.col("sweep").isNotNull())
        .groupBy(*SWEEP, "ordinal")
        .agg(
            F.min(content).alias("content"),
            (F.min(content) != F.max(content)).alias("conflict"),
            F.count("*").alias("copies"),
        )
        .select(*SWEEP, "ordinal", "content.*", "conflict", "copies")
    )


def checked_sweeps(
    calls: DataFrame, options: TableQueueOptions, gap_seconds: float | None
) -> DataFrame:
    """Builds one row for each sweep; usable sweeps with a time know their neighbours.

    ``state`` is ``counts`` for a usable sweep, otherwise the reason why it is not.  Columns of usable sweeps
    with a time: ``number`` (from 1 by time), ``stretch`` (number of the stretch without gaps), ``starts`` and
    ``ends`` (first or last of its stretch), ``previous`` and ``next`` (times of the neighbours), ``observed``
    (microseconds since the previous sweep, 0 at the start of a stretch).
    """
    sweeps = (
        _sum_calls(calls).withColumn("state", _state(options)).withColumn("missing", _missing())
    )
    good = F.col("state") == "counts"
    timed = good & F.col("time").isNotNull()
    order = Window.partitionBy("node", "in_order").orderBy("time", "id", "sweep")
    ordered = (
        sweeps.withColumn("in_order", timed)
        .withColumn("number", F.when(timed, F.row_number().over(order)))
        .withColumn("previous", F.when(timed, F.lag("time").over(order)))
        .withColumn("next", F.when(timed, F.lead("time").over(order)))
        .withColumn("interval", F.col("time") - F.col("previous"))
    )
    ordered = _with_limit(ordered, gap_seconds)
    starts = F.col("previous").isNull() | (F.col("interval") > F.col("limit"))
    ends = F.col("next").isNull() | (F.col("next") - F.col("time") > F.col("limit"))
    return (
        ordered.withColumn("starts", F.when(timed, starts))
        .withColumn("ends", F.when(timed, ends))
        .withColumn("stretch", F.when(timed, F.sum(F.col("starts").cast("int")).over(order)))
        .withColumn("observed", F.when(timed & ~F.col("starts"), F.col("interval")).otherwise(0))
    )


def _sum_calls(calls: DataFrame) -> DataFrame:
    element = (F.col("completion") == NORMAL) & (F.col("ordinal") > SYSTEM_ELEMENTS)
    ended = F.col("completion") == EORR
    failed = F.col("problem").isNotNull() | ~F.col("completion").isin(NORMAL, EORR)
    sweep = F.first("sweep")
    return calls.groupBy(*SWEEP).agg(
        F.min("time").alias("time"),
        F.count("*").alias("calls"),
        F.min("ordinal").alias("first_ordinal"),
        F.max("ordinal").alias("last_ordinal"),
        F.max_by("completion", "ordinal").alias("last_completion"),
        F.max(failed).alias("failed"),
        F.max(ended & (F.col("ordinal") <= SYSTEM_ELEMENTS)).alias("implausible"),
        F.max("conflict").alias("conflict"),
        F.count(F.when(element, 1)).alias("elements"),
        F.sum(F.when(F.col("conflict"), 0).otherwise(F.col("copies") - 1)).alias("duplicates"),
        F.when(sweep.rlike(_NUMBER), sweep.try_cast("bigint")).alias("id"),
    )


def _state(options: TableQueueOptions) -> Column:
    """Decides whether a sweep is usable: complete, so that a table missing in it was not in the queue.

    EORR in place of a system table means that the call failed, or that another command answered.
    A file of bare records is always complete; such sweeps have no time.
    """
    has_no_hole = F.col("last_ordinal") - F.col("first_ordinal") + 1 == F.col("calls")
    has_start = F.col("first_ordinal") <= SYSTEM_ELEMENTS + 1
    is_whole = has_no_hole & has_start & (F.col("last_completion") == EORR)
    if options.recorded == "elements":
        is_whole = F.lit(True)
    return (
        F.when(F.col("conflict"), "conflicting")
        .when(F.col("failed"), "failed")
        .when(F.col("implausible"), "implausible")
        .when(F.col("time").isNull() | is_whole, "counts")
        .otherwise("incomplete")
    )


def _missing() -> Column:
    """Count of missing numbers between a sweep and its predecessor, for sweeps with numbers."""
    before = F.lag("id").over(Window.partitionBy("node", F.col("id").isNull()).orderBy("id"))
    return F.coalesce(F.col("id") - before - 1, F.lit(0))


def _with_limit(sweeps: DataFrame, gap_seconds: float | None) -> DataFrame:
    """Adds ``limit``, the maximum interval in microseconds; a longer interval is a gap."""
    if gap_seconds is not None:
        return sweeps.withColumn("limit", F.lit(round(gap_seconds * 1_000_000)))
    # by sorting: Spark's own median holds every interval in memory
    node = Window.partitionBy("node")
    place, count = F.row_number().over(node.orderBy("interval")), F.count("*").over(node)
    middle = F.col("place").between(F.col("count") / 2, F.col("count") / 2 + 1)
    medians = (
        sweeps.where(F.col("interval").isNotNull())
        .select("node", "interval", place.alias("place"), count.alias("count"))
        .where(middle)
        .groupBy("node")
        .agg((F.avg("interval") * MEDIANS_OF_A_GAP).cast("bigint").alias("limit"))
    )
    return sweeps.join(F.broadcast(medians), "node", "left")


def events_of(calls: DataFrame, sweeps: DataFrame, width: int) -> DataFrame:
    """Counts the events of tables, in columns named like the fields of ``ActivityCounts``.

    ``start`` is the start of the interval, NULL without a time."""
    counting = sweeps.where(F.col("state") == "counts").select(
        *SWEEP, "time", "number", "previous", "next", "stretch", "starts", "ends"
    )
    elements = (
        calls.where(F.col("completion") == NORMAL)
        .where(F.col("ordinal") > SYSTEM_ELEMENTS)
        .drop("time")
        .join(counting, list(SWEEP))
    )
    return _presence(elements, width).unionByName(_slots(elements, width))


def _presence(elements: DataFrame, width: int) -> DataFrame:
    places = ("time", "number", "next", "stretch", "starts", "ends")
    present = elements.groupBy(*SWEEP, "owner", "table").agg(
        F.min("ordinal").alias("ordinals"),
        F.max(F.col("updated") != 0).alias("flag"),
        F.max(~F.col("updated").isin(0, 1)).alias("odd_flags"),
        (F.count("*") - 1).alias("doubled"),
        *(F.first(name).alias(name) for name in places),
    )
    by_table = Window.partitionBy(*TABLE, F.col("number").isNull()).orderBy("number", "sweep")
    before, after = F.lag("number").over(by_table), F.lead("number").over(by_table)
    seen_before = F.lag("stretch").over(by_table) == F.col("stretch")
    missing_since = F.lag("next").over(by_table)
    changes = (
        present.withColumn("included", ~F.col("starts") & ~before.eqNullSafe(F.col("number") - 1))
        .withColumn("evicted", ~F.col("ends") & ~after.eqNullSafe(F.col("number") + 1))
        .withColumn("reincluded", F.col("included") & F.coalesce(seen_before, F.lit(False)))
        .withColumn("absent_us", F.when(F.col("reincluded"), F.col("time") - missing_since))
    )
    presence = _event(
        "time",
        width,
        present=F.lit(1),
        ordinals=F.col("ordinals"),
        dirty=F.col("flag"),
        dirty_observed=F.col("flag") & ~F.col("starts"),
        included=F.col("included"),
        reincluded=F.col("reincluded"),
        absent_us=F.col("absent_us"),
        doubled=F.col("doubled"),
        odd_flags=F.col("odd_flags"),
    )
    eviction = _event("next", width, evicted=F.lit(1))
    events = F.when(F.col("evicted"), F.array(presence, eviction)).otherwise(F.array(presence))
    return changes.select(*TABLE, F.inline(events))


def _slots(elements: DataFrame, width: int) -> DataFrame:
    """Counts the tables that another table replaced at their ordinal."""
    slot = Window.partitionBy("node", "ordinal").orderBy("number")
    table = F.struct("owner", "table")
    replaced = (
        elements.where(F.col("number").isNotNull())
        .withColumn("before", F.lag(table).over(slot))
        .withColumn("number_before", F.lag("number").over(slot))
        .where(~F.col("starts") & (F.col("number_before") == F.col("number") - 1))
        .where(F.col("before") != table)
    )
    event = _event("time", width, replaced=F.lit(1))
    return replaced.select(
        "node", F.col("before.owner").alias("owner"), F.col("before.table").alias("table"), event
    ).select(*TABLE, "event.*")


def _event(time: str, width: int, **counts: Column) -> Column:
    """Builds a row of counts; missing counts are 0."""
    sums = (
        F.coalesce(counts.get(name, F.lit(0)).cast("bigint"), F.lit(0)).cast("bigint").alias(name)
        for name in COUNTS
    )
    return F.struct(start_of(time, width), *sums).alias("event")


def start_of(time: str, width: int) -> Column:
    """Start of the interval in which a time lies; NULL for NULL."""
    return (F.col(time) - F.pmod(F.col(time), F.lit(width))).alias("start")
