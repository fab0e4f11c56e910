"""Plans the statements of an event log and its triggers, and runs them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import NamedTuple

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from publisher.database.catalogue import Relation, catalogue_of
from publisher.database.connection import Database
from publisher.database.lost_error import LostError
from publisher.errors import FatalError, UsageError
from publisher.model.change import LOG_COLUMNS
from publisher.triggers import mariadb, postgresql, sqlite
from publisher.triggers.find_classes import ClassFinder
from publisher.triggers.installed import read_triggers
from publisher.triggers.mariadb_cascades import find_cascades
from publisher.triggers.model import (
    PURPOSES,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    object_name,
    unloggable_column,
    written_name,
)

_DIALECTS: dict[str, ModuleType] = {
    "postgresql": postgresql,
    "mariadb": mariadb,
    "mysql": mariadb,
    "sqlite": sqlite,
}


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
    dialect = _dialect(database)
    _check_notification(database, notifies=notifies)
    default, log = _default_schema(database), log_ref(database, refs.log)
    classes = ClassFinder(database, default, style, joins_keys=joins_keys)
    tables = classes.find(refs.tables)
    _check_log(database, refs.log)
    notes = classes.notes
    for table in tables:
        _check_table(table, log, style)
        notes += database.run(partial(_warnings, table))
    statements = _log_statements(dialect, log, notifies=notifies)
    removals, renamed = database.run(partial(_remove_old, tables))
    statements += removals
    notes += renamed
    for table in tables:
        statements += dialect.table_statements(table, log, style)
    if dialect is mariadb:
        cascades = find_cascades(database, tables, default, log, style)
        statements += cascades.statements()
        notes += cascades.unlogged
    script, settings = dialect.script(statements), _job_settings(log, style, joins_keys=joins_keys)
    refs_of_children = (child.ref for table in tables for child in table.children)
    places = (log, *(table.ref for table in tables), *refs_of_children)
    return TriggerPlan(tuple(statements), script, tuple(notes), settings, places)


def _log_statements(dialect: ModuleType, log: TableRef, *, notifies: bool) -> list[Statement]:
    statements: list[Statement] = list(dialect.log_statements(log))
    if dialect is not sqlite:
        statements += dialect.writer_statements(log)
    if notifies:
        statements += postgresql.notify_statements(log)
    return statements


def log_ref(database: Database, ref: TableRef) -> TableRef:
    """Returns the log with its schema."""
    return TableRef(ref.schema or _default_schema(database), ref.name)


def _remove_old(
    tables: Sequence[LoggedTable], connection: Connection
) -> tuple[list[Statement], list[str]]:
    """Removes triggers that ``ddl`` made for a table before the table, or another one, got its name."""
    if connection.dialect.name == "postgresql":
        return [], []  # triggers have the same names on all tables
    dialect = sqlite if connection.dialect.name == "sqlite" else mariadb
    refs = {table.ref for table in tables}
    refs |= {child.ref for table in tables for child in table.children}
    names = {
        (ref.schema, object_name(ref.name, purpose, dialect.NAME_BYTES))
        for ref in refs
        for purpose in PURPOSES
    }
    statements, notes = [], []
    for trigger in read_triggers(connection):
        schema, name = trigger.table.schema, trigger.name
        if ((schema, name) in names) != (trigger.table in refs):
            place = TableRef(schema, name).sql(dialect.quote_name)
            removal = f"removal of the older trigger {name}"
            statements.append(Statement(removal, f"DROP TRIGGER IF EXISTS {place}"))
            if trigger.table not in refs:
                notes.append(
                    f"trigger {name} is on {written_name(*trigger.table)}, which was renamed, and is "
                    "removed: run ddl for this table, too"
                )
    return statements, notes


def _check_notification(database: Database, *, notifies: bool) -> None:
    if notifies and _dialect(database) is not postgresql:
        raise UsageError(
            f"--notify: {database.name} cannot wake the readers of a log, only PostgreSQL can: leave the "
            "option out, and set polling_interval in [follow]"
        )


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


def install(database: Database, plan: TriggerPlan) -> None:
    """Runs the statements: all or none, if the database can roll them back.

    Raises ``FatalError`` and ``UnreachableError``, which name the objects that MariaDB keeps.
    """
    done: list[str] = []
    try:
        with _writing(database) as connection:
            for statement in plan.statements:
                connection.exec_driver_sql(statement.text)
                done.append(statement.description)
    except LostError as lost:
        raise database.unreachable(f"{lost}; {_remainder(database, done)}") from lost
    except DBAPIError as error:
        failed = (
            plan.statements[len(done)].description if len(done) < len(plan.statements) else "commit"
        )
        raise FatalError(
            f"{failed} failed on {database.name}: {database.redact(error)}; "
            f"{_remainder(database, done)}: fix the cause, then start the same command again"
        ) from error


def _remainder(database: Database, done: list[str]) -> str:
    """Describes the objects that stay after an interrupted installation."""
    if _dialect(database) is not mariadb:
        return "nothing was changed"
    created = ", ".join(name for name in done if name not in mariadb.TEMPORARY) or "nothing"
    return f"MariaDB keeps the objects that were already created: {created}"


def _dialect(database: Database) -> ModuleType:
    name = database.engine.dialect.name
    if name not in _DIALECTS:
        raise UsageError(f"{name}: triggers are written for PostgreSQL, MariaDB and SQLite")
    return _DIALECTS[name]


def _default_schema(database: Database) -> str | None:
    def ask(connection: Connection) -> str | None:
        dialect = connection.dialect
        if dialect.name == "mysql" and not getattr(dialect, "is_mariadb", False):
            raise UsageError("MySQL: triggers are written for PostgreSQL, MariaDB and SQLite")
        return inspect(connection).default_schema_name if dialect.name != "sqlite" else None

    return database.options.schema or database.run(ask)


_LONGEST_NAME = 256
"""Characters of the log's column table_name."""


