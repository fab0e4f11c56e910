"""How far the Spark job of a run is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pyspark.sql import SparkSession

Progress = Callable[[str, float], None]
"""Told the phase and how much of it is done, 0 to 1."""

_SECONDS = 0.3
_PHASES = ("reading", "planning")


@contextmanager
def watched(spark: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Tells ``progress`` of the stages that run inside the block: reading, then planning."""
    if progress is None:
        yield
        return
    done = Event()
    thread = Thread(target=_watch, args=(spark, progress, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(spark: SparkSession, progress: Progress, done: Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    seen: list[int] = []
    while not done.wait(_SECONDS):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is None or not info.numTasks:
                continue
            if stage not in seen:
                seen.append(stage)
            phase = _PHASES[min(seen.index(stage), len(_PHASES) - 1)]
            progress(phase, info.numCompletedTasks / info.numTasks)
