"""Reports the progress of Spark stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

from pyspark.sql import SparkSession

from publisher.console import Phase, Progress

_SECONDS = 0.3
_PLANNING = (Phase.READING, Phase.PLANNING)


@contextmanager
def report_progress(
    spark: SparkSession,
    progress: Progress | None,
    phases: Sequence[Phase] = _PLANNING,
    items: int | None = None,
) -> Iterator[None]:
    """Reports the stages that run inside the block to ``progress``, as phases in their order.

    ``items`` is the number of items of all tasks; without it the tasks themselves count."""
    if progress is None:
        yield
        return
    is_done = Event()
    thread = Thread(target=_watch, args=(spark, progress, is_done, phases, items), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def _watch(
    spark: SparkSession,
    progress: Progress,
    is_done: Event,
    phases: Sequence[Phase],
    items: int | None,
) -> None:
    tracker = spark.sparkContext.statusTracker()
    stages: list[int] = []
    while not is_done.wait(_SECONDS):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is None or not info.numTasks:
                continue
            if stage not in stages:
                stages.append(stage)
            phase = phases[min(stages.index(stage), len(phases) - 1)]
            total = info.numTasks if items is None else items
            progress(phase, total * info.numCompletedTasks // info.numTasks, total)
