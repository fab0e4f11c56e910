"""Event log and triggers in SQLite: four triggers for a table.

* SQLite stores any kind of value in any column.  Values are logged as the look-up of query-backs reads
  them; binary columns always as Base64, in plain SQL, because SQLite has no function for it.
* Rows that ``INSERT OR REPLACE`` replaces are logged as deleted only with
  ``PRAGMA recursive_triggers = ON``: SQLite fires no delete trigger otherwise.
* A row with NULL in its key is refused, because it cannot be identified.  SQLite has no users, so
  perpetrator is NULL.
"""

from __future__ import annotations

from sqlalchemy import types

from publisher.model.catalogue import ColumnKind
from publisher.triggers.model import (
    DELETE,
    SPECIAL_CHARACTERS,
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

__all__ = ["log_statements", "script", "table_statements"]

_NAME_BYTES = 200
_PLAIN = frozenset({ColumnKind.INT, ColumnKind.DECIMAL})
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def log_statements(log: TableRef) -> list[Statement]:
    """Creates the log's table and the index of new rows if they are missing."""
    index = quote_name(object_name(log.name, "status", _NAME_BYTES))
    return [
        Statement(
            f"event log {log.name}",
            f"""\
CREATE TABLE IF NOT EXISTS {quote_name(log.name)} (
  record_id   INTEGER PRIMARY KEY AUTOINCREMENT,
  table_key   TEXT NOT NULL,
  status      CHAR(1) NOT NULL DEFAULT 'N',
  event_type  INTEGER NOT NULL CHECK (event_type BETWEEN 1 AND 8),
  event_time  TIMESTAMP NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  perpetrator VARCHAR(128),
  table_name  VARCHAR(256) NOT NULL,
  column_name VARCHAR(256),
  old_value   TEXT,
  new_value   TEXT
)""",
        ),
        Statement(
            f"index of the status of {log.name}",
            f"CREATE INDEX IF NOT EXISTS {index}\n  ON {quote_name(log.name)} (status, record_id)",
        ),
    ]


def table_statements(table: LoggedTable, log: TableRef, style: Style) -> list[Statement]:
    """Creates or replaces the triggers of a table."""
    events = _SqliteEvents(table, log, style)
    same_key = f"{events.key('OLD')} COLLATE BINARY IS {events.key('NEW')}"
    other_key = f"{events.key('OLD')} COLLATE BINARY IS NOT {events.key('NEW')}"
    triggers = {
        "insert": ("AFTER INSERT", "", events.insert()),
        "update": ("AFTER UPDATE", same_key, events.update()),
        "rekey": ("AFTER UPDATE", other_key, [*events.delete(), *events.insert()]),
        "delete": ("AFTER DELETE", "", events.delete()),
    }
    statements = []
    for purpose, (event, when, lines) in triggers.items():
        name = object_name(table.name, purpose, _NAME_BYTES)
        drop = f"DROP TRIGGER IF EXISTS {quote_name(name)}"
        statements.append(Statement(f"removal of the older trigger {name}", drop))
        if lines:
            condition = f"\n  WHEN {when}" if when else ""
            create = (
                f"CREATE TRIGGER {quote_name(name)} {event} ON {quote_name(table.name)}\n"
                f"  FOR EACH ROW{condition}\nBEGIN\n{block(lines, 2)}\nEND"
            )
            statements.append(Statement(f"trigger {name}", create))
    return statements


class _SqliteEvents:
    """Bodies of a table's triggers."""

    def __init__(self, table: LoggedTable, log: TableRef, style: Style) -> None:
        self._table = table
        self._style = style
        self._log = quote_name(log.name)

    def key(self, row: str) -> str:
        """The table_key of a row."""
        pieces = key_pieces(self._table, row, self._text, _quote_value, _PLAIN)
        return f"({' || '.join(pieces)})"

    def insert(self) -> list[str]:
        """Logs a new row."""
        columns, event_type = self._table.columns, self._table.insert_type(self._style)
        if event_type == 5:
            return self._event("NEW", 5)
        if event_type == 7:
            return [line for name in columns for line in self._event("NEW", 7, name)]
        lines = []
        for name in columns:
            value = f"NEW.{quote_name(name)}"
            texts = ("NULL", self._text("NEW", name))
            lines += self._event("NEW", 1, name, texts, f"{value} IS NOT NULL")
        empty = " AND ".join(f"NEW.{quote_name(name)} IS NULL" for name in columns)
        return lines + self._event("NEW", 1, self._table.marker, where=empty)

    def update(self) -> list[str]:
        """Logs the change of a row with the same key."""
        columns, event_type = self._table.columns, self._style.update
        if self._style is Style.PER_ROW:
            changed = "\n     OR ".join(self._change_condition(name) for name in columns)
            return self._event("NEW", event_type, where=changed) if columns else []
        lines = []
        for name in columns:
            texts = (self._text("OLD", name), self._text("NEW", name)) if event_type == 2 else None
            lines += self._event("NEW", event_type, name, texts, self._change_condition(name))
        return lines

    def delete(self) -> list[str]:
        """Logs a deleted row."""
        return self._event("OLD", DELETE)

    def _change_condition(self, name: str) -> str:
        if self._table.is_binary(name):
            return (
                f"CAST(OLD.{quote_name(name)} AS BLOB) IS NOT CAST(NEW.{quote_name(name)} AS BLOB)"
            )
        return f"{self._text('OLD', name)} COLLATE BINARY IS NOT {self._text('NEW', name)}"

    def _event(
        self,
        row: str,
        event_type: int,
        column: str | None = None,
        texts: tuple[str, str] | None = None,
        where: str = "",
    ) -> list[str]:
        values = self._table.event(self.key(row), event_type, column, texts)
        lines = [
            f"INSERT INTO {self._log} ({', '.join(values)})",
            f"SELECT {', '.join(values.values())}",
        ]
        lines += [f"WHERE {where}"] if where else []
        lines[-1] += ";"
        return lines

    def _text(self, row: str, column: str) -> str:
        value = f"{row}.{quote_name(column)}"
        kind, text = self._table.relation.table.columns[column], f"CAST({value} AS TEXT)"
        if kind is ColumnKind.OCTET:
            return f"CASE WHEN {value} IS NOT NULL THEN {_base64(f'CAST({value} AS BLOB)')} END"
        if kind is ColumnKind.STATE:
            return f"CASE {value} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE {text} END"
        if isinstance(self._table.relation.types[column], types.NullType):
            binary = _base64(value)
            return f"CASE typeof({value}) WHEN 'blob' THEN {binary} ELSE {_number(value)} END"
        return _number(value) if kind is ColumnKind.DECIMAL else text


def _number(value: str) -> str:
    """Returns the SQL of a number with enough digits to restore it; other values are unchanged."""
    text = f"CAST({value} AS TEXT)"
    exact = f"typeof({value}) <> 'real' OR CAST({text} AS REAL) = {value}"
    return f"CASE WHEN {exact} THEN {text} ELSE printf('%!.17g', {value}) END"


def _quote_value(value: str) -> str:
    """SQL of ``keys.quote``."""
    conditions = (
        "v COLLATE BINARY = ''",
        f"v GLOB {literal(f'*[{SPECIAL_CHARACTERS}]*')}",
        "v COLLATE BINARY <> trim(v, char(32, 9, 13, 10))",
        "instr(v, char(0))",  # GLOB stops there
    )
    return (
        f"(SELECT CASE WHEN {' OR '.join(conditions)}"
        r""" THEN '"' || replace(replace(v, '\', '\\'), '"', '\"') || '"' ELSE v END"""
        f" FROM (SELECT {value} AS v))"
    )


def _base64(value: str) -> str:
    """Returns the SQL of the Base64 text of ``value``: the hexadecimal digits of three bytes (h1 to h6)
    become four characters; the end is cut and padded.

    ``json_each`` counts the groups: triggers may not use WITH RECURSIVE.
    """
    digits = ", ".join(f"instr(d, substr(h, {n}, 1)) AS h{n}" for n in range(1, 7))
    sextets = ("h1 * 4 + h2 / 4", "h2 % 4 * 16 + h3", "h4 * 4 + h5 / 4", "h5 % 4 * 16 + h6")
    characters = " || ".join(f"substr(a, {sextet} + 1, 1)" for sextet in sextets)
    group = "substr(hex(substr(b, key * 3 + 1, 3)) || '0000', 1, 6) AS h"
    groups = "json_each('[0' || replace(hex(zeroblob((length(b) - 1) / 3)), '00', ',0') || ']')"
    texts = f"'{_ALPHABET}' AS a, '123456789ABCDEF' AS d"
    length, padding = "(length(b) * 4 + 2) / 3", "substr('==', 1, (3 - length(b) % 3) % 3)"
    return (
        f"(SELECT CASE WHEN length(b) = 0 THEN ''"
        f" ELSE substr((SELECT group_concat({characters}, '')"
        f" FROM (SELECT a, {digits}"
        f" FROM (SELECT {texts}, {group} FROM {groups} ORDER BY key))), 1, {length})"
        f" || {padding} END FROM (SELECT {value} AS b))"
    )
