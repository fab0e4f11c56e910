"""Event log and triggers in MariaDB: three triggers for a table or child table.

* They run as the log's role, which may only insert into the log and read the logged tables.  Users who can
  replace the log by a view that calls their own function get the permissions of this role only.
* SQL mode and character set are those of the script's session, which MariaDB stores with the trigger.
* TIMESTAMP columns are logged in UTC, in any zone of the session.
* MariaDB fires no triggers for TRUNCATE, nor for changes that foreign keys cascade (``mariadb_cascades``).
* A value without a text, or with one above ``max_allowed_packet``, is logged as a row to look up.
* Each statement is committed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.dialects import mysql

from publisher.database.catalogue import Relation
from publisher.database.text_columns import mariadb_text
from publisher.model.catalogue import ColumnKind
from publisher.triggers.child_events import ChildEvents, SqlForms
from publisher.triggers.key_changes import changes_one_column, key_change
from publisher.triggers.mariadb_updates import is_stored
from publisher.triggers.model import (
    BLANK_PATTERN,
    DELETE,
    SPECIAL_PATTERN,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    block,
    key_pieces,
    literal,
    object_name,
)

NAME_BYTES = 64
_ROLE_BYTES = 80
_PLAIN = frozenset({ColumnKind.INT, ColumnKind.STATE, ColumnKind.DATE})
_SPECIAL = rf"{SPECIAL_PATTERN}|\A{BLANK_PATTERN}|{BLANK_PATTERN}\z|\A\z"
_USER = "LEFT(USER(), CHAR_LENGTH(USER()) - CHAR_LENGTH(SUBSTRING_INDEX(USER(), '@', -1)) - 1)"
# current time in UTC; UTC_TIMESTAMP is the start of the statement, which may have waited for the row
_NOW = "SYSDATE(6) - INTERVAL TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()) SECOND"

SESSION = (
    Statement("character set of the session", "SET NAMES utf8mb4"),
    Statement(
        "SQL mode of the session",
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION'",
    ),
)
"""Settings of the session that MariaDB stores with the triggers."""

_VALUE_ERRORS = (1048, 1264, 1292, 1300, 1301, 1366, 1406, 4078, 4079)
"""Errors of values: NULL, out of range, cut, not a text, above max_allowed_packet, too long, without text."""

_ROLE_CHECK = "check that the role has no more rights"
TEMPORARY = frozenset({*(statement.description for statement in SESSION), _ROLE_CHECK})
"""Descriptions of the statements that create nothing."""


def quote_name(name: str) -> str:
    """Quotes an SQL identifier with backticks."""
    return "`" + name.replace("`", "``") + "`"


def log_statements(log: TableRef) -> list[Statement]:
    """Creates the log's table with the index of its status if it is missing."""
    create = f"""\
CREATE TABLE IF NOT EXISTS {log.sql(quote_name)} (
  record_id   BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  table_key   LONGTEXT NOT NULL,
  status      CHAR(1) NOT NULL DEFAULT 'N',
  event_type  SMALLINT NOT NULL CHECK (event_type BETWEEN 1 AND 8),
  event_time  DATETIME(6) NOT NULL
              DEFAULT ({_NOW}),
  perpetrator VARCHAR(128)
              DEFAULT ({_USER}),
  table_name  VARCHAR(256) NOT NULL,
  column_name VARCHAR(256),
  old_value   LONGTEXT,
  new_value   LONGTEXT,
  INDEX (status, record_id)
) ENGINE = InnoDB, CHARACTER SET utf8mb4, COLLATE utf8mb4_bin"""
    return [*SESSION, Statement(f"event log {log.name}", create)]


def writer_statements(log: TableRef) -> list[Statement]:
    """Creates the role that writes the log, with its permission; refuses a role that may do more."""
    role = writer_of(log)
    refusal = _REFUSAL.format(
        role=literal(role),
        log=literal(".".join(part for part in log if part is not None)),
        message=literal(_MORE_RIGHTS),
    )
    return [
        Statement(_ROLE_CHECK, refusal),
        Statement(f"role {role}", f"CREATE ROLE IF NOT EXISTS {quote_name(role)}"),
        Statement(
            f"right of {role} to write {log.name}",
            f"GRANT INSERT ON {log.sql(quote_name)} TO {quote_name(role)}",
        ),
    ]


