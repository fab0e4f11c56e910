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
* The function sets all settings that influence the text of values.  TRUNCATE logs a delete of each row; it
  fails if the table has row-level security for ``WRITER``.
"""

from __future__ import annotations

from collections.abc import Iterator

from publisher.model.catalogue import ColumnKind
from publisher.triggers.model import (
    BLANK_PATTERN,
    DELETE,
    NOTIFY_TRIGGER,
    SPECIAL_PATTERN,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    block,
    key_pieces,
    literal,
    object_name,
    quote_name,
    script,
)

__all__ = ["log_statements", "notify_statements", "script", "table_statements", "writer_statements"]

_NAME_BYTES = 63
_PLAIN = frozenset({ColumnKind.INT, ColumnKind.DECIMAL, ColumnKind.STATE, ColumnKind.DATE})
_SPECIAL = f"{SPECIAL_PATTERN}|^{BLANK_PATTERN}|{BLANK_PATTERN}$|^$"
WRITER = "xds_log_writer"
"""The role that owns the functions."""
_SETTINGS = """\
SET search_path TO pg_catalog, pg_temp
SET row_security TO off
SET standard_conforming_strings TO on
SET timezone TO 'UTC'
SET datestyle TO 'ISO, YMD'
SET intervalstyle TO 'postgres'
SET bytea_output TO 'hex'
SET extra_float_digits TO 1
SET lc_monetary TO 'C'"""


def log_statements(log: TableRef) -> list[Statement]:
    """Creates the log's table and the index of new rows if they are missing."""
    table = log.sql()
    index = quote_name(object_name(log.name, "new", _NAME_BYTES))
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
        Statement(f"role {WRITER}", _in_block(_ROLE)),
        Statement(
            f"right of {WRITER} to write {log.name}",
            f"GRANT USAGE ON SCHEMA {quote_name(log.schema)} TO {WRITER};\n"
            f"GRANT INSERT ON {log.sql()} TO {WRITER}",
        ),
        Statement(
            f"right of {WRITER} to number rows of {log.name}",
            _in_block(_SEQUENCES.format(log=literal(log.sql()), writer=WRITER)),
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
    table, name = log.sql(), object_name(log.name, "notify", _NAME_BYTES)
    function = TableRef(log.schema, name).sql()
    channel = literal(object_name(f"{log.schema}.{log.name}", "new", _NAME_BYTES))
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
    """Creates or replaces the function and triggers of a table."""
    table_sql = TableRef(table.schema, table.name).sql()
    function = TableRef(table.schema, object_name(table.name, "log", _NAME_BYTES)).sql()
    body = _Function(table, log, style).text()
    tag = _tag(body)
    keys = ", ".join(map(quote_name, table.key))
    schema = quote_name(str(table.schema))
    name = object_name(table.name, "log", _NAME_BYTES)
    owner = _OWNER.format(schema=literal(str(table.schema)), name=literal(name), writer=WRITER)
    return [
        Statement(f"check of the older function of {table.written}", _in_block(owner)),
        Statement(
            f"function for {table.written}",
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger\n"
            f"LANGUAGE plpgsql SECURITY DEFINER\n{_SETTINGS}\nAS {tag}\n{body}{tag}",
        ),
        Statement(
            f"revocation of PUBLIC's right to execute the function for {table.written}",
            f"REVOKE ALL ON FUNCTION {function}() FROM PUBLIC",
        ),
        *_triggers(table, function),
        Statement(
            f"right of {WRITER} to see the keys of {table.written}",
            f"GRANT USAGE ON SCHEMA {schema} TO {WRITER};\n"
            f"GRANT SELECT ({keys}) ON {table_sql} TO {WRITER}",
        ),
        # the new owner needs CREATE while the owner is changed
        Statement(
            f"owner of the function for {table.written}",
            f"GRANT CREATE ON SCHEMA {schema} TO {WRITER};\n"
            f"ALTER FUNCTION {function}() OWNER TO {WRITER};\n"
            f"REVOKE CREATE ON SCHEMA {schema} FROM {WRITER}",
        ),
    ]


def _triggers(table: LoggedTable, function: str) -> Iterator[Statement]:
    table_sql = TableRef(table.schema, table.name).sql()
    for trigger, event, unit in (
        ("0_xds_log", "AFTER INSERT OR UPDATE OR DELETE", "ROW"),
        ("0_xds_truncate", "BEFORE TRUNCATE", "STATEMENT"),
    ):
        drop = f"DROP TRIGGER IF EXISTS {quote_name(trigger)} ON {table_sql}"
        create = (
            f"CREATE TRIGGER {quote_name(trigger)} {event} ON {table_sql}\n"
            f"  FOR EACH {unit} EXECUTE FUNCTION {function}()"
        )
        yield Statement(f"removal of the older trigger {trigger} on {table.written}", drop)
        yield Statement(f"trigger {trigger} on {table.written}", create)


class _Function:
    """The body of a table's trigger function."""

    def __init__(self, table: LoggedTable, log: TableRef, style: Style) -> None:
        self._table = table
        self._style = style
        self._log = log.sql()
        self._written = literal(table.written)

    def text(self) -> str:
        """The complete body."""
        place = TableRef(self._table.schema, self._table.name).sql()
        return f"""\
DECLARE
  old_key text := {self._key("OLD")};
  new_key text := {self._key("NEW")};
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    IF TG_RELID IS DISTINCT FROM to_regclass({literal(place)}) THEN
      RAISE EXCEPTION 'the table was renamed after its triggers were made: make them again';
    END IF;
    INSERT INTO {self._log} (table_key, event_type, table_name)
    SELECT {self._key("t")}, {DELETE}, {self._written}
    FROM {place} AS t;
  ELSIF old_key = new_key THEN
{self._update()}
  ELSE
    IF old_key IS NOT NULL THEN
      INSERT INTO {self._log} (table_key, event_type, table_name)
      VALUES (old_key, {DELETE}, {self._written});
    END IF;
    IF new_key IS NOT NULL THEN
{self._insert()}
    END IF;
  END IF;
  RETURN NULL;
END
"""

    def _key(self, row: str) -> str:
        return " || ".join(key_pieces(self._table, row, self._text, _quote_value, _PLAIN))

    def _text(self, row: str, column: str) -> str:
        value = f"{row}.{quote_name(column)}"
        text = _output_text(self._table.relation.casts[column], f"concat({value})")
        if self._table.relation.casts[column] in _PADDED and column in self._table.key:
            # a cast removes padding, too; in columns outside the key the reader removes it
            text = f"rtrim(concat({value}), ' ')"
        return f"CASE WHEN num_nulls({value}) = 0 THEN {text} END"

    def _insert(self) -> str:
        table, event_type = self._table, self._table.insert_type(self._style)
        if event_type == 5:
            return block(self._event(5), 6)
        if event_type == 7:
            return block(self._fields(7, [[literal(name)] for name in table.columns], ""), 6)
        null_event = self._event(1, table.marker)
        if not table.columns:
            return block(null_event, 6)
        rows = [[literal(name), "NULL", self._text("NEW", name)] for name in table.columns]
        field_events = self._fields(1, rows, "c.new_text IS NOT NULL")
        if_none = ["IF NOT FOUND THEN", *(f"  {line}" for line in null_event), "END IF;"]
        return block([*field_events, *if_none], 6)

    def _update(self) -> str:
        table, style = self._table, self._style
        if not table.columns:
            return "    NULL;"
        if style is Style.PER_ROW:
            # compares the stored form, because some types have no equality operator
            event = [f"  {line}" for line in self._event(style.update)]
            return block(["IF OLD *<> NEW THEN", *event, "END IF;"], 4)
        rows = [
            [literal(name), self._text("OLD", name), self._text("NEW", name)]
            for name in table.columns
        ]
        changed = 'c.old_text COLLATE "C" IS DISTINCT FROM c.new_text COLLATE "C"'
        return block(self._fields(style.update, rows, changed), 4)

    def _event(self, event_type: int, column: str | None = None) -> list[str]:
        """Returns SQL that logs one event of the new key."""
        names, values = "", ""
        if column is not None:
            names, values = ", column_name", f", {literal(column)}"
        return [
            f"INSERT INTO {self._log} (table_key, event_type, table_name{names})",
            f"VALUES (new_key, {event_type}, {self._written}{values});",
        ]

    def _fields(self, event_type: int, rows: list[list[str]], where: str) -> list[str]:
        """Returns SQL that logs an event for each row that ``where`` accepts.

        A row has column name, old text and new text.
        """
        names = ["place", "name", "old_text", "new_text"][: len(rows[0]) + 1]
        texts = ", old_value, new_value" if event_type <= 2 else ""
        values = ", c.old_text, c.new_text" if event_type <= 2 else ""
        tuples = [f"  ({', '.join([str(n), *row])})" for n, row in enumerate(rows, 1)]
        return [
            f"INSERT INTO {self._log} (table_key, event_type, table_name, column_name{texts})",
            f"SELECT new_key, {event_type}, {self._written}, c.name{values}",
            "FROM (VALUES",
            *(f"{row}," for row in tuples[:-1]),
            tuples[-1],
            f") AS c ({', '.join(names)})",
            *([f"WHERE {where}"] if where else []),
            "ORDER BY c.place;",
        ]


_PADDED = ("bpchar", "character")


def _output_text(type_: str, output: str) -> str:
    """SQL of a value's text in the log; ``output`` is SQL that calls the output function of the type."""
    if type_ == "bytea":
        binary = f"decode(substr({output}, 3), 'hex')"
        base64 = f"replace(encode({binary}, 'base64'), chr(10), '')"
        return f"CASE WHEN starts_with({output}, '\\x') THEN {base64} ELSE {output} END"
    if type_ == "boolean":
        return f"CASE {output} WHEN 't' THEN 'true' WHEN 'f' THEN 'false' ELSE {output} END"
    if type_ == "inet":  # a cast writes the length of the network mask
        mask = f"CASE WHEN strpos({output}, ':') = 0 THEN '/32' ELSE '/128' END"
        return f"CASE WHEN strpos({output}, '/') = 0 THEN {output} || {mask} ELSE {output} END"
    return output


def _quote_value(value: str) -> str:
    """SQL of ``keys.quote``."""
    return (
        f"(SELECT CASE WHEN v ~ {literal(_SPECIAL)}"
        r""" THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END"""
        f' FROM (SELECT {value} COLLATE "C") AS k (v))'
    )


def _tag(body: str) -> str:
    """A dollar quote that does not occur in the body."""
    tag, number = "$xds$", 0
    while tag in body:
        number += 1
        tag = f"$xds{number}$"
    return tag
