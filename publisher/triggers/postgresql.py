"""Event log and triggers in PostgreSQL (11 or newer): one function and two triggers for a table.

* Row triggers fire after the change, so they see the row as other triggers have changed it, and the
  transaction holds the lock of the row: record ids of an object increase in the order of its
  commits.  Names of row triggers sort before those of foreign keys (``RI_…``), so cascaded changes are
  logged after the change of the key.
* The function runs as ``WRITER``, a role that may only insert into the log and select the logged keys:
  users need no permissions on the log.  Nobody else may attach the function to a table, and a function of
  its name that belongs to another role is refused.
* The function contains no casts, because the owner of a table may use a type whose casts run other code.
  Texts come from the output functions of types, which only superusers can write.
* Statements that look for the rows of other tables compare keys with operators of built-in types.  The
  functions check that the columns still have these types, because an operator of another type, or a cast
  to a built-in one, is code of its owner.
* The function sets all settings that influence the text of values.  TRUNCATE logs a delete of each row; it
  fails if the table has row-level security for ``WRITER``.
"""

from __future__ import annotations

from collections.abc import Iterator

from publisher.database.connection import TEXT_SETTINGS
from publisher.triggers.model import (
    NOTIFY_TRIGGER,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    literal,
    object_name,
    quote_name,
    script,
)
from publisher.triggers.postgresql_functions import TableFunction, child_function

__all__ = ["log_statements", "notify_statements", "script", "table_statements", "writer_statements"]

FUNCTION_NAME_BYTES = 63
WRITER = "xds_log_writer"
"""The role that owns the functions."""
_SETTINGS = "\n".join(
    f"SET {setting}"
    for setting in ("search_path TO pg_catalog, pg_temp", "row_security TO off", *TEXT_SETTINGS)
)


def log_statements(log: TableRef) -> list[Statement]:
    """Creates the log's table and the index of new rows if they are missing."""
    table = log.sql()
    index = quote_name(object_name(log.name, "new", FUNCTION_NAME_BYTES))
    return [
        Statement(
            f"event log {log.name}",
            f"""\
CREATE TABLE IF NOT EXISTS {table} (
  record_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  table_key   text NOT NULL,
  status      char(1) NOT NULL DEFAULT 'N',
  event_type  smallint NOT NULL CHECK (event_type BETWEEN 1 AND 8),
  event_time  timestamp NOT NULL DEFAULT (clock_timestamp() AT TIME ZONE 'UTC'),
  perpetrator varchar(128) DEFAULT session_user,
  table_name  varchar(256) NOT NULL,
  column_name varchar(256),
  old_value   text,
  new_value   text
)""",
        ),
        Statement(
            f"index of new rows of {log.name}",
            f"CREATE INDEX IF NOT EXISTS {index}\n  ON {table} (record_id) WHERE status = 'N'",
        ),
    ]


def writer_statements(log: TableRef) -> list[Statement]:
    """Creates the role that writes the log, with its permissions; refuses an existing role with more."""
    assert log.schema is not None
    return [
        Statement(f"role {WRITER}", _in_block(_ROLE), is_of_writer=True),
        Statement(
            f"right of {WRITER} to write {log.name}",
            f"GRANT USAGE ON SCHEMA {quote_name(log.schema)} TO {WRITER};\n"
            f"GRANT INSERT ON {log.sql()} TO {WRITER}",
            is_of_writer=True,
        ),
        Statement(
            f"right of {WRITER} to number rows of {log.name}",
            _in_block(_SEQUENCES.format(log=literal(log.sql()), writer=WRITER)),
            is_of_writer=True,
        ),
    ]


_ROLE = f"""\
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '{WRITER}') THEN
    CREATE ROLE {WRITER} NOLOGIN;
  ELSIF EXISTS (
    SELECT FROM pg_catalog.pg_roles r
    LEFT JOIN pg_catalog.pg_auth_members m ON m.member = r.oid
    WHERE r.rolname = '{WRITER}' AND (r.rolsuper OR r.rolcreaterole OR r.rolcreatedb
      OR r.rolreplication OR r.rolbypassrls OR r.rolcanlogin OR m.member IS NOT NULL)
  ) THEN
    RAISE EXCEPTION 'role {WRITER} may do more than write event logs: take its attributes and its '
      'memberships away, or rename it';
  END IF;
  -- whoever gives a function to the role must be able to become it
  IF NOT pg_catalog.pg_has_role('{WRITER}', CASE WHEN
    pg_catalog.current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END)
  THEN
    GRANT {WRITER} TO CURRENT_USER;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION '% may not create or use the role of the triggers; let a superuser run: '
    'CREATE ROLE {WRITER} NOLOGIN; GRANT {WRITER} TO %',
    pg_catalog.quote_ident(current_user), pg_catalog.quote_ident(current_user);
END
"""
_SEQUENCES = """\
DECLARE
  sequence record;
BEGIN
  FOR sequence IN
    SELECT n.nspname, c.relname FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S'
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE d.refobjid = pg_catalog.to_regclass({log}) AND d.deptype = 'a'
  LOOP
    EXECUTE pg_catalog.format('GRANT USAGE ON SEQUENCE %I.%I TO {writer}',
      sequence.nspname, sequence.relname);
  END LOOP;
END
"""
_OWNER = """\
BEGIN
  IF EXISTS (
    SELECT FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
    WHERE n.nspname = {schema} AND p.proname = {name} AND p.pronargs = 0
      AND r.rolname NOT IN ('{writer}', CURRENT_USER)
  ) THEN
    RAISE EXCEPTION 'function % is there and belongs to another role: drop it, then start again', {name};
  END IF;
END
"""