def writer_of(log: TableRef) -> str:
    """Returns the name of the role with whose rights the triggers of a log run."""
    return object_name(".".join(part for part in log if part is not None), "writer", _ROLE_BYTES)


def is_writer(definer: str) -> bool:
    """Returns whether ``DEFINER`` of a trigger is the role of a log."""
    return definer.startswith("xds_") and definer.endswith("_writer@")


_MORE_RIGHTS = (
    "the role of the event log may do more than write it and read logged tables, or is a user: "
    "revoke these rights (SHOW GRANTS), or drop it"
)
# LOWER: with lower_case_table_names the server keeps names of tables in lower case
_REFUSAL = """\
BEGIN NOT ATOMIC
  IF EXISTS (
    SELECT 1 FROM mysql.global_priv WHERE User = {role} AND Host = ''
      AND (JSON_VALUE(Priv, '$.is_role') IS NULL OR JSON_VALUE(Priv, '$.access') <> 0)
    UNION ALL SELECT 1 FROM mysql.db WHERE User = {role} AND Host = ''
    UNION ALL SELECT 1 FROM mysql.tables_priv WHERE User = {role} AND Host = ''
      AND (Column_priv <> '' OR IF(LOWER(CONCAT(Db, '.', Table_name)) = LOWER({log}),
        Table_priv <> 'Insert', Table_priv NOT IN ('Select', 'Trigger', 'Select,Trigger')))
    UNION ALL SELECT 1 FROM mysql.procs_priv WHERE User = {role} AND Host = ''
    UNION ALL SELECT 1 FROM mysql.roles_mapping WHERE User = {role} AND Host = ''
  ) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = {message};
  END IF;
END"""


def table_statements(table: LoggedTable, log: TableRef, style: Style) -> list[Statement]:
    """Grants reading a table and its child tables, and creates or replaces their triggers."""
    events = _MariadbEvents(table, log, style)
    triggers = {
        "insert": ("AFTER INSERT", events.added_row()),
        "update": ("AFTER UPDATE", events.change()),
        "delete": ("AFTER DELETE", [*_key("old", events.key("OLD")), *events.delete()]),
    }
    statements = [_grant(log, table.ref, table.written)]
    for purpose, (event, lines) in triggers.items():
        statements.append(trigger_statement(log, table.ref, purpose, event, lines))
    for child in events.children:
        ref = child.child.ref
        rows = ChildEvents(table, child.child, log.sql(quote_name), Style.PER_ROW, FORMS)
        triggers = {
            "insert": ("AFTER INSERT", [*_on_error(rows.insert()), *child.insert()]),
            "update": (
                "AFTER UPDATE",
                [*_on_error([*rows.delete(), *rows.insert()]), *child.update()],
            ),
            "delete": ("AFTER DELETE", [*_on_error(rows.delete()), *child.delete()]),
        }
        statements.append(_grant(log, ref, child.child.written))
        for purpose, (event, lines) in triggers.items():
            statements.append(trigger_statement(log, ref, purpose, event, lines))
    return statements


def trigger_statement(
    log: TableRef, table: TableRef, purpose: str, event: str, lines: list[str]
) -> Statement:
    """Creates or replaces a trigger; removes it if it has nothing to do."""
    name = object_name(table.name, purpose, NAME_BYTES)
    place = TableRef(table.schema, name).sql(quote_name)
    if not lines:
        return Statement(f"removal of the older trigger {name}", f"DROP TRIGGER IF EXISTS {place}")
    create = (
        f"CREATE OR REPLACE DEFINER = {quote_name(writer_of(log))}\n"
        f"  TRIGGER {place} {event}\n"
        f"  ON {table.sql(quote_name)} FOR EACH ROW\n"
        f"BEGIN\n{block(lines, 2)}\nEND"
    )
    return Statement(f"trigger {name}", create)


