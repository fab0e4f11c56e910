"""Plans the statements of an event log and its triggers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, inspect

from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.errors import UsageError
from publisher.model.change import LOG_COLUMNS
from publisher.model.keys import BLANKS
from publisher.triggers.find_classes import ClassFinder
from publisher.triggers.installed import read_triggers
from publisher.triggers.mariadb_cascades import MariadbCascades, find_keys
from publisher.triggers.model import (
    DatabaseKind,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    object_name,
    written_name,
)
from publisher.triggers.render import render, script

_LONGEST_NAME = 256
"""Characters of the log's column table_name."""

_PURPOSES = (
    *("insert", "update", "delete", "rekey", "rename", "before_delete", "before_update"),
    *("changed_insert", "changed_update", "changed_delete"),
)
"""Ends of the names of triggers in MariaDB and SQLite."""


class Refs(NamedTuple):
    """The tables to log, and the log."""

    tables: tuple[TableRef, ...]
    log: TableRef


@dataclass(frozen=True, slots=True)
class TriggerPlan:
    """Statements to create; ``notes`` are warnings about changes that no trigger sees."""

    statements: tuple[Statement, ...]
    script: str
    notes: tuple[str, ...]
    settings: tuple[str, ...]
    """Lines that the job file needs besides the log's table; empty if the defaults fit."""
    tables: tuple[TableRef, ...]
    """The log, and the tables with triggers."""

    @property
    def created(self) -> list[str]:
        """Descriptions of the objects that the statements create."""
        return [one.description for one in self.statements if one.text.startswith("CREATE")]


def plan(
    database: Database,
    refs: Refs,
    style: Style,
    *,
    notifies: bool = False,
    joins_keys: bool = False,
) -> TriggerPlan:
    """Plans the statements for the log and the triggers of the classes; writes nothing.

    With ``notifies`` the log wakes its readers; with ``joins_keys`` an update of the key is logged as a
    change of the object's key.

    Raises ``UsageError`` for tables that cannot be logged, ``FatalError``, ``UnreachableError``.
    """
    kind = DatabaseKind.of(database)
    if notifies and kind is not DatabaseKind.POSTGRESQL:
        raise UsageError(
            f"--notify: {database.name} cannot wake the readers of a log, only PostgreSQL can: leave the "
            "option out, and set polling_interval in [follow]"
        )
    default, log = _default_schema(database), log_ref(database, refs.log)
    classes = ClassFinder(database, default, style, joins_keys=joins_keys)
    tables = classes.find(refs.tables)
    _check_log(database, refs.log)
    notes = classes.notes
    for table in tables:
        _check_table(table, log, style)
        notes += database.run(partial(_warnings, kind, table))
    removals, renamed = database.run(partial(_old_triggers, kind, tables))
    keys = find_keys(database, tables, default) if kind is DatabaseKind.MARIADB else []
    cascades = MariadbCascades(style, keys, tables)
    statements = render(
        kind,
        log,
        tables,
        style,
        notifies=notifies,
        removals=removals,
        cascades=cascades,
    )
    settings = _job_settings(log, style, joins_keys=joins_keys)
    places = [log, *(table.ref for table in tables)]
    places += [child.ref for table in tables for child in table.children]
    return TriggerPlan(
        tuple(statements),
        script(kind, statements),
        (*notes, *renamed, *cascades.unlogged),
        settings,
        tuple(places),
    )


def log_ref(database: Database, ref: TableRef) -> TableRef:
    """Returns the log with its schema."""
    return TableRef(ref.schema or _default_schema(database), ref.name)


def _default_schema(database: Database) -> str | None:
    def ask(connection: Connection) -> str | None:
        dialect = connection.dialect
        if dialect.name == "mysql" and not getattr(dialect, "is_mariadb", False):
            raise UsageError("MySQL: triggers are written for PostgreSQL, MariaDB and SQLite")
        return inspect(connection).default_schema_name if dialect.name != "sqlite" else None

    return database.options.schema or database.run(ask)


