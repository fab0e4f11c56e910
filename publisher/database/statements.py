"""Statements that read many rows by key, each row given to the key that asked for it.

Whether a row has a key is for the database to say, by the column's type and collation:

* PostgreSQL joins the table with the numbered keys, so each row comes with the number of its key.
* Elsewhere the keys stand in an IN list.  Rows whose key is the same value are matched here; keys
  without such a row are asked for again among themselves, in ever smaller lots, as they may equal a
  row by a collation (case, accents, blanks at the end) that is not ours to imitate.  Where no row
  is equal that is a single statement more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Protocol, TypeAlias

from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Connection,
    Dialect,
    Select,
    String,
    TableClause,
    and_,
    bindparam,
    cast,
    column,
    literal,
    or_,
    quoted_name,
    select,
    tuple_,
    types,
)
from sqlalchemy import table as sql_table
from sqlalchemy.dialects import mysql

from publisher.database import key_values
from publisher.database.catalogue import Relation
from publisher.database.key_values import KeyValueError, key_column
from publisher.model.catalogue import Kind
from publisher.model.change import Reason
from publisher.planning.query_back import Answer, CurrentRow, RefusedLookup

__all__ = ["InListQuery", "JoinQuery", "KeyValueError", "Query", "Values", "query"]

Values: TypeAlias = tuple[Any, ...]
"""The values of a key, in the order of its columns."""

Convert: TypeAlias = Callable[[Any], str | None]


class Query(Protocol):
    """Reads rows of one table by the same columns."""

    name: str
    """The table, for messages."""

    def most(self, wanted: int) -> int:
        """How many keys one statement may take, at most ``wanted``."""

    def key(self, texts: Sequence[str]) -> Values:
        """The texts of a key as values.  Raises ``KeyValueError``."""

    def rows(self, connection: Connection, lot: Sequence[Values]) -> list[Answer]:
        """The row of each key of the lot."""


def query(
    dialect: Dialect, relation: Relation, columns: tuple[str, ...], text_of: Convert
) -> Query:
    """The way to read rows of ``relation`` by ``columns`` on this database."""
    if dialect.name == "postgresql" and dialect.driver == "psycopg":
        return JoinQuery(dialect, relation, columns, text_of)
    return InListQuery(dialect, relation, columns, text_of)


class JoinQuery:
    """PostgreSQL: the table joined with arrays of keys, the values as text made by the server."""

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

    def most(self, wanted: int) -> int:
        """One parameter holds all values of a column, so no limit is near."""
        return wanted

    def key(self, texts: Sequence[str]) -> Values:
        """The texts: the server reads them by the column's type."""
        if len(texts) == 1:
            return (self._read[0](texts[0]),)
        return tuple(read(text) for read, text in zip(self._read, texts, strict=True))

    def rows(self, connection: Connection, lot: Sequence[Values]) -> list[Answer]:
        """The row of each key of the lot, matched by the server."""
        arrays = {f"k{n}": list(values) for n, values in enumerate(zip(*lot, strict=True))}
        found: list[Answer] = [None] * len(lot)
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


_READ_AS_TEXT: dict[Kind, Callable[[str], Any]] = {
    Kind.INT: key_values.whole_text,
    Kind.DECIMAL: key_values.number_text,
    Kind.OCTET: key_values.octets,
    Kind.DATE: key_values.moment_text,
    Kind.TIME: key_values.moment_text,
    Kind.TIMESTAMP: key_values.moment_text,
}


_TEXT_TYPES = frozenset({"text", "character varying", "bpchar", "bytea", "name"})
"""PostgreSQL types whose values come as they are; a cast to text would cut the padding of CHAR."""


def _join_item(relation: Relation, name: str, written: str) -> str:
    """A column as text.  Of a type that somebody made its output is read and not its cast: a cast may be
    a function of the type's owner, and would run with the rights of the publisher's user."""
    if name in relation.made_types:
        given = f"pg_catalog.num_nulls({written}) OPERATOR(pg_catalog.=) 0"
        return f"CASE WHEN {given} THEN pg_catalog.concat({written}) END"
    return written if relation.casts[name] in _TEXT_TYPES else f"CAST({written} AS text)"


