"""``xds-publisher demo``: publishes the changes of a small company."""

# ruff: noqa: PLC0415 - heavy modules are imported late, so that --help answers at once

from __future__ import annotations

from pathlib import Path

import click

from publisher.cli import parameters
from publisher.cli.command import command


@command("demo")
@click.argument("directory", type=parameters.PATH, default="demo-output")
def demo(directory: Path) -> None:
    """Create a small company and publish its changes.

    DIRECTORY, demo-output by default, receives the company's database with its event log, recordings of
    other systems, documents and journals.  The first run needs a Java runtime for Spark.
    """
    from rich.console import Console

    from publisher.demo.run import run_demo

    run_demo(Console(highlight=False), directory)