def _old_triggers(
    kind: DatabaseKind, tables: Sequence[LoggedTable], connection: Connection
) -> tuple[list[TableRef], list[str]]:
    """Finds triggers that ``ddl`` made for a table before the table, or another one, got its name."""
    if kind is DatabaseKind.POSTGRESQL:
        return [], []  # triggers have the same names on all tables
    refs = {table.ref for table in tables}
    refs |= {child.ref for table in tables for child in table.children}
    names = {
        TableRef(ref.schema, object_name(ref.name, purpose, kind.name_bytes))
        for ref in refs
        for purpose in _PURPOSES
    }
    removals, notes = [], []
    for trigger in read_triggers(kind, connection):
        old = TableRef(trigger.table.schema, trigger.name)
        if (old in names) != (trigger.table in refs):
            removals.append(old)
            if trigger.table not in refs:
                notes.append(
                    f"trigger {old.name} is on {written_name(*trigger.table)}, which was renamed, and is "
                    "removed: run ddl for this table, too"
                )
    return removals, notes


def _job_settings(log: TableRef, style: Style, *, joins_keys: bool) -> tuple[str, ...]:
    """The lines of a job file by which inserts become ``<add>``, and changes of keys are published."""
    if style is Style.PER_FIELD and not joins_keys:
        return ()  # the defaults fit
    lines = ["[[sources]]", 'format = "event-log"', f"table = {json.dumps(written_name(*log))}"]
    if joins_keys:
        lines.append('key_change = "modify-association"')
    if style is not Style.PER_FIELD:
        lines += ["", "[documents]", 'insert_query_back = "add"']
    return tuple(f"  {line}".rstrip() for line in lines)


def _check_table(table: LoggedTable, log: TableRef, style: Style) -> None:
    if len(table.written) > _LONGEST_NAME:
        raise UsageError(
            f"{table.written} has more than {_LONGEST_NAME} characters with its quotes: rename it"
        )
    if table.ref == log:
        raise UsageError(f"{table.ref.name} is the event log itself: name another --log-table")
    if not table.key:
        raise UsageError(
            f"{table.written} has no primary key, which identifies its rows in the log: add one "
            "(ALTER TABLE ... ADD PRIMARY KEY), or a foreign key to the table whose values it holds; for a "
            "view, name its underlying table"
        )
    columns = {logged.written: logged.columns for logged in table.children}
    for written, names in {table.written: table.columns, **columns}.items():
        padded = [name for name in names if name != name.strip(BLANKS)]
        if padded and style is not Style.PER_ROW:
            raise UsageError(
                f"column {padded[0]!r} of {written} begins or ends with blanks, which the log cannot "
                "store: rename it, or use --style per-row"
            )


def _check_log(database: Database, ref: TableRef) -> None:
    """Refuses a table of the log's name that is not an event log."""
    relation = catalogue_of(database).relation(ref.schema, ref.name)
    missing = [name for name in LOG_COLUMNS if relation is not None and not relation.column(name)]
    if missing:
        raise UsageError(
            f"{ref.name} exists and is not an event log (it has no {', '.join(missing)}): "
            "name another --log-table"
        )


def _warnings(kind: DatabaseKind, table: LoggedTable, connection: Connection) -> list[str]:
    """Describes the changes that the table's triggers would miss."""
    warnings = []
    place = table.ref._asdict()
    if kind is DatabaseKind.POSTGRESQL:
        if connection.execute(kind.query("deferrable_key"), place).first() is not None:
            warnings.append(
                f"the primary key of {table.written} is deferrable: if rows exchange their keys, the "
                "log may end with the delete of a row that exists"
            )
        heirs = connection.execute(kind.query("heirs"), {"name": table.ref.sql(kind)}).all()
        if heirs and heirs[0][0]:
            warnings.append(
                f"TRUNCATE, ATTACH and DETACH of a partition of {table.written} fire no trigger: use "
                "INSERT and DELETE, or run verify --repair afterwards"
            )
        elif names := [name for _, name in heirs if name is not None]:
            warnings.append(
                f"rows of {', '.join(names)}, which inherit from {table.written}, are not logged with it: "
                "run ddl for these tables, too"
            )
    if kind is DatabaseKind.MARIADB:
        written = ", ".join([table.written, *(child.written for child in table.children)])
        warnings.append(f"TRUNCATE of {written} fires no trigger in MariaDB: use DELETE")
        if connection.execute(kind.query("partitions"), place).first() is not None:
            warnings.append(
                f"TRUNCATE, DROP and EXCHANGE PARTITION of {table.written} fire no trigger: use INSERT and "
                "DELETE, or run verify --repair afterwards"
            )
    return warnings