def _check_table(table: LoggedTable, log: TableRef, style: Style) -> None:
    if len(table.written) > _LONGEST_NAME:
        raise UsageError(
            f"{table.written} has more than {_LONGEST_NAME} characters with its quotes: rename it"
        )
    if table.ref == log:
        raise UsageError(f"{table.name} is the event log itself: name another --log-table")
    if not table.key:
        raise UsageError(
            f"{table.written} has no primary key, which identifies its rows in the log: add one "
            "(ALTER TABLE ... ADD PRIMARY KEY), or a foreign key to the table whose values it holds; for a "
            "view, name its underlying table"
        )
    columns = {table.written: table.columns}
    columns |= {child.written: child.columns for child in table.children}
    for written, names in columns.items():
        column = unloggable_column(names)
        if column is not None and style is not Style.PER_ROW:
            raise UsageError(
                f"column {column!r} of {written} begins or ends with blanks, which the log cannot "
                "store: rename it, or use --style per-row"
            )


def _check_log(database: Database, ref: TableRef) -> None:
    """Refuses a table of the log's name that is not an event log."""
    relation: Relation | None = catalogue_of(database).relation(ref.schema, ref.name)
    if relation is None:
        return
    missing = [name for name in LOG_COLUMNS if relation.column(name) is None]
    if missing:
        raise UsageError(
            f"{ref.name} exists and is not an event log (it has no {', '.join(missing)}): "
            "name another --log-table"
        )


_DEFERRABLE = text("""
    SELECT k.conname FROM pg_catalog.pg_constraint k
    JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :schema AND c.relname = :name AND k.contype = 'p' AND k.condeferrable
""")


_FAMILY = text("""
    SELECT c.relkind = 'p', pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(d.relname)
    FROM pg_catalog.pg_class c
    LEFT JOIN (pg_catalog.pg_inherits i JOIN pg_catalog.pg_class d ON d.oid = i.inhrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = d.relnamespace) ON i.inhparent = c.oid
    WHERE c.oid = pg_catalog.to_regclass(:name) ORDER BY 2
""")
_PARTITIONS = text("""
    SELECT 1 FROM information_schema.PARTITIONS
    WHERE TABLE_SCHEMA = :schema AND TABLE_NAME = :name AND PARTITION_NAME IS NOT NULL
""")


def _warnings(table: LoggedTable, connection: Connection) -> list[str]:
    """Describes the changes that the table's triggers would miss."""
    dialect = connection.dialect.name
    warnings = []
    place = {"schema": table.schema, "name": table.name}
    if dialect == "postgresql":
        if connection.execute(_DEFERRABLE, place).first() is not None:
            warnings.append(
                f"the primary key of {table.written} is deferrable: if rows exchange their keys, the "
                "log may end with the delete of a row that exists"
            )
        family = connection.execute(_FAMILY, {"name": table.ref.sql()}).all()
        if family and family[0][0]:
            warnings.append(
                f"TRUNCATE, ATTACH and DETACH of a partition of {table.written} fire no trigger: use "
                "INSERT and DELETE, or run verify --repair afterwards"
            )
        elif heirs := [name for _, name in family if name is not None]:
            warnings.append(
                f"rows of {', '.join(heirs)}, which inherit from {table.written}, are not logged with it: "
                "run ddl for these tables, too"
            )
    if dialect in ("mysql", "mariadb"):
        names = ", ".join([table.written, *(child.written for child in table.children)])
        warnings.append(f"TRUNCATE of {names} fires no trigger in MariaDB: use DELETE")
        if connection.execute(_PARTITIONS, place).first() is not None:
            warnings.append(
                f"TRUNCATE, DROP and EXCHANGE PARTITION of {table.written} fire no trigger: use INSERT and "
                "DELETE, or run verify --repair afterwards"
            )
    return warnings


@contextmanager
def _writing(database: Database) -> Iterator[Connection]:
    """Opens a connection for writing, in a transaction that is committed at the end."""
    with Database(database.options, writing=True) as writer, writer.connect() as connection:
        connection.execution_options(no_parameters=True)  # % is not a placeholder
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):
            driver.isolation_level = None  # otherwise the driver commits before each statement
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection
        if isinstance(driver, sqlite3.Connection):
            connection.exec_driver_sql("COMMIT")
        connection.commit()
