"""Builds the report of runs: reads their journals twice, for the numbers and for the chosen objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from publisher.errors import FatalError, UsageError
from publisher.journal.find_journal import find_job
from publisher.journal.scan_runs import scan_runs
from publisher.reports.object_histories import ObjectHistory, read_histories
from publisher.reports.page.chosen_objects import ObjectChoice
from publisher.reports.page.histories import objects_text
from publisher.reports.page.overview import Overview, OverviewBuilder
from publisher.reports.page.render import ShownObjects, render

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Report:
    """A report in numbers, and as a page."""

    overview: Overview
    page: str


def build_report(directories: Sequence[Path], now: datetime) -> Report:
    """Reports all runs of journals, of directories of ``replay`` and of jobs, in this order.

    Starts no Spark.  Memory depends on the largest lane, and on the largest segment of small runs.

    Raises:
        UsageError: A directory has no journal with a complete run.
        FatalError: A journal is damaged, or another version of the program wrote it.
    """
    for _ in range(_ATTEMPTS - 1):
        before = _state(directories)
        try:
            return _build(directories, now)
        except (FatalError, OSError):
            # a publisher that runs beside moves and removes finished runs
            if _state(directories) == before:
                raise
    return _build(directories, now)


def _state(directories: Sequence[Path]) -> list[object]:
    """The folders of runs and segments, to find out whether some were moved."""
    jobs = [find_job(directory) for directory in directories]
    return [(job.numbers(), job.segments.current()) for job in jobs if job is not None]


def _build(directories: Sequence[Path], now: datetime) -> Report:
    counts, choice = OverviewBuilder(), ObjectChoice()
    for directory in directories:
        for part in scan_runs(directory):
            counts.add(part)
            choice.add(part)
    if not counts.runs:
        names = ", ".join(map(str, directories))
        raise UsageError(f"{names}: no complete run: publish first, or give another directory")
    overview = counts.finish()
    histories = {obj: ObjectHistory(obj) for obj in choice.objects()}
    for directory in directories:
        for part in scan_runs(directory):
            for obj, event in read_histories(part, histories):
                histories[obj].add(event)
    text = objects_text(list(histories.values()))
    is_complete = choice.is_complete and text.shown == len(histories)
    return Report(overview, render(overview, ShownObjects(text, choice.count, is_complete), now))
