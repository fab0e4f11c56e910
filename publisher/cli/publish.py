"""``xds-publisher publish`` with observers: once, or until a signal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import show
from publisher.errors import PublisherError
from publisher.stop_request import StopRequest

if TYPE_CHECKING:
    from publisher.config.settings import Settings
    from publisher.console import Progress
    from publisher.ledger.conservation import RunReport
    from publisher.observing.contract import Observer


@command("publish -c hr.toml --dry-run", "publish -c hr.toml --follow")
@parameters.config_required
@click.option(
    "--follow", is_flag=True, help="Publish continuously, poll after poll, until SIGTERM or Ctrl-C."
)
@click.option(
    "--log",
    type=click.Choice(["text", "json"]),
    help="Write log lines to standard error in this form.",
)
@click.option(
    "--trace",
    type=click.IntRange(0, 7),
    metavar="0..7",
    help="Write the driver's trace of this level to standard error; from level 3 it contains documents.",
)
@parameters.dry_run
@click.option(
    "--accept-database",
    "accepts_database",
    is_flag=True,
    help="Continue in another database, or in a table that was created again, as if earlier runs had read "
    "it: a replica, a restored dump, a new server.",
)
@parameters.now
@parameters.database
@parameters.schema
@parameters.lanes
@parameters.engine
@parameters.ledger_of_job
@parameters.report_form
def publish(
    config: Path,
    follow: bool,
    log: str | None,
    trace: int | None,
    dry_run: bool,
    accepts_database: bool,
    now: datetime | None,
    json_: bool,
    **overrides: Any,
) -> None:
    """Publish the changes of a job.

    It publishes once or, with --follow, continuously.  If an instance with --follow runs already, publish
    makes it poll now and shows the result, and publish --follow takes over from it.
    """
    from publisher.cli.progress import show_progress

    settings = parameters.load_settings_to_publish(config, follows=follow, **overrides)
    if follow:
        if dry_run or accepts_database or now is not None:
            raise click.UsageError(
                "--follow excludes --dry-run, --accept-database and --now: leave them out"
            )
        follow_until_signal(settings, as_json=json_ or log == "json", trace=trace or 0)
        return
    if dry_run and (log is not None or trace is not None):
        raise click.UsageError("--dry-run excludes --log and --trace: leave them out")
    with show_progress() as progress:
        if dry_run:
            from publisher.runs.rehearse import rehearse

            report = rehearse(
                settings, now=now, progress=progress, accepts_database=accepts_database
            )
        else:
            asked = _ask_running_instance(
                settings, overrides, log, trace, now, accepts_database or None
            )
            report = asked or publish_once(
                settings, now, progress, log=log, trace=trace, accepts_database=accepts_database
            )
    show(report, json_, settings.allowed_rejects(0))


def _ask_running_instance(
    settings: Settings, overrides: Mapping[str, object], *options: object
) -> RunReport | None:
    """Lets an instance that follows the job poll; ``None`` without one, or if the command has options that
    only a run of its own can obey."""
    from publisher.runs.following import is_followed, request_poll

    options += tuple(value for name, value in overrides.items() if name != "ledger")
    if any(option is not None for option in options) or not is_followed(settings.ledger_folder):
        return None
    from publisher.ledger.job import Ledger

    return request_poll(Ledger(settings.ledger_folder, settings.name))


def follow_until_signal(settings: Settings, *, as_json: bool, trace: int) -> None:
    """Follows the sources of a job until SIGTERM or SIGINT; reports polls on standard error."""
    from publisher.cli.progress import show_progress
    from publisher.ledger.job import Ledger, RequestWatch
    from publisher.runs.follow import follow

    stop = StopRequest(RequestWatch(Ledger(settings.ledger_folder, settings.name)))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # the bar first: log lines appear above it
    with (
        show_progress() as progress,
        _observe(settings, as_json=as_json, trace=trace, quiet=False) as observer,
    ):
        try:
            follow(settings, observer, stop, progress)
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
    accepts_database: bool = False,
) -> RunReport:
    """Publishes once; writes log lines and a trace to standard error if asked to."""
    from publisher.runs.publish import publish

    quiet = log is None and trace is None
    without_port = replace(settings.metrics, port=None)  # the process ends before a scrape
    settings = replace(settings, metrics=without_port)
    with _observe(settings, as_json=log == "json", trace=trace or 0, quiet=quiet) as observer:
        return publish(
            settings,
            now=now,
            progress=progress,
            observer=observer,
            accepts_database=accepts_database,
        )


def _observe(
    settings: Settings,
    *,
    as_json: bool,
    trace: int,
    quiet: bool,
) -> AbstractContextManager[Observer]:
    from publisher.observing.compose import observe

    ledger = settings.ledger_folder
    return observe(
        sys.stderr,
        settings.name,
        ledger,
        settings.metrics,
        as_json=as_json,
        trace=trace,
        quiet=quiet,
    )
