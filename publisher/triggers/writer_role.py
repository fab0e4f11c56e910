"""PostgreSQL: triggers for users who may not use the role that writes the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, text

from publisher.database.connection import Database
from publisher.errors import FatalError
from publisher.triggers import postgresql
from publisher.triggers.install import TriggerPlan
from publisher.triggers.model import TableRef
from publisher.triggers.postgresql import WRITER

_RIGHTS = text(f"""
    SELECT pg_catalog.quote_ident(u.rolname), r.oid IS NOT NULL,
      u.rolcreaterole OR u.rolreplication OR u.rolbypassrls,
      COALESCE(u.rolsuper
        OR u.rolcreaterole AND (r.oid IS NULL OR v.number < 160000)
        OR pg_catalog.pg_has_role(u.oid, r.oid, CASE WHEN v.number < 160000 THEN 'MEMBER' ELSE 'SET' END)
        OR pg_catalog.pg_has_role(u.oid, r.oid, 'MEMBER WITH ADMIN OPTION'), false)
    FROM pg_catalog.pg_roles u
    LEFT JOIN pg_catalog.pg_roles r ON r.rolname = '{WRITER}'
    CROSS JOIN (SELECT CAST(pg_catalog.current_setting('server_version_num') AS integer)) AS v (number)
    WHERE u.rolname = CURRENT_USER
""")
_FOREIGN = text(f"""
    SELECT 'schema ' || pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n
    WHERE n.nspname = ANY(CAST(:schemas AS name[])) AND NOT pg_catalog.pg_has_role(n.nspowner, 'USAGE')
    UNION ALL
    SELECT 'table ' || CAST(CAST(c.oid AS regclass) AS text) FROM pg_catalog.pg_class c
    WHERE c.oid IN (SELECT pg_catalog.to_regclass(t) FROM unnest(CAST(:tables AS text[])) AS t)
      AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE')
    UNION ALL
    SELECT 'function ' || CAST(CAST(p.oid AS regproc) AS text) FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
    WHERE n.nspname = ANY(CAST(:schemas AS name[])) AND r.rolname = '{WRITER}'
    ORDER BY 1
""")


def adapt_to_rights(database: Database, plan: TriggerPlan) -> TriggerPlan:
    """Leaves out the role for users who may not use it: the triggers then have the rights of the user.

    Only the owner of the log, the tables and their schemas may do so, because the owner of a schema can
    put a table in place of the log, whose triggers would run with the rights of the user.

    Raises ``FatalError`` for other users; both say how to get the role.
    """
    if database.engine.dialect.name != "postgresql":
        return plan
    user, exists, is_powerful, may_use = database.run(_ask_rights)
    if may_use:
        return plan
    create = "" if exists else f"CREATE ROLE {WRITER} NOLOGIN; "
    problem = f"{user} may not {'use' if exists else 'create'} the role {WRITER}"
    cure = f"let a superuser run: {create}GRANT {WRITER} TO {user}; then run ddl again"
    doubts = database.run(partial(_foreign_objects, plan.tables))
    if is_powerful:
        doubts.insert(0, "its rights to create roles, replicate or bypass row-level security")
    if doubts:
        raise FatalError(
            f"{database.name}: {problem}, and triggers with the rights of {user} would not be safe "
            f"({', '.join(doubts)}); nothing was changed: {cure}"
        )
    note = f"{problem}, so the triggers have the rights of {user}: to let them write the log only, {cure}"
    statements = [one for one in plan.statements if not one.is_of_writer]
    script = postgresql.script(statements)
    return replace(plan, statements=tuple(statements), script=script, notes=(*plan.notes, note))


def _ask_rights(connection: Connection) -> tuple[str, bool, bool, bool]:
    user, exists, is_powerful, may_use = connection.execute(_RIGHTS).one()
    return user, exists, is_powerful, may_use


def _foreign_objects(tables: Sequence[TableRef], connection: Connection) -> list[str]:
    """Names the schemas and tables of other roles, and the functions that the role owns already."""
    schemas = sorted({str(table.schema) for table in tables})
    names = {"schemas": schemas, "tables": [table.sql() for table in tables]}
    return [f"{name} belongs to another role" for (name,) in connection.execute(_FOREIGN, names)]
