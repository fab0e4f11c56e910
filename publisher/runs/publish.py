"""Publishes the pending work of a job once."""

from __future__ import annotations

from datetime import datetime

from publisher.config.settings import Settings
from publisher.console import Progress
from publisher.ledger.conservation import RunReport
from publisher.observing.contract import Observer, Observers
from publisher.runs.job import open_job
from publisher.runs.notes import notes_of, with_notes


def publish(
    settings: Settings,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
    observer: Observer | None = None,
    accepts_database: bool = False,
) -> RunReport:
    """Publishes the pending work of a job once, and reports each run to the observer.

    A run that an earlier start planned but did not send completely is sent first.  For
    ``accepts_database`` see ``Job``.

    Raises:
        SettingsError: The job file lacks a setting that publishing needs.
        PublisherError: See ``errors``.
    """
    observer = observer or Observers(())
    with open_job(settings, progress, accepts_database=accepts_database) as job:
        finished = job.finish()
        notes = notes_of(finished)
        observer.on_start(settings.name, job.sink.target, notes)
        for earlier in finished:
            observer.on_poll(job.poll(earlier))
        report = job.run(now=now)
        observer.on_poll(job.poll(report))
        job.expire()
    return with_notes(report, notes)