def _grant(log: TableRef, table: TableRef, written: str) -> Statement:
    role = writer_of(log)
    return Statement(
        f"right of {role} to read {written}",
        f"GRANT SELECT, TRIGGER ON {table.sql(quote_name)} TO {quote_name(role)}",
    )


def script(statements: Sequence[Statement]) -> str:
    """Builds a script of the statements for the mariadb client."""
    mark, number = "$$", 0
    while any(mark in each.text for each in statements):
        number += 1
        mark = f"$xds{number}$"
    return "\n".join(
        [f"DELIMITER {mark}\n", *(f"{each.text}{mark}\n" for each in statements), "DELIMITER ;\n"]
    )


_OTHER_KEY = "CAST(old_key AS BINARY) <> CAST(new_key AS BINARY)"


class _MariadbEvents:
    """Bodies of a table's triggers."""

    def __init__(self, table: LoggedTable, log: TableRef, style: Style) -> None:
        self._table = table
        self._style = style
        self._log = log.sql(quote_name)
        self.children = [
            ChildEvents(table, child, self._log, style, FORMS) for child in table.children
        ]

    def key(self, row: str) -> str:
        """Returns SQL that builds the table_key of a row."""
        return _table_key(self._table, row)

    def change(self) -> list[str]:
        """Logs the change of a row: its columns, its key, or two objects if the key differs."""
        new_object = [*self.delete(), *self.insert()]
        new_row = _OTHER_KEY
        if self._table.joins_keys:
            condition = changes_one_column(self._table, FORMS)
            new_row += f" AND NOT ({condition})"
            new_object = [
                *_when(condition, self._change_of_key())[:-1],
                *_else(new_object),
                "END IF;",
            ]
        return [
            *_key("old", self.key("OLD")),
            *_key("new", self.key("NEW")),
            *self._look_up(f"IF({new_row}, 5, 6)"),
            *_when(
                is_stored(self._table, quote_name, _table_key(self._table, "o"), _OTHER_KEY),
                [*_when(_OTHER_KEY, new_object)[:-1], *_else(self._update()), "END IF;"],
            ),
        ]

    def _change_of_key(self) -> list[str]:
        values = key_change(self._table, FORMS, "old_key")
        lines = self._insert_into_log(values)
        if self._style is not Style.PER_FIELD:
            return [*lines, *self._event("new_key", 6)]
        lines += self._update()
        return lines + [
            line for child in self.children for line in child.log_left_behind("new_key")
        ]

    def added_row(self) -> list[str]:
        """Logs the insert of a row."""
        return [*_key("new", self.key("NEW")), *self._look_up("5"), *self.insert()]

    def _look_up(self, event_type: str) -> list[str]:
        """Logs a row whose values cannot be written as texts as a row to look up."""
        values = self._table.event("new_key", 0) | {"event_type": event_type}
        return _on_error(self._insert_into_log(values))

    def insert(self) -> list[str]:
        """Logs a new row, and the child rows that are linked to it already."""
        event_type = self._table.existing_type(self._style)
        existing = [
            line
            for child in self.children
            if event_type is not None
            for line in child.log_existing("NEW", "new_key", event_type)
        ]
        return [*self._own_insert(), *existing]

    def _own_insert(self) -> list[str]:
        columns, event_type = self._table.columns, self._table.insert_type(self._style)
        if event_type == 5:
            return self._event("new_key", 5)
        if event_type == 7:
            return [line for name in columns for line in self._event("new_key", 7, name)]
        null_event = self._event("new_key", 1, self._table.marker)
        if not columns:
            return null_event
        lines = []
        for name in columns:
            event = self._event("new_key", 1, name, ("NULL", self._text("NEW", name)))
            lines += _when(f"NEW.{quote_name(name)} IS NOT NULL", event)
        return lines + _when(
            " AND ".join(f"NEW.{quote_name(name)} IS NULL" for name in columns), null_event
        )

    def delete(self) -> list[str]:
        """Logs a deleted row."""
        return self._event("old_key", DELETE)

    def _update(self) -> list[str]:
        columns, event_type = self._table.columns, self._style.update
        if self._style is Style.PER_ROW:
            changed = "\n    OR ".join(map(self._change_condition, columns))
            return _when(changed, self._event("new_key", event_type)) if columns else []
        lines = []
        for name in columns:
            texts = (self._text("OLD", name), self._text("NEW", name))
            event = self._event("new_key", event_type, name, texts if event_type == 2 else None)
            lines += _when(self._change_condition(name), event)
        return lines

    def _change_condition(self, name: str) -> str:
        old, new = f"OLD.{quote_name(name)}", f"NEW.{quote_name(name)}"
        if not self._table.is_binary(name):
            # compares bytes, because collations treat different texts as equal
            old, new = (f"CAST({self._text(row, name)} AS BINARY)" for row in ("OLD", "NEW"))
        return f"NOT ({old} <=> {new})"

    def _event(
        self,
        key: str,
        event_type: int,
        column: str | None = None,
        texts: tuple[str, str] | None = None,
    ) -> list[str]:
        return self._insert_into_log(self._table.event(key, event_type, column, texts))

    def _insert_into_log(self, values: dict[str, str]) -> list[str]:
        into = f"INSERT INTO {self._log} ({', '.join(values)})"
        return [into, f"VALUES ({', '.join(values.values())});"]

    def _text(self, row: str, column: str) -> str:
        return _text(self._table.relation, row, column)