def _equals(relation: Relation, name: str) -> str:
    """The operator that compares a column: PostgreSQL's own, whatever others the search path has.

    Base types of extensions bring theirs; only superusers make such types.
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
        # by the primary key's index, whatever the planner believes of the table (measured: 3 times faster)
        joined = f"CROSS JOIN LATERAL (SELECT * FROM {table} AS t WHERE {on} OFFSET 0) AS t"  # noqa: S608
    else:
        if len(columns) == 1:
            on += f" AND t.{quoted(columns[0])} {equals[0]} ANY ({arrays[0]})"  # lets an index be used
        joined = f"JOIN {table} AS t ON {on}"
    # all names stand quoted, values are parameters
    return f"SELECT k.n, {', '.join(items)} FROM {rows} {joined}"  # noqa: S608


class InListQuery:
    """Any database: keys in an IN list."""

    def __init__(
        self, dialect: Dialect, relation: Relation, columns: tuple[str, ...], text_of: Convert
    ) -> None:
        self.name = relation.table.name
        self._columns = tuple(relation.types)
        self._places = [self._columns.index(name) for name in columns]
        self._width = len(columns)
        self._most = _parameters(dialect)
        kinds = [relation.table.columns[name] for name in columns]
        self._key = [
            key_column(kind, padded=name in relation.table.padded, sqlite=dialect.name == "sqlite")
            for kind, name in zip(kinds, columns, strict=True)
        ]
        self._collated = Kind.STRING in kinds
        self._convert = [
            _converter(type_, relation.table.columns[name], text_of)
            for name, type_ in relation.types.items()
        ]
        self._tuples = self._width > 1 and dialect.name in _ROW_VALUES
        self._selected = selected(relation)
        self._compared = [_compared(relation, name, dialect) for name in columns]
        self._statement = self._with_list() if self._width == 1 or self._tuples else None

    def most(self, wanted: int) -> int:
        """As many as the database's greatest number of parameters allows."""
        return max(1, min(wanted, self._most // self._width))

    def key(self, texts: Sequence[str]) -> Values:
        """The texts as values of their columns' types."""
        return tuple(part.read(text) for part, text in zip(self._key, texts, strict=True))

    def rows(self, connection: Connection, lot: Sequence[Values]) -> list[Answer]:
        """The row of each key of the lot."""
        found: list[Answer] = [None] * len(lot)
        self._search(connection, lot, range(len(lot)), found)
        return found

    def _search(
        self,
        connection: Connection,
        lot: Sequence[Values],
        numbers: Sequence[int],
        found: list[Answer],
    ) -> None:
        """Finds the rows of the keys with these ``numbers``."""
        rows = connection.execute(*self._asking([lot[n] for n in numbers])).all()
        if len(numbers) == 1:
            found[numbers[0]] = _only(self._texts(rows), self.name)
        if len(numbers) == 1 or not rows:
            return
        numbers_of: dict[Values, list[int]] = {}
        for n in numbers:
            numbers_of.setdefault(self._same(lot[n]), []).append(n)
        strange = False
        for row, texts in zip(rows, self._texts(rows), strict=True):
            owners = numbers_of.get(self._same([row[place] for place in self._places]))
            strange = strange or owners is None
            for n in owners or ():
                found[n] = texts if found[n] is None else _several(self.name)
        rest = [n for n in numbers if found[n] is None]
        if not rest or not (strange or self._collated):
            return
        if len(rest) < len(numbers):
            self._search(connection, lot, rest, found)
        else:
            self._search(connection, lot, rest[: len(rest) // 2], found)
            self._search(connection, lot, rest[len(rest) // 2 :], found)

    def _same(self, values: Iterable[Any]) -> Values:
        return tuple([part.same(value) for part, value in zip(self._key, values, strict=True)])

    def _texts(self, rows: Sequence[Any]) -> list[CurrentRow]:
        """The rows as text, converted column by column."""
        texts = [
            [None if value is None else convert(value) for value in values]
            for convert, values in zip(self._convert, zip(*rows, strict=True), strict=False)
        ]
        return list(map(CurrentRow, repeat(self._columns), zip(*texts, strict=True)))

    def _asking(self, keys: Sequence[Values]) -> tuple[Select[Any], dict[str, Any]]:
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
        return self._selected.where(or_(*each)), {}

    def _with_list(self) -> Select[Any]:
        keys = bindparam("keys", expanding=True, type_=None if self._tuples else types.NullType())
        left: Any = tuple_(*self._compared) if self._tuples else self._compared[0]
        return self._selected.where(left.in_(keys))


def _only(rows: Sequence[CurrentRow], name: str) -> Answer:
    return rows[0] if len(rows) == 1 else _several(name) if rows else None


def _several(name: str) -> RefusedLookup:
    return RefusedLookup(
        Reason.DATABASE_REFUSED,
        f"several rows of {name} have this key: name columns in the key that tell rows apart",
    )


_ROW_VALUES = frozenset({"sqlite", "mysql", "mariadb"})


def _parameters(dialect: Dialect) -> int:
    """The greatest number of parameters of a statement."""
    if dialect.name == "sqlite":
        version = getattr(dialect.loaded_dbapi, "sqlite_version_info", (3, 0))
        return 32_766 if version >= (3, 32) else 999
    return {"mssql": 2_000, "oracle": 1_000}.get(dialect.name, 32_000)


def selected(relation: Relation) -> Select[Any]:
    """All columns, as the driver gives them: without SQLAlchemy's own conversions."""
    columns: list[ColumnClause[Any]] = [column(_quoted(name)) for name in relation.types]
    return select(*columns).select_from(sql_table_of(relation))


def sql_table_of(relation: Relation) -> TableClause:
    """The table as it stands after FROM."""
    schema = None if relation.schema is None else _quoted(relation.schema)
    return sql_table(_quoted(relation.table.name), schema=schema)


def _quoted(name: str) -> quoted_name:
    return quoted_name(name, quote=True)


def _compared(relation: Relation, name: str, dialect: Dialect) -> ColumnElement[Any]:
    named: ColumnElement[Any] = column(_quoted(name))
    if dialect.name == "sqlite" and isinstance(relation.types[name], types.NullType):
        # a column without a type compares numbers and texts as different
        return cast(named, String)
    return named


def _converter(type_: types.TypeEngine[Any], kind: Kind, text_of: Convert) -> Convert:
    """How values of a column become text, chosen once for the column."""
    if isinstance(type_, mysql.BIT):
        one = type_.length == 1
        return lambda value: text_of(_bits(value) != 0 if one else _bits(value))
    if kind is Kind.STATE:
        # stored as a number; one other than 0 and 1 is no boolean, and stays what it is
        return lambda value: text_of(bool(value) if value in (0, 1) else value)
    return text_of


def _bits(value: bytes | int) -> int:
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value
