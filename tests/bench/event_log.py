"""``bench event-log``: replay of field events beside what Spark needs for the bare shape of the work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from publisher.config.settings import Settings
from publisher.engine.spark.session import spark_session
from tests.bench.data import Log, event_log
from tests.bench.floor import write_floor
from tests.bench.processes import Role, Watch
from tests.bench.program import Replay, job_file, replay, settings_of, workspace
from tests.bench.ranks import rank_seconds, spreads
from tests.bench.report import Report

EVENTS = 1_800_000
RATIO = 0.8
TIMES_TEN = 10.5
"""How many times longer ten times the input may take."""
SAME_MEMORY = 1.1
RANKS = 0.05
"""Share of a replay's processor time that ranks may take."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class SmallerRun:
    """The smaller run that the larger input is compared with."""

    seconds: float
    cpu_seconds: float
    worker: int
    """Peak memory of the greatest worker, bytes."""


def run(*, scale: int = 10, runs: int = 3, events: int | None = None, **_: int | None) -> Report:
    """Floor and replay in turn in one session; then one replay of ``scale`` times the input."""
    count = events or EVENTS
    log = event_log(Log(count))
    larger = event_log(Log(count * scale)) if scale > 1 else None
    report = Report("event-log")
    with workspace() as work:
        settings = settings_of(job_file(work, both_compilers=True))
        with spark_session(settings.spark) as spark:
            smaller = _in_turn(report, spark, settings, log, work, runs)
            if larger is not None:
                _larger(report, spark, settings, larger, work, smaller, scale)
    return report


def _in_turn(
    report: Report, spark: SparkSession, settings: Settings, log: Path, work: Path, runs: int
) -> SmallerRun:
    replays: list[Replay] = []
    floors: list[float] = []
    watches: list[Watch] = []
    floor_cpu: list[float] = []
    lanes = settings.run.lane_count
    for _ in range(runs):
        with Watch() as watch:
            replays.append(replay(settings, log, work / "out"))
        watches.append(watch)
        size = replays[-1].report.bytes
        start = time.perf_counter()
        with Watch() as watch:
            write_floor(spark, log, work / "floor", lanes=lanes, bytes_out=size)
        floors.append(time.perf_counter() - start)
        floor_cpu.append(watch.cpu_seconds)
    floor = report.add_seconds("floor: Spark reads, repartitions, sorts, writes text", floors)
    best = report.add_seconds("replay to files", [r.seconds for r in replays])
    last = replays[-1].report
    report.add(f"lanes, engine {engine_of(replays[-1])}", lanes, "")
    report.add("documents", last.documents, "")
    report.add("documents", last.bytes / MIB, "MiB")
    report.add("events a second", last.read / best, "")
    report.add("replay / floor", best / floor, "", bound=RATIO)
    cpu = min(watch.cpu_seconds for watch in watches)
    report.add("floor: processor time", min(floor_cpu), "s")
    report.add("replay: processor time", cpu, "s")
    _add_ranks(report, last.read, cpu, work / "ids")
    return SmallerRun(best, cpu, _add_memory(report, watches))


def _add_ranks(report: Report, events: int, cpu: float, folder: Path) -> None:
    """Adds the processor time that counting polls in events takes, by how ids are spread over splits."""
    for name, ids in spreads(events).items():
        seconds = rank_seconds(ids, folder / name)
        report.add(f"ranks, ids {name}: processor time", seconds, "s")
        bound = RANKS if name == "in order" else None
        report.add(f"ranks, ids {name}: share of the replay", seconds / cpu, "x", bound=bound)


def _larger(
    report: Report,
    spark: SparkSession,
    settings: Settings,
    log: Path,
    work: Path,
    smaller: SmallerRun,
    scale: int,
) -> None:
    """Replay, then floor, of the larger input."""
    with Watch() as watch:
        done = replay(settings, log, work / "out")
    report.add(f"{scale} times the input: replay, engine {engine_of(done)}", done.seconds, "s")
    start = time.perf_counter()
    write_floor(
        spark, log, work / "floor", lanes=settings.run.lane_count, bytes_out=done.report.bytes
    )
    floor = time.perf_counter() - start
    report.add(f"{scale} times the input: replay / floor", done.seconds / floor, "", bound=RATIO)
    bound = TIMES_TEN * scale / 10
    report.add(f"{scale} times the input: time", done.seconds / smaller.seconds, "x", bound=bound)
    cpu = watch.cpu_seconds / smaller.cpu_seconds
    report.add(f"{scale} times the input: processor time", cpu, "x")
    worker = _add_memory(report, [watch])
    growth = worker / smaller.worker
    report.add(f"{scale} times the input: worker", growth, "x", bound=SAME_MEMORY)


def engine_of(done: Replay) -> str:
    """The engine of a replay."""
    engine = done.report.engine
    return engine.name if engine is not None else "unknown"


def _add_memory(report: Report, watches: Sequence[Watch]) -> int:
    """Adds the greatest peaks of the watches; gives that of a worker."""
    peaks = {role: max(watch.greatest(role) for watch in watches) for role in Role}
    report.add("peak memory: JVM of the driver", peaks[Role.JVM] / MIB, "MiB")
    report.add("peak memory: Python of the driver", peaks[Role.ROOT] / MIB, "MiB")
    report.add("peak memory: greatest worker", peaks[Role.WORKER] / MIB, "MiB")
    return peaks[Role.WORKER]
