"""Reads the triggers that ``ddl`` has made in a database, and finds those with needless rights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from publisher.database.connection import Database
from publisher.triggers.model import WRITER, DatabaseKind, TableRef, object_name, written_name


class InstalledTrigger(NamedTuple):
    """A trigger on a table."""

    table: TableRef
    name: str
    text: str
    """The trigger's SQL, its body, or the body of its function."""
    is_enabled: bool

    @property
    def description(self) -> str:
        """The description of the statement that creates the trigger."""
        is_named_by_table = self.name.startswith("xds_")
        return f"trigger {self.name}" + (
            "" if is_named_by_table else f" on {written_name(*self.table)}"
        )


def read_triggers(kind: DatabaseKind, connection: Connection) -> list[InstalledTrigger]:
    """Reads the triggers that the user can see, in all schemas."""
    triggers = []
    rows = connection.execute(kind.query("triggers"))
    for schema, table, name, body, is_enabled, function in rows:
        # a renamed table may call the function of the table that has its name now
        is_own = function in (None, object_name(table, "log", kind.name_bytes))
        sql = body if is_own else f"{function}: {body}"
        triggers.append(InstalledTrigger(TableRef(schema, table), name, sql, bool(is_enabled)))
    return triggers


def can_examine(database: Database) -> bool:
    """Returns whether ``ddl`` makes triggers in this kind of database."""
    return database.engine.dialect.name in (*DatabaseKind, "mysql")


def unsafe_functions(database: Database) -> list[str]:
    """Describes trigger functions and triggers with more permissions than they need.

    PostgreSQL: functions that PUBLIC may execute, or that run as another role than the log's writer and
    an ordinary owner of their schema (``adapt_to_rights``).
    MariaDB: triggers that run as another role; only users with TRIGGER on their tables see them.

    Raises ``UnreachableError``.
    """
    if DatabaseKind.of(database) is DatabaseKind.MARIADB:
        return [
            f"trigger {schema}.{name} has the rights of {definer}"
            for schema, name, definer in _rows(database, "definers")
            if not (definer.startswith("xds_") and definer.endswith("_writer@"))
        ]
    descriptions = []
    for schema, name, owner, is_public, is_owned in _functions(database):
        if is_public:
            descriptions.append(
                f"PUBLIC may execute {schema}.{name}(), which has the rights of {owner}"
            )
        elif owner != WRITER and not is_owned:
            descriptions.append(f"{schema}.{name}() has the rights of {owner}")
    return descriptions


def functions_of_owners(database: Database) -> list[str]:
    """Describes the trigger functions that run as the owner of their schema, for lack of the log's writer.

    Raises ``UnreachableError``.
    """
    owners = sorted({owner for _, _, owner, _, _ in _functions(database) if owner != WRITER})
    return [
        f"triggers have the rights of {owner}, because ddl found no usable role {WRITER}"
        for owner in owners
    ]


def _functions(database: Database) -> Sequence[Any]:
    """Reads the functions of PostgreSQL's triggers; other databases have none."""
    is_postgresql = DatabaseKind.of(database) is DatabaseKind.POSTGRESQL
    return _rows(database, "functions") if is_postgresql else []


def _rows(database: Database, query: str) -> Sequence[Any]:
    statement = DatabaseKind.of(database).query(query)
    return database.run(lambda connection: connection.execute(statement).all())
