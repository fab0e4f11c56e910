"""Statements that read many rows by key and match each row with its key.

The database decides whether a row has a key, by the column's type and collation:

* PostgreSQL joins the table with the numbered keys, so each row comes with the number of its key.
* MariaDB and SQLite get the keys in an IN list.  This module matches rows whose key values are the same.
  Only the database knows whether a row has an equal key by its collation (case, accents, trailing blanks), so
  keys with other rows are queried in ever smaller batches.  Keys without rows are queried once more, because
  the row of an equal key may be theirs, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    String,
    bindparam,
    cast,
    select,
    tuple_,
    types,
)

from publisher.database.catalogue import Relation, sql_column, sql_table_of
from publisher.database.key_values import KeyValueError, key_column
from publisher.database.numbered_rows import (
    Keys,
    NumberedRows,
    Texts,
    Values,
    texts_of,
)
from publisher.database.text_columns import text_column
from publisher.model.catalogue import ColumnKind
from publisher.planning.query_back import Answers
from publisher.xds.values import text_of

__all__ = ["InListQuery", "KeyValueError", "Query", "Values", "query"]

_LONGEST_LIST = 1_000
_MAX_PARAMETERS = 32_000
"""Limit of the parameters of a statement in SQLite, a little below."""


class Query(Protocol):
    """Reads rows of one table by the same columns."""

    name: str
    """Name of the table, for messages."""
    columns: tuple[str, ...]
    """Columns of the table, in the order of the values of rows."""

    def max_keys(self, wanted: int) -> int:
        """Returns the maximum number of keys of one statement, at most ``wanted``."""

    def keys(self, columns: Keys) -> Keys:
        """Converts the texts of keys to their values.  Raises ``ValueError``."""

    def rows(self, connection: Connection, keys: Keys) -> Answers:
        """Reads the row of each key; the places of answers are those of the keys."""

    def all_rows(self, connection: Connection, keys: Keys) -> NumberedRows:
        """Reads all rows of each key."""


def query(dialect: Dialect, relation: Relation, columns: tuple[str, ...]) -> Query:
    """Creates the query for rows of ``relation`` by ``columns``."""
    if dialect.name == "postgresql":
        from publisher.database.join_query import JoinQuery  # noqa: PLC0415 - needs psycopg

        return JoinQuery(relation, columns)
    return InListQuery(dialect, relation, columns)


class InListQuery:
    """MariaDB and SQLite: reads rows by an IN list of keys."""

    def __init__(self, dialect: Dialect, relation: Relation, columns: tuple[str, ...]) -> None:
        self.name = relation.table.name
        self.columns = tuple(relation.types)
        self._width = len(columns)
        kinds = [relation.table.columns[name] for name in columns]
        self._key = [
            key_column(kind, padded=name in relation.table.padded, sqlite=dialect.name == "sqlite")
            for kind, name in zip(kinds, columns, strict=True)
        ]
        self._has_collation = ColumnKind.STRING in kinds
        compared: list[Any] = [_comparable(relation, name, dialect) for name in columns]
        wanted = tuple_(*compared) if self._width > 1 else compared[0]
        type_ = None if self._width > 1 else types.NullType()
        listed = wanted.in_(bindparam("keys", expanding=True, type_=type_))
        # key columns also as the driver reads them, to find the key of each row
        items = [*map(sql_column, columns), *text_columns(relation, dialect)]
        self._statement = select(*items).select_from(sql_table_of(relation)).where(listed)

    def max_keys(self, wanted: int) -> int:
        """Returns the number of keys that fit into the database's maximum number of parameters.

        For longer lists, MariaDB may read the whole table instead."""
        return max(1, min(wanted, _LONGEST_LIST, _MAX_PARAMETERS // self._width))

    def keys(self, columns: Keys) -> Keys:
        """Converts the texts to values of the columns' types."""
        parts = zip(self._key, columns, strict=True)
        return [list(map(part.read, texts_of(column))) for part, column in parts]

    def rows(self, connection: Connection, keys: Keys) -> Answers:
        """Reads the row of each key."""
        rows = self.all_rows(connection, keys)
        return rows.answers(len(keys[0]), self.columns, self.name)

    def all_rows(self, connection: Connection, keys: Keys) -> NumberedRows:
        """Reads all rows of each key."""
        values = list(zip(*keys, strict=True))
        found: list[list[Texts]] = [[] for _ in values]
        asked: Sequence[int] = range(len(values))
        while asked:
            self._search(connection, values, asked, found)
            missing = [n for n in asked if not found[n]]
            # a row was given to the key that it has exactly; the database may find it by others, too
            asked = missing if self._has_collation and len(missing) < len(asked) else ()
        rows = [(number, *texts) for number, of_key in enumerate(found) for texts in of_key]
        return NumberedRows.of(rows, len(self.columns))

    def _search(
        self,
        connection: Connection,
        keys: Sequence[Values],
        numbers: Sequence[int],
        found: list[list[Texts]],
    ) -> None:
        """Reads all rows of the keys with these ``numbers`` into ``found``."""
        rows = self._execute(connection, [keys[n] for n in numbers])
        numbers_of: dict[Values, list[int]] = {}
        for n in numbers:
            numbers_of.setdefault(self._same(keys[n]), []).append(n)
        owners = [numbers_of.get(self._same(row[: self._width])) for row in rows]
        if len(numbers) > 1 and None in owners:
            half = len(numbers) // 2  # only the database knows the key to which such a row is equal
            self._search(connection, keys, numbers[:half], found)
            self._search(connection, keys, numbers[half:], found)
            return
        for keys_of_row, texts in zip(owners, self._texts(rows), strict=True):
            for n in keys_of_row or numbers:
                found[n].append(texts)

    def _same(self, values: Iterable[Any]) -> Values:
        return tuple([part.same(value) for part, value in zip(self._key, values, strict=True)])

    def _texts(self, rows: Sequence[Any]) -> list[Texts]:
        """Converts the rows to text, column by column."""
        columns = [*zip(*rows, strict=True)][self._width :]
        return list(zip(*[list(map(text_of, values)) for values in columns], strict=True))

    def _execute(self, connection: Connection, keys: Sequence[Values]) -> Sequence[Any]:
        values = keys if self._width > 1 else [key[0] for key in keys]
        return connection.execute(self._statement, {"keys": values}).all()


def text_columns(relation: Relation, dialect: Dialect) -> list[ColumnElement[Any]]:
    """Returns the text of all columns, without SQLAlchemy's conversions of values."""
    return [
        # other names than those of columns, which conditions and the order of rows refer to
        text_column(relation, name, dialect).label(f"xds_text_{place}")
        for place, name in enumerate(relation.types)
    ]


def _comparable(relation: Relation, name: str, dialect: Dialect) -> ColumnElement[Any]:
    if dialect.name == "sqlite" and isinstance(relation.types[name], types.NullType):
        # in a column without a type, numbers and texts are never equal
        return cast(sql_column(name), String)
    return sql_column(name)
