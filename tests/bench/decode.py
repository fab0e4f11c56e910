"""``bench decode``: what one core decodes of each format, beside Spark's ``binaryFile`` and a count."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from publisher.engine.spark.options import SparkOptions
from publisher.engine.spark.session import spark_session
from publisher.formats.contract import Context
from publisher.model.catalogue import JobCatalogue
from publisher.model.change import TALLY, Outcome
from publisher.no_pandas import hide_pandas
from tests.bench.decode_data import inputs
from tests.bench.report import Report
from tests.support.prepare import prepare_here

SIZE = 200_000_000
ROWS_A_SECOND = {"dispatch-queue": 60_000}
MB_A_SECOND = {"linkexpress": 50, "change-table Parquet": 30, "change-table CSV": 30}
SPLITS = 4


@dataclass(frozen=True, slots=True)
class Decoded:
    """One reading of a file: all that tasks and driver do to have its changes, in one process."""

    records: int
    changes: int
    rejected: int
    seconds: float
    cpu: float
    planning: float
    """Processor time of what the driver does: splits, survey."""


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """Each file in a process of its own, in turn with Spark; the best of some runs.

    Bounds hold of processor time: what one core does, whatever else it is asked for meanwhile.
    ``events`` is a hundredth of the bytes of a file, for a quick look."""
    size = SIZE if events is None else events * 100
    report = Report("decode")
    # Spark holds the whole content of a file some times over
    one_core = SparkOptions(master="local[1]", conf={"spark.driver.memory": "4g"})
    with spark_session(one_core) as spark:
        for one in inputs():
            path = one.make(size)
            megabytes = path.stat().st_size / 1e6
            found, floors = [], []
            for _run in range(runs):
                found.append(_decode(one.name, path))
                floors.append(_time_spark(spark, path))
            _add(report, one.name, megabytes, found)
            best = min(floors)
            report.add(f"{one.name}: binaryFile and count", megabytes / best, "MB/s")
    return report


def _add(report: Report, name: str, megabytes: float, found: list[Decoded]) -> None:
    best = min(found, key=lambda one: one.cpu)
    wall = min(one.seconds for one in found)
    report.require(
        f"{name}: all records are changes or marks", not best.rejected and best.changes > 0
    )
    report.add(f"{name}: file", megabytes, "MB")
    report.add(f"{name}: records", best.records, "")
    report.add(f"{name}: splits and survey, share", best.planning / best.cpu, "")
    report.add(f"{name}: time", wall, "s")
    report.add(
        f"{name}: records a second of processor time",
        best.records / best.cpu,
        "",
        at_least=ROWS_A_SECOND.get(name),
    )
    report.add(
        f"{name}: of processor time", megabytes / best.cpu, "MB/s", at_least=MB_A_SECOND.get(name)
    )


def _decode(name: str, path: Path) -> Decoded:
    """Reads a file in a new process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=decode, args=(there, name, path))
    process.start()
    there.close()
    found = here.recv()
    process.join()
    assert isinstance(found, Decoded)
    return found


def decode(pipe: Connection, name: str, path: Path) -> None:
    """The new process, without pandas, as worker processes: its import takes a third of a reading."""
    hide_pandas()
    source = next(one.source for one in inputs() if one.name == name)
    context = Context(0, 8, JobCatalogue(()))
    start, cpu = time.perf_counter(), time.process_time()
    with prepare_here(source, [path], SPLITS, context.catalogue) as prepared:
        splits = prepared.splits
    planning = time.process_time() - cpu
    records = changes = rejected = 0
    for number in range(len(splits)):
        for batch in prepared.read(number, context):
            outcomes = batch.column("outcome")
            changes += outcomes.null_count
            found = [] if outcomes.null_count == len(outcomes) else outcomes.to_pylist()
            rejected += found.count(Outcome.REJECTED)
            if found[-1:] == [TALLY]:
                records += batch.column("row")[len(found) - 1].as_py()
    pipe.send(
        Decoded(
            records,
            changes,
            rejected,
            time.perf_counter() - start,
            time.process_time() - cpu,
            planning,
        )
    )


def _time_spark(spark: SparkSession, path: Path) -> float:
    """Seconds that Spark takes to load the bytes of a file and to count them."""
    start = time.perf_counter()
    files = spark.read.format("binaryFile").load(str(path))
    files.agg(f.sum(f.length("content")), f.count("*")).collect()
    return time.perf_counter() - start
