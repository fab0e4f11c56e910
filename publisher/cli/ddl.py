"""``xds-publisher ddl``: an event log, and triggers that fill it from the user's own tables."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from publisher.cli.print_report import echo
from publisher.errors import UsageError

if TYPE_CHECKING:
    from publisher.triggers import TableRef


@click.command()
@click.option(
    "--database", "url", metavar="URL", required=True, help="Their database, as SQLAlchemy URL."
)
@click.option(
    "--table",
    "tables",
    metavar="[SCHEMA.]NAME",
    required=True,
    multiple=True,
    help="Table to log; may be given again.  A name with a dot stands in double quotes.",
)
@click.option(
    "--style",
    type=click.Choice(["per-field", "per-row", "query-back"]),
    required=True,
    help="Events to log: values of fields (types 1, 2, 4), rows to be looked up (5, 6, 4) or fields "
    "to be looked up (7, 8, 4).",
)
@click.option(
    "--log-table",
    metavar="[SCHEMA.]NAME",
    default="event_log",
    show_default=True,
    help="The event log; made where it is not there.",
)
@click.option(
    "--apply", "apply_", is_flag=True, help="Run the statements instead of printing them."
)
def ddl(url: str, tables: tuple[str, ...], style: str, log_table: str, apply_: bool) -> None:
    """Print SQL of an event log and of triggers that fill it.

    For PostgreSQL, MariaDB and SQLite.  Started again, with another style or after columns changed,
    it replaces the triggers; the log and its rows stay.
    """
    from publisher.database import Database, DatabaseOptions
    from publisher.triggers import Refs, Style, install, plan

    refs = Refs(tuple(_ref("--table", name) for name in tables), _ref("--log-table", log_table))
    with Database(DatabaseOptions(url=url)) as database:
        made = plan(database, refs, Style(style))
        for note in made.notes:
            echo([f"note: {note}"], err=True)
        if not apply_:
            click.echo(made.script, nl=False)
            return
        install(database, made)
        echo([f"made or replaced in {database.name}:", *(f"  {what}" for what in made.makes)])


def _ref(option: str, name: str) -> TableRef:
    """The table that an option names."""
    from publisher.sources.columns.object_names import split_name
    from publisher.triggers import TableRef

    parts = split_name(name)
    if parts is None:
        raise UsageError(f'{option} {name!r}: write it as table, schema.table or "schema"."table"')
    return TableRef(*parts)
