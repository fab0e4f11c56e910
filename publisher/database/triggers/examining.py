"""Trigger functions of older installations that others may attach to tables of their own."""

from __future__ import annotations

from sqlalchemy import Connection, text

from publisher.database.connection import Database
from publisher.database.triggers.postgresql import WRITER

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


def unsafe_functions(database: Database) -> list[str]:
    """Describe the trigger functions that PUBLIC may execute, or that run with the rights of another
    role than the log's writer.  Databases other than PostgreSQL have none.

    Raises ``UnreachableError``.
    """
    if database.engine.dialect.name != "postgresql":
        return []

    def ask(connection: Connection) -> list[str]:
        found = []
        for schema, name, owner, public in connection.execute(_OPEN):
            if public:
                found.append(
                    f"PUBLIC may execute {schema}.{name}(), which has the rights of {owner}"
                )
            elif owner != WRITER:
                found.append(f"{schema}.{name}() has the rights of {owner}")
        return found

    return database.run(ask)
