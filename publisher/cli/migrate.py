"""``xds-publisher migrate``: publishes rows of compared tables as new."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import show


@command("migrate -c hr.toml --table usr --where city=Oslo")
@parameters.config_required
@click.option("--source", "name", metavar="NAME", help="Migrate tables of this source only.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="[SCHEMA.]NAME",
    help="Migrate this table; repeatable.  By default all tables.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Migrate the row with this key, as idu=4711; repeatable.",
)
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Migrate rows with this text in this column; if repeated, all conditions must hold.",
)
@parameters.now
@parameters.ledger_of_job
@parameters.engine
@parameters.dry_run
@parameters.report_form
def migrate(
    config: Path,
    name: str | None,
    tables: tuple[str, ...],
    keys: tuple[str, ...],
    conditions: tuple[str, ...],
    now: datetime | None,
    dry_run: bool,
    json_: bool,
    **overrides: Any,
) -> None:
    """Publish rows of compared tables as new.

    Each row becomes an <add>, whether it was published before or not, and its state is stored.  Other
    rows keep their state.  An interrupted migration resumes when the same command is started again.
    """
    from publisher.cli.progress import show_progress
    from publisher.config.job_file import Overrides, load_to_publish
    from publisher.formats.migration import Migration
    from publisher.runs.migrate import migrate as run_migration

    pairs = [condition.partition("=")[::2] for condition in conditions]
    if not all(column for column, _ in pairs) or not all("=" in text for text in conditions):
        raise click.UsageError("--where: write COLUMN=VALUE")
    settings = load_to_publish(config, Overrides(**overrides))
    with show_progress() as progress:
        migration = Migration(tables, tuple(pairs), keys)
        report = run_migration(
            settings, migration, name, now=now, progress=progress, dry_run=dry_run
        )
    show(report, json_, settings.allowed_rejects(0))
