"""The time of Spark alone for the same shape of work: read, repartition by key, sort, write text."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def write_floor(spark: SparkSession, log: Path, to: Path, *, lanes: int, bytes_out: int) -> None:
    """Reads ``log``, brings each object's events into one of ``lanes`` partitions in order of record_id
    and writes a line of text for each event, ``bytes_out`` bytes in all."""
    events = spark.read.parquet(str(log))
    count = events.count()  # from the file's footer
    text = f.concat_ws(" ", *[f.col(name).cast("string") for name in events.columns])
    line = f.rpad(text, bytes_out // count - 1, ".")
    lined = events.repartition(lanes, "table_key").sortWithinPartitions("record_id").select(line)
    lined.write.mode("overwrite").text(str(to))
