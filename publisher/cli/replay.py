"""``xds-publisher replay``: publishes snapshots once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import show


@command("replay log.csv --to out", "replay log.csv --to kafka://localhost:9092/people")
@click.argument("snapshots", nargs=-1, required=True, type=parameters.PATH, metavar="SNAPSHOT...")
@parameters.target
@parameters.config
@parameters.source_format
@parameters.database
@parameters.schema
@click.option("--from", "window_from", metavar="POS", help="First position to publish.")
@click.option("--until", "window_until", metavar="POS", help="Last position to publish.")
@parameters.now
@parameters.status
@parameters.lanes
@parameters.engine
@parameters.again
@click.option("--masked", is_flag=True, help="Mask values as [masking] of the job file says.")
@parameters.dry_run
@parameters.report_form
def replay(
    snapshots: tuple[Path, ...],
    target: str,
    config: Path | None,
    dry_run: bool,
    again: bool,
    masked: bool,
    json_: bool,
    **options: Any,
) -> None:
    """Publish files to a directory or to Kafka.

    SNAPSHOT is a file, or a directory of files.  An interrupted replay resumes; a finished replay sends
    nothing when it is repeated.
    """
    from publisher.cli.progress import show_progress
    from publisher.runs.replay import rehearse_replay
    from publisher.runs.replay import replay as run_replay

    window = (options.pop("window_from"), options.pop("window_until"))
    of_run = {"window": window, "now": options.pop("now")}
    settings = parameters.load_settings(config, **options).for_replay(options["format_"])
    settings = settings.with_masking(is_masked=masked)
    with show_progress() as progress:
        if dry_run:
            report = rehearse_replay(settings, snapshots, target, progress=progress, **of_run)
        else:
            report = run_replay(
                settings, snapshots, target, again=again, progress=progress, **of_run
            )
    show(report, json_, settings.allowed_rejects(None))
