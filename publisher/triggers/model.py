"""The tables whose changes triggers log, and the styles of their events.

A style logs the change of a row with these event types::

    style       category                insert  update  delete
    per-field   per-field non-query-back     1       2       4
    per-row     per-row query-back           5       6       4
    query-back  per-field query-back         7       8       4

* Updates are logged only for columns whose text in the log changes.
* An update of the key is logged as the delete of the old object, then the insert of the new one, or as a
  change of the key.  Rows of child tables are logged as values.
* No insert is lost.  Type 1 leaves out columns that are NULL.  For a row with NULL in all columns outside
  the key, one event of type 1 with NULL is logged for the first of them.  For a table that has no columns
  outside the key, this event is logged in every style for the first key column, because there is nothing
  to query back.
* Type 7 is logged for each column outside the key, NULL or not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import TextClause

from publisher.database.catalogue import Relation
from publisher.database.connection import Database
from publisher.database.named_sql import read_statements
from publisher.errors import UsageError
from publisher.model.keys import quote

WRITER = "xds_log_writer"
"""PostgreSQL: the role that owns the functions of the triggers."""


class Style(StrEnum):
    """The kind of events that the triggers log."""

    PER_FIELD = "per-field"
    PER_ROW = "per-row"
    QUERY_BACK = "query-back"

    @property
    def insert(self) -> int:
        """Event type of an insert."""
        return {Style.PER_FIELD: 1, Style.PER_ROW: 5, Style.QUERY_BACK: 7}[self]

    @property
    def update(self) -> int:
        """Event type of an update."""
        return self.insert + 1


class DatabaseKind(StrEnum):
    """A kind of database that ``ddl`` writes triggers for."""

    POSTGRESQL = "postgresql"
    MARIADB = "mariadb"
    SQLITE = "sqlite"

    @classmethod
    def of(cls, database: Database) -> DatabaseKind:
        """Returns the kind of a database.  Raises ``UsageError`` for others."""
        name = database.engine.dialect.name
        try:
            return cls("mariadb" if name == "mysql" else name)
        except ValueError:
            raise UsageError(
                f"{name}: triggers are written for PostgreSQL, MariaDB and SQLite"
            ) from None

    @property
    def name_bytes(self) -> int:
        """Length of the longest name of a trigger or function."""
        return {"postgresql": 63, "mariadb": 64, "sqlite": 200}[self]

    def query(self, name: str) -> TextClause:
        """Returns a query of the catalogue."""
        return read_statements("publisher.triggers", f"queries/{self}.sql")[name]

    def quote(self, name: str) -> str:
        """Quotes an SQL identifier."""
        mark = "`" if self is DatabaseKind.MARIADB else '"'
        return mark + name.replace(mark, mark * 2) + mark


class Statement(NamedTuple):
    """One SQL statement; ``description`` names the object that it creates."""

    description: str
    text: str
    is_of_writer: bool = False
    """PostgreSQL: the statement concerns the role that writes the log."""


class TableRef(NamedTuple):
    """A table as the user names it, or a trigger or function."""

    schema: str | None
    name: str

    def sql(self, kind: DatabaseKind = DatabaseKind.POSTGRESQL) -> str:
        """The name in SQL."""
        return ".".join(kind.quote(part) for part in self if part is not None)


@dataclass(frozen=True, slots=True)
class LoggedRelation:
    """A table with triggers."""

    relation: Relation
    ref: TableRef
    """The table with its schema, also if it is the default one; without a schema in SQLite."""
    definition: str
    """SQLite: the statement that created the table."""

    @property
    def written(self) -> str:
        """The table's name in the log's column table_name."""
        return written_name(self.relation.table.schema, self.relation.table.name)


@dataclass(frozen=True, slots=True)
class LoggedChild(LoggedRelation):
    """A child table, whose rows are logged as values of its parent's objects."""

    links: tuple[tuple[str, str], ...]
    """Columns that hold the parent's key, each with its column of the key."""
    columns: tuple[str, ...]
    """Columns of values."""
    moves_along: bool
    """True if rows follow a change of the parent's key at once (ON UPDATE CASCADE)."""
    may_precede: bool
    """True if rows may exist before their parent."""

    def logged_columns(self, style: Style) -> Sequence[str]:
        """Columns with events of their own; one empty name for events of whole rows."""
        return [""] if style is Style.PER_ROW else self.columns

    def values_of(self, column: str) -> list[str]:
        """Columns of the values that an event of a logged column contains."""
        return [column] if column else list(self.columns)

    def columns_read(self, style: Style) -> list[str]:
        """Columns that triggers read in other rows of the table."""
        names = dict.fromkeys(link for link, _ in self.links)
        if style is Style.PER_FIELD or self.may_precede:
            names |= dict.fromkeys(self.columns)
        return list(names)


@dataclass(frozen=True, slots=True)
class LoggedTable(LoggedRelation):
    """A table whose changes are logged, with its child tables."""

    children: tuple[LoggedChild, ...] = ()
    joins_keys: bool = False
    """True if an update of the key is logged as a change of the object's key."""

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the primary key."""
        return self.relation.table.key

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns outside the primary key."""
        return tuple(name for name in self.relation.types if name not in self.key)

    def key_label(self, column: str) -> str:
        """The text before a column's value in a table_key: ``idu=``, then ``+name=``."""
        return f"{'' if column == self.key[0] else '+'}{quote(column)}="

    @property
    def marker(self) -> str:
        """The column for which an insert without values is logged."""
        return (self.columns or self.key)[0]

    def insert_type(self, style: Style) -> int:
        """Event type of an insert into this table."""
        return style.insert if self.columns else 1

    def existing_type(self, style: Style) -> int | None:
        """Event type of the child rows that exist before their parent; ``None`` if its insert reads them."""
        if style is Style.PER_ROW:
            return None if self.columns else style.update
        return style.insert


def literal(text: str) -> str:
    """Returns ``text`` as an SQL literal; backslash escapes are off in the scripts of all databases."""
    return "'" + text.replace("'", "''") + "'"


def written_name(schema: str | None, name: str) -> str:
    """A table's name for the column table_name: parts in double quotes if they need them."""
    return ".".join(
        part if re.fullmatch(r"\w+", part) else '"' + part.replace('"', '""') + '"'
        for part in (schema, name)
        if part is not None
    )


def object_name(table: str, purpose: str, limit: int) -> str:
    """The name of a trigger or function for a table, of at most ``limit`` bytes.

    If the table's name is cut, a digest keeps the names different.
    """
    name = f"xds_{table}_{purpose}"
    if len(name.encode()) <= limit:
        return name
    end = f"_{hashlib.sha256(table.encode()).hexdigest()[:8]}_{purpose}"
    start = f"xds_{table}".encode()[: limit - len(end)].decode(errors="ignore")
    return start + end
