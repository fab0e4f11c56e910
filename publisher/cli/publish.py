"""``xds-publisher publish`` with observers: once, or until a signal."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

import signal
import sys
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from publisher.errors import PublisherError

if TYPE_CHECKING:
    from publisher.config.settings import Settings
    from publisher.engine.spark.engine import Progress
    from publisher.journal.conservation import RunReport
    from publisher.observing.contract import Observer


def follow_until_signal(settings: Settings, *, as_json: bool, trace: int) -> None:
    """Follows the sources of a job until SIGTERM or SIGINT; reports polls on standard error."""
    from publisher.runs.follow import follow

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _observe(settings, as_json=as_json, trace=trace, quiet=False) as observer:
        try:
            follow(settings, observer, stop)
        except PublisherError as error:
            observer.on_stop(error.message)  # the log shows it in its own form
            raise


def publish_once(
    settings: Settings,
    now: datetime | None,
    progress: Progress | None,
    *,
    log: str | None,
    trace: int | None,
    by_rows: bool = False,
) -> RunReport:
    """Publishes once; writes log lines and a trace to standard error if asked to."""
    from publisher.runs.publisher_instance import publish

    quiet = log is None and trace is None
    settings = replace(
        settings, metrics=replace(settings.metrics, port=None)
    )  # the process ends too soon
    with _observe(settings, as_json=log == "json", trace=trace or 0, quiet=quiet) as observer:
        return publish(settings, now=now, progress=progress, observer=observer, by_rows=by_rows)


def _observe(
    settings: Settings, *, as_json: bool, trace: int, quiet: bool
) -> AbstractContextManager[Observer]:
    from publisher.observing.compose import observe

    journals = settings.journals
    return observe(
        sys.stderr,
        settings.name,
        journals,
        settings.metrics,
        as_json=as_json,
        trace=trace,
        quiet=quiet,
    )
