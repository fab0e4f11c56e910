"""``bench triggerless``: a table compared with its state, beside Spark's own full outer join."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from publisher.config.settings import Settings
from publisher.engine.spark.session import spark_session
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish
from tests.bench.data import cache
from tests.bench.processes import Role, Watch
from tests.bench.program import BOTH_COMPILERS, settings_of, workspace
from tests.bench.report import Report

ROWS = 10_000_000
RATIO = 1.5
FLAT = 1.25
"""How much more a worker may need for ten times the rows."""
CHANGED, GONE, NEW = 0.008, 0.001, 0.001
COLUMNS = ("fname", "lname", "mail", "department", "phone", "hired")
_CHUNK = 500_000
MIB = 1 << 20

JOB = """
[[sources]]
format = "triggerless"
snapshots = ["now"]

[tables.usr]
key = ["idu"]
columns = { idu = "int" }

[dispatch]
path = "out"
"""


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """Comparison and join in turn in one session; then a comparison of a tenth of the rows."""
    rows = events or ROWS
    report = Report("triggerless")
    tenth = tables(rows // 10)
    before, after = tables(rows)
    with workspace() as work:
        _write_job(work)
        settings = settings_of(work / "bench.toml")
        with spark_session(settings.spark) as spark:
            small = _compare(work, settings, *tenth)[2]
            ours, joins, peak = [], [], 0
            for _number in range(runs):
                seconds, done, peak_ = _compare(work, settings, before, after)
                ours.append(seconds)
                peak = max(peak, peak_)
                _check(report, done, rows)
                joins.append(_join(spark, before, after, work / "joined"))
    best_join = report.add_seconds("Spark's full outer join, differences written", joins)
    best = report.add_seconds("comparison: documents, ledger, new state", ours)
    report.add("rows a second", rows / best, "")
    report.add("comparison / join", best / best_join, "", bound=RATIO)
    report.add("worker, a tenth of the rows", small / MIB, "MiB")
    report.add("worker", peak / MIB, "MiB")
    report.add("worker: growth", peak / small, "", bound=FLAT)
    return report


def _write_job(work: Path) -> None:
    (work / "bench.toml").write_text(JOB + BOTH_COMPILERS)


def _compare(
    work: Path, settings: Settings, before: Path, after: Path
) -> tuple[float, RunReport, int]:
    """Seconds of the second comparison without the start of the session, its report, a worker's peak."""
    for left in ("out", ".xds-publisher", "now"):
        shutil.rmtree(work / left, ignore_errors=True)
    now = work / "now"
    now.mkdir()
    (now / "usr.parquet").symlink_to(before)
    publish(settings)
    (now / "usr.parquet").unlink()
    (now / "usr.parquet").symlink_to(after)
    start = time.perf_counter()
    with Watch() as watch:
        report = publish(settings)
    seconds = time.perf_counter() - start - report.seconds.get("session", 0.0)
    return seconds, report, watch.greatest(Role.WORKER)


def _check(report: Report, done: RunReport, rows: int) -> None:
    wanted = {
        "modify": round(rows * CHANGED),
        "delete": round(rows * GONE),
        "add": round(rows * NEW),
    }
    report.require("documents are those of the changed rows", done.operations == wanted)


def _join(spark: SparkSession, before: Path, after: Path, to: Path) -> float:
    spark.conf.set("spark.sql.adaptive.enabled", "true")  # as Spark is by itself
    start = time.perf_counter()
    old = spark.read.parquet(str(before))
    new = spark.read.parquet(str(after))
    differs = f.lit(False)
    for name in COLUMNS:
        differs = differs | ~old[name].eqNullSafe(new[name])
    columns = [
        table[name].alias(f"{side}_{name}")
        for side, table in (("old", old), ("new", new))
        for name in ("idu", *COLUMNS)
    ]
    joined = old.join(new, old["idu"] == new["idu"], "full_outer")
    joined = joined.where(old["idu"].isNull() | new["idu"].isNull() | differs).select(columns)
    joined.write.mode("overwrite").parquet(str(to))
    seconds = time.perf_counter() - start
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    return seconds


def tables(rows: int) -> tuple[Path, Path]:
    """The table before and after, made once: numbers shuffled by a step, some rows changed."""
    found = []
    for side in ("before", "after"):
        path = cache() / f"table-{rows}-{side}.parquet"
        if not path.exists():
            _write(path, rows, after=side == "after")
        found.append(path)
    return found[0], found[1]


def _write(path: Path, rows: int, *, after: bool) -> None:
    changed, gone, new = (round(rows * share) for share in (CHANGED, GONE, NEW))
    new_path = path.with_suffix(".new")
    first, last = (gone, rows + new) if after else (0, rows)
    schema = pa.schema([(name, pa.string()) for name in ("idu", *COLUMNS)])
    with pq.ParquetWriter(new_path, schema) as writer:
        for start in range(first, last, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, last), dtype=np.int64)
            mixed = numbers * 2_654_435_761 % (1 << 31)
            is_changed = (numbers >= rows - changed) & (numbers < rows) & after
            words = np.char.mod("%d", mixed)
            columns = [
                np.char.mod("%d", numbers),
                np.char.add("First", words),
                np.char.add(np.where(is_changed, "Married", "Last"), words),
                np.char.add(words, "@example.org"),
                np.char.add("Department ", np.char.mod("%d", mixed % 500)),
                np.char.add("+49 30 ", words),
                np.char.mod("2024-05-%02d", mixed % 28 + 1),
            ]
            arrays = [pa.array(column.astype(object), pa.string()) for column in columns]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    new_path.rename(path)
