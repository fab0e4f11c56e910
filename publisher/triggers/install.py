"""Runs the statements of a plan with the rights that the user has."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database.connection import Database
from publisher.database.lost_error import LostError
from publisher.errors import FatalError
from publisher.triggers.model import WRITER, DatabaseKind, TableRef
from publisher.triggers.plan import TriggerPlan
from publisher.triggers.render import script


def adapt_to_rights(database: Database, plan: TriggerPlan) -> TriggerPlan:
    """Leaves out the role for users who may not use it: the triggers then have the rights of the user.

    Only the owner of the log, the tables and their schemas may do so, because the owner of a schema can
    put a table in place of the log, whose triggers would run with the rights of the user.  All users of
    other databases than PostgreSQL may use the role.

    Raises ``FatalError`` for other users; both say how to get the role.
    """
    if DatabaseKind.of(database) is not DatabaseKind.POSTGRESQL:
        return plan
    user, exists, is_powerful, may_use = database.run(
        lambda connection: connection.execute(DatabaseKind.POSTGRESQL.query("rights")).one()
    )
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
    statements = tuple(one for one in plan.statements if not one.is_of_writer)
    return replace(
        plan,
        statements=statements,
        script=script(DatabaseKind.POSTGRESQL, statements),
        notes=(*plan.notes, note),
    )


def _foreign_objects(tables: Sequence[TableRef], connection: Connection) -> list[str]:
    """Names the schemas and tables of other roles, and the functions that the role owns already."""
    schemas = sorted({str(table.schema) for table in tables})
    names = {"schemas": schemas, "tables": [table.sql() for table in tables]}
    rows = connection.execute(DatabaseKind.POSTGRESQL.query("foreign_objects"), names)
    return [f"{name} belongs to another role" for (name,) in rows]


def install(database: Database, plan: TriggerPlan) -> None:
    """Runs the statements: all or none, if the database can roll them back.

    Raises ``FatalError`` and ``UnreachableError``, which name the objects that MariaDB keeps.
    """
    done = 0
    try:
        with _writing(database) as connection:
            for statement in plan.statements:
                connection.exec_driver_sql(statement.text)
                done += 1
    except LostError as lost:
        raise database.unreachable(f"{lost}; {_remainder(database, plan, done)}") from lost
    except DBAPIError as error:
        failed = plan.statements[done].description if done < len(plan.statements) else "commit"
        raise FatalError(
            f"{failed} failed on {database.name}: {database.redact(error)}; "
            f"{_remainder(database, plan, done)}: fix the cause, then start the same command again"
        ) from error


def _remainder(database: Database, plan: TriggerPlan, done: int) -> str:
    """Describes the objects that stay after an interrupted installation."""
    if DatabaseKind.of(database) is not DatabaseKind.MARIADB:
        return "nothing was changed"
    lasting = ("CREATE", "DROP", "GRANT")  # not settings of the session, nor checks
    kept = [one.description for one in plan.statements[:done] if one.text.startswith(lasting)]
    return f"MariaDB keeps the objects that were already created: {', '.join(kept) or 'nothing'}"


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
