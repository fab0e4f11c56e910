"""Statements that read many rows by key and match each row with its key.

The database decides whether a row has a key, by the column's type and collation:

* PostgreSQL joins the table with the numbered keys, so each row comes with the number of its key.
* Other databases get the keys in an IN list.  Rows with an equal key value are matched here.  Keys
  without such a row are queried again in ever smaller batches, since they may equal a row by a collation
  (case, accents, trailing blanks) that only the database knows.  If no row is equal, that is one more
  statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Protocol, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Select,
    String,
    and_,
    bindparam,
    cast,
    literal,
    or_,
    select,
    tuple_,
    types,
)
from sqlalchemy.dialects import mysql

from publisher.database import key_values
from publisher.database.catalogue import Relation, sql_column, sql_table_of
from publisher.database.key_values import KeyValueError, key_column
from publisher.model.catalogue import ColumnKind
from publisher.model.change import Reason
from publisher.planning.query_back import Answer, CurrentRow, RefusedLookup

__all__ = ["InListQuery", "JoinQuery", "KeyValueError", "Query", "Values", "query"]

Values: TypeAlias = tuple[Any, ...]
"""The values of a key, in the order of its columns."""

Convert: TypeAlias = Callable[[Any], str | None]


class Query(Protocol):
    """Reads rows of one table by the same columns."""

    name: str
    """Name of the table, for messages."""

    def max_keys(self, wanted: int) -> int:
        """Maximum number of keys of one statement, up to ``wanted``."""

    def key(self, texts: Sequence[str]) -> Values:
        """The texts of a key as values.  Raises ``KeyValueError``."""

    def rows(self, connection: Connection, keys: Sequence[Values]) -> list[Answer]:
        """The row of each key."""


def query(
    dialect: Dialect, relation: Relation, columns: tuple[str, ...], text_of: Convert
) -> Query:
    """The query for rows of ``relation`` by ``columns`` on this database."""
    if dialect.name == "postgresql" and dialect.driver == "psycopg":
        return JoinQuery(dialect, relation, columns, text_of)
    return InListQuery(dialect, relation, columns, text_of)


class JoinQuery:
    """PostgreSQL: joins the table with arrays of keys; the server converts values to text."""

    def __init__(
        self, dialect: Dialect, relation: Relation, columns: tuple[str, ...], text_of: Convert
    ) -> None:
        self.name = relation.table.name
        self._columns = tuple(relation.types)
        self._read = [_READ_AS_TEXT.get(relation.table.columns[name], str) for name in columns]
        self._bytes = [
            place for place, name in enumerate(self._columns) if relation.casts[name] == "bytea"
        ]
        self._text_of = text_of
        self._sql = _join_sql(dialect, relation, columns)

    def max_keys(self, wanted: int) -> int:
        """One parameter holds all values of a column, so there is no limit."""
        return wanted

    def key(self, texts: Sequence[str]) -> Values:
        """The texts, which the server converts to the column's type."""
        if len(texts) == 1:
            return (self._read[0](texts[0]),)
        return tuple(read(text) for read, text in zip(self._read, texts, strict=True))

    def rows(self, connection: Connection, keys: Sequence[Values]) -> list[Answer]:
        """The row of each key, matched by the server."""
        arrays = {f"k{n}": list(values) for n, values in enumerate(zip(*keys, strict=True))}
        found: list[Answer] = [None] * len(keys)
        rows = connection.exec_driver_sql(self._sql, arrays).all()
        if not rows:
            return found
        numbers, *columns = zip(*rows, strict=True)
        for place in self._bytes:
            columns[place] = tuple(map(self._text_of, columns[place]))
        each = map(CurrentRow, repeat(self._columns), zip(*columns, strict=True))
        for number, row in zip(numbers, each, strict=True):
            found[number - 1] = row if found[number - 1] is None else _several(self.name)
        return found


_READ_AS_TEXT: dict[ColumnKind, Callable[[str], Any]] = {
    ColumnKind.INT: key_values.whole_text,
    ColumnKind.DECIMAL: key_values.number_text,
    ColumnKind.OCTET: key_values.base64_bytes,
    ColumnKind.DATE: key_values.moment_text,
    ColumnKind.TIME: key_values.moment_text,
    ColumnKind.TIMESTAMP: key_values.moment_text,
}