def _text(relation: Relation, row: str, column: str) -> str:
    value = f"{row}.{quote_name(column)}"
    type_ = relation.types[column]
    if relation.table.columns[column] is ColumnKind.OCTET:
        return f"REPLACE(TO_BASE64({value}), CHAR(10), '')"
    text = mariadb_text(value, type_)
    if isinstance(type_, mysql.TIMESTAMP):
        moment = f"TIMESTAMP'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP({value}) SECOND"
        in_utc = mariadb_text(f"CAST({moment} AS DATETIME({type_.fsp or 0}))", mysql.DATETIME())
        return f"COALESCE({in_utc}, {text})"  # the zero date is no moment
    return text


def _table_key(table: LoggedTable, row: str) -> str:
    pieces = key_pieces(table, row, _text, _quote_value, _PLAIN, has_nulls=True)
    return f"CONCAT({', '.join(pieces)})"


FORMS = SqlForms(
    _text,
    _table_key,
    differ=lambda one, other: f"NOT (CAST({one} AS BINARY) <=> CAST({other} AS BINARY))",
    is_value=lambda value: f"{value} IS NOT NULL",
    quote=quote_name,
)


def _key(which: str, value: str) -> list[str]:
    return [
        f"DECLARE {which}_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        f"  DEFAULT {value};",
    ]


def _on_error(lines: list[str]) -> list[str]:
    """Replaces what is left of a trigger if the text of a value cannot be written."""
    return [
        f"DECLARE EXIT HANDLER FOR {', '.join(map(str, _VALUE_ERRORS))}",
        "BEGIN",
        *(f"  {line}" for line in lines),
        "END;",
    ]


def _when(condition: str, lines: list[str]) -> list[str]:
    return [f"IF {condition} THEN", *(f"  {line}" for line in lines), "END IF;"]


def _else(lines: list[str]) -> list[str]:
    return ["ELSE", *(f"  {line}" for line in lines)] if lines else []


def _quote_value(value: str) -> str:
    """Returns SQL that quotes a value as ``keys.quote`` does."""
    escaped = rf"""REPLACE(REPLACE({value}, '\', '\\'), '"', '\"')"""
    return (
        f"CASE WHEN {value} REGEXP {literal(_SPECIAL)}"
        f""" THEN CONCAT('"', {escaped}, '"') ELSE {value} END"""
    )
