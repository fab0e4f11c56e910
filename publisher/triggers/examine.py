"""Triggers of older installations that give their users the rights of the installer."""

from __future__ import annotations

from sqlalchemy import Connection, text

from publisher.database.connection import Database
from publisher.triggers.mariadb import is_writer
from publisher.triggers.postgresql import WRITER

_OPEN = text("""
    SELECT n.nspname, p.proname, r.rolname,
      EXISTS (
        SELECT FROM pg_catalog.aclexplode(
          COALESCE(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a
        WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') AS public
    FROM pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    JOIN pg_catalog.pg_roles AS r ON r.oid = p.proowner
    WHERE p.prosecdef AND p.prorettype = CAST('pg_catalog.trigger' AS pg_catalog.regtype)
      AND p.proname LIKE 'xds\\_%'
    ORDER BY 1, 2
""")


_TRIGGERS = text("""
    SELECT TRIGGER_SCHEMA, TRIGGER_NAME, DEFINER FROM information_schema.TRIGGERS
    WHERE LEFT(TRIGGER_NAME, 4) = 'xds_'
    ORDER BY 1, 2
""")


def unsafe_functions(database: Database) -> list[str]:
    """Describe the trigger functions of PostgreSQL that PUBLIC may execute, and the functions
    and MariaDB's triggers that run with the rights of another role than the log's writer.

    MariaDB shows triggers only to users with the right TRIGGER on their tables.

    Raises ``UnreachableError``.
    """
    ask = _ASKED.get(database.engine.dialect.name)
    return database.run(ask) if ask is not None else []


def _open_functions(connection: Connection) -> list[str]:
    found = []
    for schema, name, owner, public in connection.execute(_OPEN):
        if public:
            found.append(f"PUBLIC may execute {schema}.{name}(), which has the rights of {owner}")
        elif owner != WRITER:
            found.append(f"{schema}.{name}() has the rights of {owner}")
    return found


def _powerful_triggers(connection: Connection) -> list[str]:
    return [
        f"trigger {schema}.{name} has the rights of {definer}"
        for schema, name, definer in connection.execute(_TRIGGERS)
        if not is_writer(definer)
    ]


_ASKED = {
    "postgresql": _open_functions,
    "mariadb": _powerful_triggers,
    "mysql": _powerful_triggers,
}
