"""``xds-publisher inspect``: prints the normalised changes of files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json, echo_notes
from publisher.console import is_terminal, terminal_width


@command("inspect log.csv", "inspect log.csv --status any | head")
@click.argument("files", nargs=-1, required=True, type=parameters.PATH, metavar="FILE...")
@parameters.format_or_samples
@parameters.config
@parameters.database
@parameters.schema
@parameters.status
@click.option("--masked", is_flag=True, help="Mask values as [masking] of the job file says.")
def inspect(
    files: tuple[Path, ...], config: Path | None, *, masked: bool, **overrides: Any
) -> None:
    """Print the normalised changes of files as JSON lines.

    On a terminal it prints a table, in which long values are truncated.  With --format table-queue it
    prints the elements of samples of the table queue.
    """
    from publisher.reports.changes import inspect as records_of

    if overrides["format_"] == "table-queue":
        from publisher.activity.inspection import call_lines

        settings = parameters.load_settings(config).with_masking(is_masked=masked)
        _print(call_lines(files, settings.table_queue, masked=masked), files)
        return
    settings = parameters.load_settings(config, **overrides).for_replay(overrides["format_"])
    settings = settings.with_masking(is_masked=masked)
    _print(records_of(settings, files), files, as_table=is_terminal())


def _print(records: Iterator[str], files: tuple[Path, ...], *, as_table: bool = False) -> None:
    """Prints records, or a note that the files have no records."""
    first = next(records, None)
    if first is None:
        echo_notes([f"no records in {', '.join(map(str, files))}"])
    elif as_table:
        from publisher.cli.change_table import table_lines

        has_several = len(files) > 1 or files[0].is_dir()
        echo(table_lines(chain([first], records), terminal_width(), with_files=has_several))
    else:
        echo_json(chain([first], records))
