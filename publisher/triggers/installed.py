"""Reads the triggers that ``ddl`` has made in a database."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, text

from publisher.triggers.model import TableRef, object_name, written_name
from publisher.triggers.postgresql import FUNCTION_NAME_BYTES

_TRIGGERS = {
    # triggers of partitions are copies of those of their table
    "postgresql": text("""
        SELECT n.nspname, c.relname, t.tgname, p.prosrc, t.tgenabled IN ('O', 'A'), p.proname
        FROM pg_catalog.pg_trigger t
        JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgname IN ('0_xds_log', '0_xds_truncate') AND (t.tgenabled NOT IN ('O', 'A')
            OR NOT EXISTS (
                SELECT FROM pg_catalog.pg_inherits i
                JOIN pg_catalog.pg_trigger u ON u.tgrelid = i.inhparent
                WHERE i.inhrelid = c.oid AND u.tgname = t.tgname AND u.tgfoid = t.tgfoid))
        ORDER BY 1, 2, 3
    """),
    "mariadb": text("""
        SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, TRIGGER_NAME, ACTION_STATEMENT, 1, NULL
        FROM information_schema.TRIGGERS
        WHERE LEFT(TRIGGER_NAME, 4) = 'xds_' AND LOCATE('table_key', ACTION_STATEMENT) > 0
        ORDER BY 1, 2, 3
    """),
    "sqlite": text("""
        SELECT NULL, tbl_name, name, sql, 1, NULL FROM sqlite_master
        WHERE type = 'trigger' AND substr(name, 1, 4) = 'xds_' AND instr(sql, 'table_key')
        ORDER BY 2, 3
    """),
}


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


def read_triggers(connection: Connection) -> list[InstalledTrigger]:
    """Reads the triggers that the user can see, in all schemas."""
    dialect = connection.dialect.name
    rows = connection.execute(_TRIGGERS["mariadb" if dialect == "mysql" else dialect])
    triggers = []
    for schema, table, name, body, is_enabled, function in rows:
        own_function = object_name(table, "log", FUNCTION_NAME_BYTES)
        # a renamed table may call the function of the table that has its name now
        is_own = function in (None, own_function)
        sql = body if is_own else f"{function}: {body}"
        triggers.append(InstalledTrigger(TableRef(schema, table), name, sql, bool(is_enabled)))
    return triggers
