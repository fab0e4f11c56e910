"""``xds-publisher demo``: publishes the changes of a small company."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.errors import FindingsError, InternalError


@command("demo")
@click.argument("directory", type=parameters.PATH, default="demo-output")
def demo(directory: Path) -> None:
    """Create a small company and publish its changes.

    DIRECTORY, demo-output by default, receives the company's database with its event log, a job file,
    documents, and a ledger.
    """
    from rich.console import Console

    from publisher.cli.progress import show_progress
    from publisher.demo.run import run_demo

    run_demo(Console(highlight=False), directory, _run, show_progress)


def _run(words: Sequence[str]) -> tuple[int, list[str]]:
    """Runs a command in this process; returns its exit code, and the lines on its standard output."""
    from publisher.cli.main import cli

    printed, errors, code = io.StringIO(), io.StringIO(), 0
    try:
        with redirect_stdout(printed), redirect_stderr(errors):
            cli.main(list(words), prog_name="xds-publisher")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    if code not in (0, FindingsError.exit_code):
        raise InternalError(f"{' '.join(words)}: {errors.getvalue().strip()}")
    return code, printed.getvalue().splitlines()
