"""Event log and triggers in SQLite: four triggers for a table, three for a child table.

* SQLite stores any kind of value in any column.  Values are logged as the look-up of query-backs reads
  them; binary columns always as Base64, in plain SQL, because SQLite has no function for it.
* Rows that ``INSERT OR REPLACE`` replaces are logged as deleted only with
  ``PRAGMA recursive_triggers = ON``: SQLite fires no delete trigger otherwise.
* A row with NULL in its key is logged with an empty value in its key, which readers reject.  SQLite has no
  users, so perpetrator is NULL.
* A change of the table's definition may give columns or the table other names, but not in the texts of its
  triggers.  Rows are then logged by other triggers, as rows to look up, until ``ddl`` runs again.
* Foreign keys act before AFTER triggers.  The key of a table with child tables is therefore logged by a
  BEFORE trigger, so that its events precede those of the child rows that the database changes with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import types

from publisher.database.catalogue import Relation
from publisher.database.text_columns import sqlite_text
from publisher.model.catalogue import ColumnKind
from publisher.triggers.child_events import CascadedMove, ChildEvents, SqlForms
from publisher.triggers.key_changes import changes_one_column, key_change
from publisher.triggers.model import (
    DELETE,
    SPECIAL_CHARACTERS,
    LoggedChild,
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

NAME_BYTES = 200
_PLAIN: frozenset[ColumnKind] = frozenset()  # a column of any type may hold any text
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def log_statements(log: TableRef) -> list[Statement]:
    """Creates the log's table and the index of new rows if they are missing."""
    index = quote_name(object_name(log.name, "status", NAME_BYTES))
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
    """Creates or replaces the triggers of a table and of its child tables."""
    events = _SqliteEvents(table, log, style)
    other_key = f"{events.key('OLD')} COLLATE BINARY IS NOT {events.key('NEW')}"
    before = "BEFORE UPDATE" if table.children else "AFTER UPDATE"
    statements = [
        *_trigger(table, "insert", "AFTER INSERT", events.insert()),
        *_trigger(table, "update", "AFTER UPDATE", events.update(), f"NOT ({other_key})"),
        *_trigger(table, "rekey", before, events.change_key(), other_key),
        *_trigger(table, "delete", "AFTER DELETE", events.delete()),
    ]
    for action, lines in events.unknown_columns(other_key).items():
        statements += _trigger(table, f"changed_{action}", f"AFTER {action}", lines)
    for child_events in events.children:
        child = child_events.child
        rows = ChildEvents(table, child, quote_name(log.name), Style.PER_ROW, _FORMS)
        for prefix, ways in (("", child_events), ("changed_", rows)):
            for action in ("insert", "update", "delete"):
                lines = getattr(ways, action)()
                statements += _trigger(child, prefix + action, f"AFTER {action}", lines)
    return statements


def _trigger(
    table: LoggedTable | LoggedChild, purpose: str, event: str, lines: list[str], when: str = ""
) -> Iterator[Statement]:
    own_name = table.ref.name
    name = object_name(own_name, purpose, NAME_BYTES)
    drop = f"DROP TRIGGER IF EXISTS {quote_name(name)}"
    yield Statement(f"removal of the older trigger {name}", drop)
    if lines:
        definition = (
            f"EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = {literal(own_name)}\n"
            f"    AND sql = {literal(table.definition)})"
        )
        condition = f"NOT {definition}" if purpose.startswith("changed_") else definition
        condition += f"\n    AND {when}" if when else ""
        create = (
            f"CREATE TRIGGER {quote_name(name)} {event.upper()} ON {quote_name(own_name)}\n"
            f"  FOR EACH ROW WHEN {condition}\nBEGIN\n{block(lines, 2)}\nEND"
        )
        yield Statement(f"trigger {name}", create)


