"""Common parts of the triggers of all databases: events of a style, names, columns of the log.

A style logs the change of a row with these event types::

    style       category                insert  update  delete
    per-field   per-field non-query-back     1       2       4
    per-row     per-row query-back           5       6       4
    query-back  per-field query-back         7       8       4

* Updates are logged only for columns whose text in the log changes.
* An update of the key is logged as the delete of the old object, then the insert of the new one, or as a
  change of the key (``key_changes``).  Rows of child tables are logged as values (``child_events``).
* No insert is lost.  Type 1 leaves out columns that are NULL.  For a row with NULL in all columns outside
  the key, one event of type 1 with NULL is logged for the first of them.  For a table that has no columns
  outside the key, this event is logged in every style for the first key column, because there is nothing
  to query back.
* Type 7 is logged for each column outside the key, NULL or not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from publisher.database.catalogue import Relation
from publisher.model.catalogue import ColumnKind
from publisher.model.keys import BLANKS, quote

DELETE = 4
NOTIFY_TRIGGER = "xds_notify"
"""Name of the trigger by which an event log wakes its readers."""

PURPOSES = (
    *("insert", "update", "delete", "rekey", "before_delete", "before_update"),
    *("changed_insert", "changed_update", "changed_delete"),
)
"""Ends of the names of triggers in MariaDB and SQLite."""

SPECIAL_CHARACTERS = ",;'+\"=\\<>"
"""Characters of a key value that need double quotes (``keys.quote``)."""
SPECIAL_PATTERN = "[" + SPECIAL_CHARACTERS.replace("\\", "\\\\") + "]"
BLANK_PATTERN = r"[ \t\r\n]"


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


def quote_name(name: str) -> str:
    """An SQL identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


class Statement(NamedTuple):
    """One SQL statement; ``description`` names the object that it creates."""

    description: str
    text: str
    is_of_writer: bool = False
    """PostgreSQL: the statement concerns the role that writes the log."""


class TableRef(NamedTuple):
    """A table as the user names it."""

    schema: str | None
    name: str

    def sql(self, quote: Callable[[str], str] = quote_name) -> str:
        """The name in SQL; ``quote`` quotes identifiers."""
        return ".".join(quote(part) for part in self if part is not None)


@dataclass(frozen=True, slots=True)
class LoggedChild:
    """A child table, whose rows are logged as values of its parent's objects."""

    relation: Relation
    schema: str | None
    """Schema of the table; ``None`` for SQLite."""
    written: str
    """The table's name in the log's column table_name."""
    links: tuple[tuple[str, str], ...]
    """Columns that hold the parent's key, each with its column of the key."""
    columns: tuple[str, ...]
    """Columns of values."""
    moves_along: bool
    """True if rows follow a change of the parent's key at once (ON UPDATE CASCADE)."""
    may_precede: bool
    """True if rows may exist before their parent."""
    definition: str = ""
    """SQLite: the statement that created the table."""

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(self.schema, self.relation.table.name)


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """A table whose changes are logged, with its child tables."""

    relation: Relation
    schema: str | None
    """Schema of the table; ``None`` for SQLite."""
    written: str
    """The table's name in the log's column table_name."""
    children: tuple[LoggedChild, ...] = ()
    joins_keys: bool = False
    """True if an update of the key is logged as a change of the object's key."""
    definition: str = ""
    """SQLite: the statement that created the table."""

    @property
    def ref(self) -> TableRef:
        """The table."""
        return TableRef(self.schema, self.name)

    @property
    def name(self) -> str:
        """Name of the table in the database."""
        return self.relation.table.name

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the primary key."""
        return self.relation.table.key

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns outside the primary key."""
        return tuple(name for name in self.relation.types if name not in self.key)

    @property
    def marker(self) -> str:
        """The column for which an insert without values is logged."""
        return (self.columns or self.key)[0]

    def is_binary(self, column: str) -> bool:
        """Returns whether the values of a column are binary."""
        return self.relation.table.columns[column] is ColumnKind.OCTET

    def event(
        self,
        key: str,
        event_type: int,
        column: str | None = None,
        texts: tuple[str, str] | None = None,
    ) -> dict[str, str]:
        """The SQL of an event's values by columns of the log; ``texts`` are old and new value."""
        values = {
            "table_key": key,
            "event_type": str(event_type),
            "table_name": literal(self.written),
        }
        if column is not None:
            values["column_name"] = literal(column)
        if texts is not None:
            values["old_value"], values["new_value"] = texts
        return values

    def insert_type(self, style: Style) -> int:
        """Event type of an insert into this table."""
        return style.insert if self.columns else 1

    def existing_type(self, style: Style) -> int | None:
        """Event type of the child rows that exist before their parent; ``None`` if its insert reads them."""
        if style is Style.PER_ROW:
            return None if self.columns else style.update
        return style.insert


TextOf = Callable[[Relation, str, str], str]
"""Returns the SQL of a column's text in the log for the alias of a row (OLD, NEW) and the column."""


def key_pieces(
    table: LoggedTable,
    row: str,
    text: TextOf,
    quote_value: Callable[[str], str],
    plain: frozenset[ColumnKind],
    *,
    has_nulls: bool = False,
) -> list[str]:
    """Returns the SQL of the parts of a table_key, which the caller concatenates: names and values.

    ``quote_value`` returns SQL that puts a text into double quotes if the grammar requires them; columns of
    ``plain`` kinds never need them.  With ``has_nulls`` NULL becomes an empty text, so that the key is
    rejected when it is read, instead of NULL, which the log refuses.
    """
    pieces = []
    for place, column in enumerate(table.key):
        pieces.append(literal(f"{'+' if place else ''}{quote(column)}="))
        value = text(table.relation, row, column)
        kind = table.relation.table.columns[column]
        value = value if kind in plain else quote_value(value)
        pieces.append(f"COALESCE({value}, '')" if has_nulls else value)
    return pieces


def literal(text: str) -> str:
    """Returns ``text`` as an SQL literal; backslash escapes are off in the scripts of all databases."""
    return "'" + text.replace("'", "''") + "'"


def script(statements: Iterable[Statement]) -> str:
    """A script for the database's shell that runs the statements in one transaction."""
    return "\n".join(["BEGIN;\n", *(f"{each.text};\n" for each in statements), "COMMIT;\n"])


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


def unloggable_column(columns: Iterable[str]) -> str | None:
    """Returns a column whose name begins or ends with blanks, which column_name treats as padding."""
    return next((name for name in columns if name != name.strip(BLANKS)), None)


def block(lines: Iterable[str], width: int) -> str:
    """Indents lines; names may contain line breaks, after which nothing is indented."""
    return "\n".join(" " * width + line for line in lines)
