"""Builds the report of runs: reads ledger once to choose objects, and again for numbers and histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from publisher.ledger.read import scan_runs
from publisher.reports.object_histories import ObjectHistory, read_histories
from publisher.reports.page.chosen_objects import ObjectChoice
from publisher.reports.page.histories import objects_text
from publisher.reports.page.overview import Overview, OverviewBuilder
from publisher.reports.page.render import ShownObjects, render
from publisher.reports.rejects import read_rejects


@dataclass(frozen=True, slots=True)
class Report:
    """A report in numbers, and as a page."""

    overview: Overview
    page: str


def build_report(directories: Sequence[Path], now: datetime) -> Report:
    """Reports all runs of ledgers, of directories of ``replay`` and of jobs, in this order.

    Starts no Spark.  Memory depends on the largest lane, and on the largest segment of small runs.

    Raises:
        UsageError: A directory has no ledger with a complete run.
        FatalError: A ledger is damaged, or another version of the program wrote it.
    """
    choice = ObjectChoice()
    for directory in directories:
        for part in scan_runs(directory):
            choice.add(part)
    counts = OverviewBuilder()
    histories = {obj: ObjectHistory(obj) for obj in choice.objects()}
    for directory in directories:
        for part in scan_runs(directory):
            counts.add(part)
            for obj, event in read_histories(part, histories):
                histories[obj].add(event)
    overview, text = counts.finish(), objects_text(list(histories.values()))
    if overview.rejects:
        overview = replace(overview, rejected_now=sum(1 for _ in read_rejects(directories)))
    is_complete = choice.is_complete and text.shown == len(histories)
    return Report(overview, render(overview, ShownObjects(text, choice.count, is_complete), now))