_TEXT_TYPES = frozenset({"text", "character varying", "bpchar", "bytea", "name"})
"""PostgreSQL types whose values need no cast to text; it would cut the padding of CHAR."""


def _join_item(relation: Relation, name: str, written: str) -> str:
    """A column as text.

    Values of user-defined types are written by the type's output function: a cast may be a function of
    the type's owner, which would run with the permissions of the publisher's user.
    """
    if name in relation.made_types:
        has_value = f"pg_catalog.num_nulls({written}) OPERATOR(pg_catalog.=) 0"
        return f"CASE WHEN {has_value} THEN pg_catalog.concat({written}) END"
    return written if relation.casts[name] in _TEXT_TYPES else f"CAST({written} AS text)"


def _equals(relation: Relation, name: str) -> str:
    """PostgreSQL's own operator to compare a column, even if the search path has another one.

    Base types of extensions have their own operators; only superusers create such types.
    """
    return "=" if relation.made_types.get(name) == "b" else "OPERATOR(pg_catalog.=)"


def _join_sql(dialect: Dialect, relation: Relation, columns: Sequence[str]) -> str:
    quoted = dialect.identifier_preparer.quote_identifier
    items = [_join_item(relation, name, f"t.{quoted(name)}") for name in relation.types]
    casts = [relation.casts[name].replace("%", "%%") for name in columns]
    arrays = [f"CAST(%(k{place})s AS {cast_}[])" for place, cast_ in enumerate(casts)]
    names = ", ".join(f"c{place}" for place in range(len(columns)))
    equals = [_equals(relation, name) for name in columns]
    on = " AND ".join(
        f"t.{quoted(name)} {equals[place]} k.c{place}" for place, name in enumerate(columns)
    )
    table = quoted(relation.table.name)
    if relation.schema is not None:
        table = f"{quoted(relation.schema)}.{table}"
    rows = f"ROWS FROM (unnest({', '.join(arrays)})) WITH ORDINALITY AS k ({names}, n)"
    if set(columns) == set(relation.table.key):
        # forces the primary key's index (measured: 3 times faster)
        joined = f"CROSS JOIN LATERAL (SELECT * FROM {table} AS t WHERE {on} OFFSET 0) AS t"  # noqa: S608
    else:
        if len(columns) == 1:
            on += f" AND t.{quoted(columns[0])} {equals[0]} ANY ({arrays[0]})"  # allows the use of an index
        joined = f"JOIN {table} AS t ON {on}"
    # all names are quoted, all values are parameters
    return f"SELECT k.n, {', '.join(items)} FROM {rows} {joined}"  # noqa: S608


