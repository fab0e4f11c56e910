"""``xds-publisher init``: writes a first job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_notes


@command("init log.csv -o hr.toml", "init --database sqlite:///hr.db --table event_log -o hr.toml")
@click.argument("files", nargs=-1, type=parameters.PATH, metavar="[FILE...]")
@parameters.source_format
@click.option("--database", metavar="URL", help="Database to read from, or to look rows up in.")
@parameters.schema
@click.option("--table", metavar="NAME", help="Event log or change table of the database.")
@click.option(
    "--to",
    "target",
    type=parameters.Target(),
    default="documents",
    metavar="DIR|kafka://HOST:PORT/TOPIC",
    help="Directory or topic of the documents; default: the directory documents.",
)
@click.option(
    "-o",
    "--output",
    metavar="JOB.toml",
    type=parameters.PATH,
    required=True,
    help="Job file to write; an existing one is never replaced.",
)
@click.option(
    "--all",
    "shows_defaults",
    is_flag=True,
    help="Show every setting with its default, and the classes.",
)
@parameters.dry_run_option("Print the job file instead of writing it.")
def init(
    target: str,
    output: Path,
    format_: str | None,
    shows_defaults: bool,
    dry_run: bool,
    **given: Any,
) -> None:
    """Write a job file for files or a database, after a look at them.

    Event logs and change tables are recognised by their columns.  The file has the settings that differ from
    their defaults; editors complete it by the JSON Schema that is written to .xds-publisher beside it.
    """
    from publisher.reports.new_job import Input, compose_job, next_steps

    job = compose_job(output, Input(format=format_, **given), target, shows_defaults=shows_defaults)
    if dry_run:
        echo(job.text.splitlines())
        return
    job.write()
    echo_notes(job.notes)
    echo(next_steps(job))
