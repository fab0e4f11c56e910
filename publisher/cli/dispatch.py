"""``xds-publisher dispatch``: sends a planned run to a further sink."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

from pathlib import Path

import click

from publisher.cli import parameters
from publisher.cli.print_report import show


@click.command()
@click.argument("journal", type=parameters.PATH)
@parameters.target
@parameters.config
@parameters.again
@parameters.report_as_json
def dispatch(journal: Path, target: str, config: Path | None, again: bool, json_: bool) -> None:
    """Send the documents of a planned run to a further sink.

    Of a job file only [dispatch] is used.
    """
    from publisher.runs.replay import dispatch as run_dispatch

    show(run_dispatch(journal, target, parameters.load_settings(config), again=again), json_, None)
