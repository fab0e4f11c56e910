"""Estimates with PostgreSQL's driver alone how many rows a table has to read, and sees if it has none.

Most starts of a job find nothing.  SQLAlchemy, which runs all other statements, takes about as long to load
as everything else that such a start needs.
"""

# ruff: noqa: PLC0415 - loads psycopg for PostgreSQL only, and SQLAlchemy only after a failure

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from publisher.database.urls import address_of

if TYPE_CHECKING:
    import psycopg

    from publisher.database.options import DatabaseOptions

_FIND = """
    SELECT n.nspname, c.relname
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (
        n.nspname = coalesce(%(schema)s::text, pg_catalog.current_schema())
            AND pg_catalog.lower(c.relname) = pg_catalog.lower(%(name)s::text)
        OR n.nspname = %(first)s::text AND c.relname = %(rest)s::text)
"""
"""Tables that ``find_table.relation_of`` could mean."""


def estimate_rows(
    options: DatabaseOptions, table: str, columns: Sequence[str], where: tuple[str, str] | None
) -> int | None:
    """Estimates the rows of a table that have the value of ``where`` in its column; 0 if it surely has none.

    Returns ``None`` if only the catalogue can tell: for other databases, for URLs with options, if names are
    written in another case, if one of ``columns`` is missing, after a failed statement, and in a trace.

    Raises:
        LostError: The connection fails.
        FatalError: The server refuses the login.
    """
    address = address_of(options.url)
    is_traced = logging.getLogger("sqlalchemy.engine").isEnabledFor(logging.INFO)
    if address is None or is_traced:  # a trace shows the statements of SQLAlchemy
        return None
    try:
        import psycopg
    except ImportError:  # SQLAlchemy's connection reports it
        return None
    try:
        connection = psycopg.connect(
            address,
            connect_timeout=options.connect_timeout,
            application_name="xds-publisher",
            autocommit=True,
            prepare_threshold=None,  # as in ``connection``
        )
    except psycopg.Error as error:
        raise _connection_error(options, error) from error
    with closing(connection):
        try:
            return _ask(connection, options.schema, table, columns, where)
        except psycopg.Error:
            return None


def _connection_error(options: DatabaseOptions, error: psycopg.Error) -> Exception:
    import psycopg
    from sqlalchemy.exc import DBAPIError

    from publisher.database.connection import Database

    with Database(options) as database:
        return database.connection_error(
            DBAPIError.instance(None, None, error, psycopg.Error)  # type: ignore[arg-type]
        )


def _ask(
    connection: psycopg.Connection[Any],
    schema: str | None,
    table: str,
    columns: Sequence[str],
    where: tuple[str, str] | None,
) -> int | None:
    from psycopg import sql

    first, _, rest = table.partition(".")
    names = {"schema": schema, "name": table, "first": first, "rest": rest}
    places = connection.execute(_FIND, names).fetchall()
    if len(places) != 1 or (places[0][1] != table and places[0] != (first, rest)):
        return None
    parts = {
        "columns": sql.SQL(", ").join(map(sql.Identifier, columns)),
        "table": sql.Identifier(*places[0]),
    }
    rows = sql.SQL("SELECT {columns} FROM {table}").format(**parts)
    if where is not None:
        rows += sql.SQL(" WHERE {} = %s::varchar").format(sql.Identifier(where[0]))
    values = None if where is None else where[1:]
    exists = connection.execute(sql.SQL("SELECT EXISTS ({})").format(rows), values)
    if exists.fetchone() == (False,):
        return 0
    # the planner's statistics: to count may take long
    plans = connection.execute(sql.SQL("EXPLAIN (FORMAT JSON) {}").format(rows), values).fetchall()
    return max(1, int(plans[0][0][0]["Plan"]["Plan Rows"]))
