"""Event log and triggers in PostgreSQL (11 or newer): one function and two triggers for a table.

* Row triggers fire after the change, so that they see what other triggers made of the row, and hold
  the row's lock: record ids of an object ascend in the order of its commits.  Their name goes before
  the one of foreign keys (``RI_…``): what a key change cascades to is logged after it.
* The function runs with its owner's rights, users need none on the log; settings that decide the
  text of values are its own.  TRUNCATE logs a delete of each row.
"""

from __future__ import annotations

from publisher.catalogue import Kind
from publisher.database.triggers.model import (
    DELETE,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    block,
    key_pieces,
    literal,
    object_name,
    quoted,
    script,
)

__all__ = ["log_statements", "script", "table_statements"]

_NAME_BYTES = 63
_PLAIN = frozenset({Kind.INT, Kind.DECIMAL, Kind.STATE, Kind.DATE})
_SPECIAL = r"""[,;'+"=\\<>]|^[ \t\r\n]|[ \t\r\n]$|^$"""
_SETTINGS = """\
SET search_path TO pg_catalog, pg_temp
SET standard_conforming_strings TO on
SET timezone TO 'UTC'
SET datestyle TO 'ISO, YMD'
SET intervalstyle TO 'postgres'
SET bytea_output TO 'hex'
SET extra_float_digits TO 1
SET lc_monetary TO 'C'"""


def log_statements(log: TableRef) -> list[Statement]:
    """The log's table and the index of new rows, where they are not there."""
    table = _place(log)
    index = quoted(object_name(log.name, "new", _NAME_BYTES))
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


def table_statements(table: LoggedTable, log: TableRef, style: Style) -> list[Statement]:
    """The function of a table and its triggers; run again they replace what was there."""
    place = _place(TableRef(table.schema, table.name))
    function = _place(TableRef(table.schema, object_name(table.name, "log", _NAME_BYTES)))
    body = _Function(table, log, style).text()
    tag = _tag(body)
    statements = [
        Statement(
            f"function for {table.written}",
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger\n"
            f"LANGUAGE plpgsql SECURITY DEFINER\n{_SETTINGS}\nAS {tag}\n{body}{tag}",
        )
    ]
    for trigger, event, each in (
        ("0_xds_log", "AFTER INSERT OR UPDATE OR DELETE", "ROW"),
        ("0_xds_truncate", "BEFORE TRUNCATE", "STATEMENT"),
    ):
        drop = f"DROP TRIGGER IF EXISTS {quoted(trigger)} ON {place}"
        create = (
            f"CREATE TRIGGER {quoted(trigger)} {event} ON {place}\n"
            f"  FOR EACH {each} EXECUTE FUNCTION {function}()"
        )
        statements.append(Statement(f"no older trigger {trigger} on {table.written}", drop))
        statements.append(Statement(f"trigger {trigger} on {table.written}", create))
    return statements


class _Function:
    """The body of a table's trigger function."""

    def __init__(self, table: LoggedTable, log: TableRef, style: Style) -> None:
        self._table = table
        self._style = style
        self._log = _place(log)
        self._written = literal(table.written)

    def text(self) -> str:
        """The whole of it."""
        return f"""\
DECLARE
  old_key text := {self._key("OLD")};
  new_key text := {self._key("NEW")};
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    INSERT INTO {self._log} (table_key, event_type, table_name)
    SELECT {self._key("t")}, {DELETE}, {self._written}
    FROM {_place(TableRef(self._table.schema, self._table.name))} AS t;
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
        return " || ".join(key_pieces(self._table, row, self._text, _in_quotes, _PLAIN))

    def _text(self, row: str, column: str) -> str:
        type_ = self._table.relation.casts[column]
        value = f"{row}.{quoted(column)}"
        if type_ == "bytea":
            return f"replace(encode({value}, 'base64'), chr(10), '')"
        if type_ in ("bpchar", "character") and column not in self._table.key:
            # a cast would cut the padding, which is the reader's to trim or keep
            return f"CASE WHEN {value} IS NOT NULL THEN concat({value}) END"
        return f"CAST({value} AS text)"

    def _insert(self) -> str:
        table, event_type = self._table, self._table.insert_type(self._style)
        if event_type == 5:
            return block(self._event(5), 6)
        if event_type == 7:
            return block(self._fields(7, [[literal(name)] for name in table.columns], ""), 6)
        lone = self._event(1, table.marker)
        if not table.columns:
            return block(lone, 6)
        rows = [[literal(name), "NULL", self._text("NEW", name)] for name in table.columns]
        some = self._fields(1, rows, "c.new_text IS NOT NULL")
        otherwise = ["IF NOT FOUND THEN", *(f"  {line}" for line in lone), "END IF;"]
        return block([*some, *otherwise], 6)

    def _update(self) -> str:
        table, style = self._table, self._style
        if not table.columns:
            return "    NULL;"
        if style is Style.PER_ROW:
            # compares the stored form: some types have no other comparison
            event = [f"  {line}" for line in self._event(style.update)]
            return block(["IF OLD *<> NEW THEN", *event, "END IF;"], 4)
        rows = [
            [literal(name), self._text("OLD", name), self._text("NEW", name)]
            for name in table.columns
        ]
        changed = 'c.old_text COLLATE "C" IS DISTINCT FROM c.new_text COLLATE "C"'
        return block(self._fields(style.update, rows, changed), 4)

    def _event(self, event_type: int, column: str | None = None) -> list[str]:
        """One event of the new key."""
        names, values = "", ""
        if column is not None:
            names, values = ", column_name", f", {literal(column)}"
        return [
            f"INSERT INTO {self._log} (table_key, event_type, table_name{names})",
            f"VALUES (new_key, {event_type}, {self._written}{values});",
        ]

    def _fields(self, event_type: int, rows: list[list[str]], where: str) -> list[str]:
        """An event for each of the rows (column name, old text, new text) that ``where`` lets pass."""
        names = ["place", "name", "old_text", "new_text"][: len(rows[0]) + 1]
        texts = ", old_value, new_value" if event_type <= 2 else ""
        values = ", c.old_text, c.new_text" if event_type <= 2 else ""
        listed = [f"  ({', '.join([str(n), *row])})" for n, row in enumerate(rows, 1)]
        return [
            f"INSERT INTO {self._log} (table_key, event_type, table_name, column_name{texts})",
            f"SELECT new_key, {event_type}, {self._written}, c.name{values}",
            "FROM (VALUES",
            *(f"{row}," for row in listed[:-1]),
            listed[-1],
            f") AS c ({', '.join(names)})",
            *([f"WHERE {where}"] if where else []),
            "ORDER BY c.place;",
        ]


def _in_quotes(value: str) -> str:
    """The grammar's rule for values of a key (``keys.quote``) in SQL."""
    return (
        f"(SELECT CASE WHEN v ~ {literal(_SPECIAL)}"
        r""" THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END"""
        f' FROM (SELECT {value} COLLATE "C") AS k (v))'
    )


def _place(ref: TableRef) -> str:
    return ".".join(quoted(part) for part in ref if part is not None)


def _tag(body: str) -> str:
    """A dollar quote that does not occur in the body."""
    tag, number = "$xds$", 0
    while tag in body:
        number += 1
        tag = f"$xds{number}$"
    return tag
