"""Finds triggers of older installations that give users the permissions of the installer."""

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
        WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') AS public,
      pg_catalog.pg_has_role(r.oid, n.nspowner, 'USAGE') AND NOT (r.rolsuper OR r.rolcreaterole
        OR r.rolreplication OR r.rolbypassrls) AS owned
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


def can_examine(database: Database) -> bool:
    """Returns whether ``ddl`` makes triggers in this kind of database."""
    return database.engine.dialect.name in (*_FINDERS, "sqlite")


def unsafe_functions(database: Database) -> list[str]:
    """Describes trigger functions and triggers with more permissions than they need.

    PostgreSQL: functions that PUBLIC may execute, or that run as another role than the log's writer and
    an ordinary owner of their schema (``writer_role``).
    MariaDB: triggers that run as another role; only users with TRIGGER on their tables see them.

    Raises ``UnreachableError``.
    """
    find = _FINDERS.get(database.engine.dialect.name)
    return database.run(find) if find is not None else []


def functions_of_owners(database: Database) -> list[str]:
    """Describes the trigger functions that run as the owner of their schema, for lack of the log's writer.

    Raises ``UnreachableError``.
    """
    if database.engine.dialect.name != "postgresql":
        return []
    functions = database.run(lambda connection: connection.execute(_OPEN).all())
    owners = sorted({one.rolname for one in functions if one.rolname != WRITER})
    return [
        f"triggers have the rights of {owner}, because ddl found no usable role {WRITER}"
        for owner in owners
    ]


def _open_functions(connection: Connection) -> list[str]:
    descriptions = []
    for schema, name, owner, public, is_owned in connection.execute(_OPEN):
        if public:
            descriptions.append(
                f"PUBLIC may execute {schema}.{name}(), which has the rights of {owner}"
            )
        elif owner != WRITER and not is_owned:
            descriptions.append(f"{schema}.{name}() has the rights of {owner}")
    return descriptions


def _powerful_triggers(connection: Connection) -> list[str]:
    return [
        f"trigger {schema}.{name} has the rights of {definer}"
        for schema, name, definer in connection.execute(_TRIGGERS)
        if not is_writer(definer)
    ]


_FINDERS = {
    "postgresql": _open_functions,
    "mariadb": _powerful_triggers,
    "mysql": _powerful_triggers,
}
