"""``xds-publisher ddl``: SQL that creates an event log, and triggers that write to the log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_notes
from publisher.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from publisher.database.connection import Database
    from publisher.triggers import TableRef


@command(
    "ddl --database sqlite:///hr.db --table usr",
    "ddl --database sqlite:///hr.db --table usr --style per-row",
)
@click.option(
    "--database",
    "url",
    metavar="URL",
    required=True,
    help="Database of the tables, as SQLAlchemy URL.",
)
@click.option(
    "--table",
    "tables",
    metavar="[SCHEMA.]NAME",
    required=True,
    multiple=True,
    help="Table to log, with its child tables; repeatable.  Put a name with a dot in double quotes.",
)
@click.option(
    "--style",
    type=click.Choice(["per-field", "per-row", "query-back"]),
    default="per-field",
    show_default=True,
    help="Events to log: values of fields (types 1, 2, 4), rows to look up (5, 6, 4) or fields to "
    "look up (7, 8, 4).",
)
@click.option(
    "--key-change",
    type=click.Choice(["delete-and-insert", "modify-association"]),
    default="delete-and-insert",
    show_default=True,
    help="How to log an update of the primary key: as two objects, or as a change of the key of one.",
)
@click.option(
    "--log-table",
    metavar="[SCHEMA.]NAME",
    default="event_log",
    show_default=True,
    help="The event log; created if missing.",
)
@click.option(
    "--notify",
    is_flag=True,
    help="PostgreSQL: let the log wake `publish --follow` as soon as rows are committed.",
)
@click.option(
    "--apply", "apply_", is_flag=True, help="Run the statements instead of printing them."
)
def ddl(
    url: str,
    tables: tuple[str, ...],
    style: str,
    key_change: str,
    log_table: str,
    notify: bool,
    apply_: bool,
) -> None:
    """Print SQL of an event log and of triggers that fill it.

    For PostgreSQL, MariaDB and SQLite.  Events of child tables have the keys of their parents.  Standard
    error shows the settings that a job needs to read the log.

    Run it again after columns changed, or for another style: it replaces the triggers, and keeps the log and
    its rows.
    """
    from publisher.triggers import Refs, Style, adapt_to_rights, install, plan

    refs = Refs(tuple(_ref("--table", name) for name in tables), _ref("--log-table", log_table))
    with _database(url) as database:
        joins_keys = key_change == "modify-association"
        statements = plan(database, refs, Style(style), notifies=notify, joins_keys=joins_keys)
        if apply_:
            statements = adapt_to_rights(database, statements)
        echo_notes(statements.notes)
        if statements.settings:
            echo(["settings of a job that reads the log:", *statements.settings, ""], err=True)
        if not apply_:
            click.echo(statements.script, nl=False)
            return
        install(database, statements)
        echo(
            [
                f"created or replaced in {database.name}:",
                *(f"  {name}" for name in statements.created),
            ]
        )


def _database(url: str) -> Database:
    from publisher.database.connection import Database
    from publisher.database.options import DatabaseOptions

    try:
        return Database(DatabaseOptions(url=url))
    except SettingsError as error:
        problems = [replace(problem, option="--database") for problem in error.problems]
        raise SettingsError(problems) from None


def _ref(option: str, name: str) -> TableRef:
    """Parses the table that an option names."""
    from publisher.formats.columns.object_names import split_name
    from publisher.triggers import TableRef

    parts = split_name(name)
    if parts is None:
        raise UsageError(f'{option} {name!r}: write it as table, schema.table or "schema"."table"')
    return TableRef(*parts)
