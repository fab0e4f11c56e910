"""``xds-publisher dispatch``: sends the documents of a planned run to another sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import show

if TYPE_CHECKING:
    from publisher.engine.contract import EngineName


@command("dispatch out/ledger --to kafka://localhost:9092/people")
@click.argument("ledger", type=parameters.PATH)
@parameters.target
@parameters.config
@parameters.again
@parameters.engine
@parameters.dry_run
@parameters.report_form
def dispatch(
    ledger: Path,
    target: str,
    config: Path | None,
    again: bool,
    engine: EngineName | None,
    dry_run: bool,
    json_: bool,
) -> None:
    """Send the documents of a planned run to another sink.

    Of a job file only [dispatch], [run] engine and [spark] are used.
    """
    from publisher.cli.progress import show_progress
    from publisher.runs.replay import dispatch as run_dispatch

    settings = parameters.load_settings(config, engine=engine)
    with show_progress() as progress:
        report = run_dispatch(
            ledger, target, settings, again=again, progress=progress, dry_run=dry_run
        )
    show(report, json_, None)