def _in_block(body: str) -> str:
    tag = _tag(body)
    return f"DO {tag}\n{body}{tag}"


def notify_statements(log: TableRef) -> list[Statement]:
    """Creates the trigger that notifies readers of the log of new rows, whoever inserts them.

    The function runs with the rights of the role that inserts, and needs none.
    """
    table, name = log.sql(), object_name(log.name, "notify", FUNCTION_NAME_BYTES)
    function = TableRef(log.schema, name).sql()
    channel = literal(object_name(f"{log.schema}.{log.name}", "new", FUNCTION_NAME_BYTES))
    owner = _OWNER.format(schema=literal(str(log.schema)), name=literal(name), writer=WRITER)
    return [
        Statement(f"check of the older function of {log.name}", _in_block(owner)),
        Statement(
            f"function that notifies readers of {log.name}",
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger\n"
            "LANGUAGE plpgsql SECURITY INVOKER\nSET search_path TO pg_catalog, pg_temp\nAS $xds$\n"
            "BEGIN\n  PERFORM pg_notify(TG_ARGV[0], '');\n  RETURN NULL;\nEND\n$xds$",
        ),
        Statement(
            f"revocation of PUBLIC's right to execute the function that notifies readers of {log.name}",
            f"REVOKE ALL ON FUNCTION {function}() FROM PUBLIC",
        ),
        Statement(
            f"removal of the older trigger {NOTIFY_TRIGGER} on {log.name}",
            f"DROP TRIGGER IF EXISTS {NOTIFY_TRIGGER} ON {table}",
        ),
        Statement(
            f"trigger {NOTIFY_TRIGGER} on {log.name}",
            f"CREATE TRIGGER {NOTIFY_TRIGGER} AFTER INSERT ON {table}\n"
            f"  FOR EACH STATEMENT EXECUTE FUNCTION {function}({channel})",
        ),
    ]


def table_statements(table: LoggedTable, log: TableRef, style: Style) -> list[Statement]:
    """Creates or replaces the functions and triggers of a table and of its child tables."""
    function = TableFunction(table, log, style)
    keys = ", ".join(map(quote_name, table.key))
    statements = _logging(table.ref, table.written, function.text(), f"({keys})", "BEFORE TRUNCATE")
    for events in function.children:
        child = events.child
        names = dict.fromkeys([name for name, _ in child.links])
        if style is Style.PER_FIELD or child.may_precede:
            names |= dict.fromkeys(child.columns)
        columns = f"({', '.join(map(quote_name, names))})"
        text = child_function(table, events, log)
        statements += _logging(child.ref, child.written, text, columns, "AFTER TRUNCATE")
    return statements


def _logging(
    table: TableRef, written: str, body: str, columns: str, truncation: str
) -> list[Statement]:
    """Creates or replaces the function and the triggers of one table."""
    name = object_name(table.name, "log", FUNCTION_NAME_BYTES)
    function = TableRef(table.schema, name).sql()
    schema, tag = quote_name(str(table.schema)), _tag(body)
    owner = _OWNER.format(schema=literal(str(table.schema)), name=literal(name), writer=WRITER)
    return [
        Statement(f"check of the older function of {written}", _in_block(owner)),
        Statement(
            f"function for {written}",
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger\n"
            f"LANGUAGE plpgsql SECURITY DEFINER\n{_SETTINGS}\nAS {tag}\n{body}{tag}",
        ),
        Statement(
            f"revocation of PUBLIC's right to execute the function for {written}",
            f"REVOKE ALL ON FUNCTION {function}() FROM PUBLIC",
        ),
        *_triggers(table, written, function, truncation),
        Statement(
            f"right of {WRITER} to see the keys of {written}",
            f"GRANT USAGE ON SCHEMA {schema} TO {WRITER};\n"
            f"GRANT SELECT {columns} ON {table.sql()} TO {WRITER}",
            is_of_writer=True,
        ),
        # the new owner needs CREATE while the owner is changed
        Statement(
            f"owner of the function for {written}",
            f"GRANT CREATE ON SCHEMA {schema} TO {WRITER};\n"
            f"ALTER FUNCTION {function}() OWNER TO {WRITER};\n"
            f"REVOKE CREATE ON SCHEMA {schema} FROM {WRITER}",
            is_of_writer=True,
        ),
    ]


def _triggers(table: TableRef, written: str, function: str, truncation: str) -> Iterator[Statement]:
    for trigger, event, unit in (
        ("0_xds_log", "AFTER INSERT OR UPDATE OR DELETE", "ROW"),
        ("0_xds_truncate", truncation, "STATEMENT"),
    ):
        drop = f"DROP TRIGGER IF EXISTS {quote_name(trigger)} ON {table.sql()}"
        create = (
            f"CREATE TRIGGER {quote_name(trigger)} {event} ON {table.sql()}\n"
            f"  FOR EACH {unit} EXECUTE FUNCTION {function}()"
        )
        yield Statement(f"removal of the older trigger {trigger} on {written}", drop)
        yield Statement(f"trigger {trigger} on {written}", create)


def _tag(body: str) -> str:
    """A dollar quote that does not occur in the body."""
    tag, number = "$xds$", 0
    while tag in body:
        number += 1
        tag = f"$xds{number}$"
    return tag
