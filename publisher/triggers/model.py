"""What the triggers of all databases have in common: the events of a style, names, the log's columns.

The reference (event types, categories) has three ways to log the change of a row::

    style       category                insert  update  delete
    per-field   per-field non-query-back     1       2       4
    per-row     per-row query-back           5       6       4
    query-back  per-field query-back         7       8       4

* Updates are logged for columns whose text in the log changes, and only for those.
* A new key is another object: the delete of the old one, then the insert of the new one.
* An insert is never lost.  Type 1 leaves out columns that are NULL; a row without any other value
  logs one of type 1 for its first column outside the key, NULL.  So does a table without columns
  outside the key, in every style, for its first key column: there is nothing to query back.
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
from publisher.model.catalogue import Kind
from publisher.model.keys import BLANKS, quote

LOG_COLUMNS = (
    "record_id",
    "table_key",
    "status",
    "event_type",
    "event_time",
    "perpetrator",
    "table_name",
    "column_name",
    "old_value",
    "new_value",
)
"""In the order of the driver's version 3.5 and later (event log columns)."""

DELETE = 4


class Style(StrEnum):
    """Which event types the triggers log."""

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


class Statement(NamedTuple):
    """One statement of SQL; ``what`` names in words what it makes."""

    what: str
    text: str


class TableRef(NamedTuple):
    """A table as the user names it."""

    schema: str | None
    name: str


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """A table whose changes are logged."""

    relation: Relation
    schema: str | None
    """Where it is; ``None`` for SQLite."""
    written: str
    """The log's table_name."""

    @property
    def name(self) -> str:
        """Name of the table as the database has it."""
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
        """The column that an insert without values is logged for."""
        return (self.columns or self.key)[0]

    def insert_type(self, style: Style) -> int:
        """Event type of an insert into this table."""
        return style.insert if self.columns else 1


TextOf = Callable[[str, str], str]
"""From the alias of a row (OLD, NEW) and a column to the SQL of its text in the log."""


def key_pieces(
    table: LoggedTable, row: str, text: TextOf, quoted: Callable[[str], str], plain: frozenset[Kind]
) -> list[str]:
    """The SQL of the pieces of a table_key that are to be joined: names as literals, values.

    ``quoted`` puts the SQL of a text into double quotes where the grammar asks for it; the texts of
    columns of ``plain`` kinds never need that.
    """
    pieces = []
    for place, column in enumerate(table.key):
        pieces.append(literal(f"{'+' if place else ''}{quote(column)}="))
        value = text(row, column)
        kind = table.relation.table.columns[column]
        pieces.append(value if kind in plain else quoted(value))
    return pieces


def literal(text: str) -> str:
    """``text`` as a literal where the backslash means nothing: all three databases are told so."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """An identifier, as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def script(statements: Iterable[Statement]) -> str:
    """The statements as a shell of the database reads them, in one transaction."""
    return "\n".join(["BEGIN;\n", *(f"{text};\n" for _, text in statements), "COMMIT;\n"])


def written_name(schema: str | None, name: str) -> str:
    """A table's name as ``table_name`` has it: parts in double quotes where they must be."""
    return ".".join(
        part if re.fullmatch(r"\w+", part) else '"' + part.replace('"', '""') + '"'
        for part in (schema, name)
        if part is not None
    )


def object_name(table: str, purpose: str, most: int) -> str:
    """The name of a trigger or function for a table: at most ``most`` bytes, told apart by a digest
    where the table's name had to be cut."""
    name = f"xds_{table}_{purpose}"
    if len(name.encode()) <= most:
        return name
    end = f"_{hashlib.sha256(table.encode()).hexdigest()[:8]}_{purpose}"
    start = f"xds_{table}".encode()[: most - len(end)].decode(errors="ignore")
    return start + end


def unreadable(table: LoggedTable) -> str | None:
    """A column whose name no ``column_name`` can hold: blanks at its ends are taken for padding."""
    return next((name for name in table.columns if name != name.strip(BLANKS)), None)


def block(lines: Iterable[str], width: int) -> str:
    """Lines, each moved to the right as a whole: names may hold line breaks, which stay."""
    return "\n".join(" " * width + line for line in lines)