class _SqliteEvents:
    """Bodies of a table's triggers."""

    def __init__(self, table: LoggedTable, log: TableRef, style: Style) -> None:
        self._table = table
        self._style = style
        self._log = quote_name(log.name)
        self.children = [
            ChildEvents(
                table,
                child,
                self._log,
                style,
                _FORMS,
                CascadedMove.INSERT
                if child.moves_along and not table.joins_keys
                else CascadedMove.UPDATE,
            )
            for child in table.children
        ]

    def key(self, row: str) -> str:
        """The table_key of a row."""
        return _key(self._table, row)

    def insert(self) -> list[str]:
        """Logs a new row, and the child rows that are linked to it already."""
        return [*self._own_insert(), *self._existing()]

    def change_key(self) -> list[str]:
        """Logs the change of a row's key: the change of its object's key, or two objects."""
        new_object = [*self.delete(), *self.insert()]
        if not self._table.joins_keys:
            return new_object
        values = key_change(self._table, _FORMS, self.key("OLD"))
        renamed = [*self._insert_into_log(values)]
        if self._style is not Style.PER_FIELD:
            renamed += self._event("NEW", 6)
        else:
            renamed += self.update()
            for child in self.children:
                if not child.child.moves_along:
                    renamed += child.log_left_behind(self.key("NEW"))
            renamed += self._existing(2)
        one = " AND ".join(
            f"{row}.{quote_name(name)} IS NOT NULL"
            for row in ("OLD", "NEW")
            for name in self._table.key
        )
        if len(self._table.key) > 1:
            one += f" AND ({changes_one_column(self._table, _FORMS)})"
        return [*_add_condition(renamed, f"({one})"), *_add_condition(new_object, f"NOT ({one})")]

    def _existing(self, event_type: int | None = None) -> list[str]:
        event_type = event_type or self._table.existing_type(self._style)
        return [
            line
            for child in self.children
            if event_type is not None
            for line in child.log_existing("NEW", self.key("NEW"), event_type)
        ]

    def _own_insert(self) -> list[str]:
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

    def unknown_columns(self, other_key: str) -> dict[str, list[str]]:
        """Logs the rows of a table whose definition has changed, by action; they are looked up."""
        own_trigger = object_name(self._table.name, "insert", NAME_BYTES)
        name = (
            f"(SELECT '\"' || replace(tbl_name, '\"', '\"\"') || '\"' FROM sqlite_master"
            f" WHERE type = 'trigger' AND name = {literal(own_trigger)})"
        )

        def event(row: str, event_type: int, where: str = "") -> list[str]:
            values = self._table.event(self.key(row), event_type) | {"table_name": name}
            return self._insert_into_log(values, where)

        rekeyed = [*event("OLD", DELETE, other_key), *event("NEW", 5, other_key)]
        return {
            "insert": event("NEW", 5),
            "update": [*rekeyed, *event("NEW", 6, f"NOT ({other_key})")],
            "delete": event("OLD", DELETE),
        }

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
        return self._insert_into_log(values, where)

    def _insert_into_log(self, values: dict[str, str], where: str = "") -> list[str]:
        lines = [
            f"INSERT INTO {self._log} ({', '.join(values)})",
            f"SELECT {', '.join(values.values())}",
        ]
        lines += [f"WHERE {where}"] if where else []
        lines[-1] += ";"
        return lines

    def _text(self, row: str, column: str) -> str:
        return _text(self._table.relation, row, column)


def _text(relation: Relation, row: str, column: str) -> str:
    value = f"{row}.{quote_name(column)}"
    kind, type_ = relation.table.columns[column], relation.types[column]
    if kind is ColumnKind.OCTET:
        return f"CASE WHEN {value} IS NOT NULL THEN {_base64(f'CAST({value} AS BLOB)')} END"
    text = sqlite_text(value, type_, kind)
    if isinstance(type_, types.NullType):
        return f"CASE typeof({value}) WHEN 'blob' THEN {_base64(value)} ELSE {text} END"
    return text


def _key(table: LoggedTable, row: str) -> str:
    pieces = key_pieces(table, row, _text, _quote_value, _PLAIN, has_nulls=True)
    return f"({' || '.join(pieces)})"


_FORMS = SqlForms(
    _text,
    _key,
    differ=lambda one, other: f"{one} COLLATE BINARY IS NOT {other}",
    is_value=lambda value: f"{value} IS NOT NULL",
)


def _add_condition(lines: list[str], condition: str) -> list[str]:
    """Adds a condition to each statement."""
    guarded, has_where = [], False
    for line in lines:
        has_where = has_where or line.startswith("WHERE ")
        if line.endswith(";"):
            word, has_where = "  AND" if has_where else "WHERE", False
            guarded += [line[:-1], f"{word} {condition};"]
        else:
            guarded.append(line)
    return guarded


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