class InListQuery:
    """Other databases: reads rows by an IN list of keys."""

    def __init__(
        self, dialect: Dialect, relation: Relation, columns: tuple[str, ...], text_of: Convert
    ) -> None:
        self.name = relation.table.name
        self._columns = tuple(relation.types)
        self._places = [self._columns.index(name) for name in columns]
        self._width = len(columns)
        self._max_parameters = _parameter_limit(dialect)
        kinds = [relation.table.columns[name] for name in columns]
        self._key = [
            key_column(kind, padded=name in relation.table.padded, sqlite=dialect.name == "sqlite")
            for kind, name in zip(kinds, columns, strict=True)
        ]
        self._collated = ColumnKind.STRING in kinds
        self._convert = [
            _converter(type_, relation.table.columns[name], text_of)
            for name, type_ in relation.types.items()
        ]
        self._tuples = self._width > 1 and dialect.name in _ROW_VALUES
        self._all_columns = select_all(relation)
        self._compared = [_comparable(relation, name, dialect) for name in columns]
        self._statement = self._with_list() if self._width == 1 or self._tuples else None

    def max_keys(self, wanted: int) -> int:
        """The database's maximum number of parameters is the limit."""
        return max(1, min(wanted, self._max_parameters // self._width))

    def key(self, texts: Sequence[str]) -> Values:
        """The texts as values of their columns' types."""
        return tuple(part.read(text) for part, text in zip(self._key, texts, strict=True))

    def rows(self, connection: Connection, keys: Sequence[Values]) -> list[Answer]:
        """The row of each key."""
        found: list[Answer] = [None] * len(keys)
        self._search(connection, keys, range(len(keys)), found)
        return found

    def _search(
        self,
        connection: Connection,
        keys: Sequence[Values],
        numbers: Sequence[int],
        found: list[Answer],
    ) -> None:
        """Reads the rows of the keys with these ``numbers`` into ``found``."""
        rows = connection.execute(*self._statement_for([keys[n] for n in numbers])).all()
        if len(numbers) == 1:
            found[numbers[0]] = _only(self._texts(rows), self.name)
        if len(numbers) == 1 or not rows:
            return
        numbers_of: dict[Values, list[int]] = {}
        for n in numbers:
            numbers_of.setdefault(self._same(keys[n]), []).append(n)
        has_unmatched = False
        for row, texts in zip(rows, self._texts(rows), strict=True):
            owners = numbers_of.get(self._same([row[place] for place in self._places]))
            has_unmatched = has_unmatched or owners is None
            for n in owners or ():
                found[n] = texts if found[n] is None else _several(self.name)
        rest = [n for n in numbers if found[n] is None]
        if not rest or not (has_unmatched or self._collated):
            return
        if len(rest) < len(numbers):
            self._search(connection, keys, rest, found)
        else:
            self._search(connection, keys, rest[: len(rest) // 2], found)
            self._search(connection, keys, rest[len(rest) // 2 :], found)

    def _same(self, values: Iterable[Any]) -> Values:
        return tuple([part.same(value) for part, value in zip(self._key, values, strict=True)])

    def _texts(self, rows: Sequence[Any]) -> list[CurrentRow]:
        """The rows as text, converted column by column."""
        texts = [
            [None if value is None else convert(value) for value in values]
            for convert, values in zip(self._convert, zip(*rows, strict=True), strict=False)
        ]
        return list(map(CurrentRow, repeat(self._columns), zip(*texts, strict=True)))

    def _statement_for(self, keys: Sequence[Values]) -> tuple[Select[Any], dict[str, Any]]:
        if self._statement is not None:
            return self._statement, {"keys": keys if self._tuples else [key[0] for key in keys]}
        each = [
            and_(
                *(
                    c == literal(v, types.NullType())
                    for c, v in zip(self._compared, key, strict=True)
                )
            )
            for key in keys
        ]
        return self._all_columns.where(or_(*each)), {}

    def _with_list(self) -> Select[Any]:
        keys = bindparam("keys", expanding=True, type_=None if self._tuples else types.NullType())
        left: Any = tuple_(*self._compared) if self._tuples else self._compared[0]
        return self._all_columns.where(left.in_(keys))


def _only(rows: Sequence[CurrentRow], name: str) -> Answer:
    return rows[0] if len(rows) == 1 else _several(name) if rows else None


def _several(name: str) -> RefusedLookup:
    return RefusedLookup(
        Reason.DATABASE_REFUSED,
        f"several rows of {name} have this key: name columns in the key that tell rows apart",
    )


_ROW_VALUES = frozenset({"sqlite", "mysql", "mariadb"})


def _parameter_limit(dialect: Dialect) -> int:
    """Maximum number of parameters of a statement."""
    if dialect.name == "sqlite":
        version = getattr(dialect.loaded_dbapi, "sqlite_version_info", (3, 0))
        return 32_766 if version >= (3, 32) else 999
    return {"mssql": 2_000, "oracle": 1_000}.get(dialect.name, 32_000)


def select_all(relation: Relation) -> Select[Any]:
    """Selects all columns without SQLAlchemy's conversions of values."""
    return select(*map(sql_column, relation.types)).select_from(sql_table_of(relation))


def _comparable(relation: Relation, name: str, dialect: Dialect) -> ColumnElement[Any]:
    if dialect.name == "sqlite" and isinstance(relation.types[name], types.NullType):
        # in a column without a type, numbers and texts are never equal
        return cast(sql_column(name), String)
    return sql_column(name)


def _converter(type_: types.TypeEngine[Any], kind: ColumnKind, text_of: Convert) -> Convert:
    """The conversion of a column's values to text."""
    if isinstance(type_, mysql.BIT):
        one = type_.length == 1
        return lambda value: text_of(_bits(value) != 0 if one else _bits(value))
    if kind is ColumnKind.STATE:
        # stored as a number; other numbers than 0 and 1 are not booleans
        return lambda value: text_of(bool(value) if value in (0, 1) else value)
    return text_of


def _bits(value: bytes | int) -> int:
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value
