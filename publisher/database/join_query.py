"""PostgreSQL: joins a table with arrays of keys; the server converts values to text and matches rows.

Needs psycopg: other modules import this one for PostgreSQL only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection, Dialect

from publisher.database import key_values
from publisher.database.aggregated_columns import aggregate_sql, can_aggregate, read_columns
from publisher.database.catalogue import Relation
from publisher.database.numbered_rows import Keys, NumberedRows, several_rows, texts_of
from publisher.model.catalogue import ColumnKind
from publisher.model.key_columns import are_plain_integers
from publisher.planning.query_back import Answers, CurrentRows, RefusedLookup


class JoinQuery:
    """PostgreSQL: joins the table with arrays of keys; the server converts values to text."""

    def __init__(self, dialect: Dialect, relation: Relation, columns: tuple[str, ...]) -> None:
        self.name = relation.table.name
        self.columns = tuple(relation.types)
        self._kinds = [relation.table.columns[name] for name in columns]
        join = _join_source(dialect, relation, columns)
        quote = dialect.identifier_preparer.quote_identifier
        items = [_join_item(relation, name, f"t.{quote(name)}") for name in relation.types]
        # all names are quoted, all values are parameters
        self._sql = f"SELECT k.n, {', '.join(items)} FROM {join}"  # noqa: S608
        texts = [_text_item(relation, name, f"t.{quote(name)}") for name in relation.types]
        self._aggregate_sql = aggregate_sql("CAST(k.n AS integer)", texts, join)
        self._bytes_of_key = math.inf
        """Bytes of a key's rows in the last statement; infinite after one that failed."""

    def max_keys(self, wanted: int) -> int:
        """Returns ``wanted``: one parameter has all values of a column, so there is no limit."""
        return wanted

    def keys(self, columns: Keys) -> Keys:
        """Checks the texts, which the server converts to the types of the columns."""
        return list(map(_check_texts, self._kinds, columns))

    def rows(self, connection: Connection, keys: Keys) -> Answers:
        """Reads the row of each key; the server matches them."""
        numbers, values = self.all_rows(connection, keys)
        counts = np.bincount(numbers, minlength=len(keys[0]))
        others: dict[int, RefusedLookup | None] = dict.fromkeys(
            np.flatnonzero(counts == 0).tolist()
        )
        if (counts > 1).any():
            others |= dict.fromkeys(np.flatnonzero(counts > 1).tolist(), several_rows(self.name))
            is_single = counts[numbers] == 1
            numbers = numbers[is_single]
            values = [column.filter(pa.array(is_single)) for column in values]
        rows = [CurrentRows(numbers, self.columns, values)] if len(numbers) else []
        return Answers(rows, others)

    def all_rows(self, connection: Connection, keys: Keys) -> NumberedRows:
        """Reads all rows of each key; the server matches them."""
        count = len(keys[0])
        arrays = {f"k{n}": _array(values) for n, values in enumerate(keys)}
        is_small = self._bytes_of_key * count <= _MAX_AGGREGATE
        try:
            if count >= _MANY_KEYS and is_small and can_aggregate(connection, len(self.columns)):
                rows = read_columns(connection, self._aggregate_sql, arrays)
            else:
                rows = self._read_rows(connection, arrays)
        except BaseException:
            self._bytes_of_key = math.inf
            raise
        self._bytes_of_key = sum(column.nbytes for column in rows.values) / count
        return rows

    def _read_rows(self, connection: Connection, arrays: dict[str, Any]) -> NumberedRows:
        cursor = connection.exec_driver_sql(self._sql, arrays).cursor
        assert cursor is not None
        # SQLAlchemy's rows take twice the time of the driver's tuples
        numbers, values = NumberedRows.of(
            sorted(cursor.fetchall(), key=itemgetter(0)), len(self.columns)
        )
        return NumberedRows(numbers - 1, values)


_MANY_KEYS = 100
"""Number of keys from which it is faster to read columns than rows."""
_MAX_AGGREGATE = 16 << 20
"""Maximum bytes of rows that the server is expected to hold in memory, to send them as columns."""


def _array(values: Sequence[Any] | pa.StringArray) -> Any:
    """Returns an array as parameter; the driver would examine each text in turn."""
    if isinstance(values, pa.Array):
        whole = pa.ListArray.from_arrays([0, len(values)], values)
        joined: str = pc.binary_join(whole, '","')[0].as_py()
    elif set(map(type, values)) == {str}:
        joined = '","'.join(values)
    else:
        return list(values)
    if "\\" in joined or joined.count('"') > 2 * (len(values) - 1):
        texts = texts_of(values)
        joined = '","'.join(text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return f'{{"{joined}"}}'


def _check_texts(
    kind: ColumnKind, texts: Sequence[str] | pa.StringArray
) -> Sequence[Any] | pa.StringArray:
    """Converts the texts of a key column.  Raises ``ValueError``."""
    read = _READ_AS_TEXT.get(kind)
    if read is None:
        return texts
    if isinstance(texts, pa.Array) and kind is ColumnKind.INT and are_plain_integers(texts):
        return texts
    return list(map(read, texts_of(texts)))


_READ_AS_TEXT: dict[ColumnKind, Callable[[str], Any]] = {
    ColumnKind.INT: key_values.whole_text,
    ColumnKind.DECIMAL: key_values.number_text,
    ColumnKind.OCTET: key_values.base64_bytes,
    ColumnKind.DATE: key_values.moment_text,
    ColumnKind.TIME: key_values.moment_text,
    ColumnKind.TIMESTAMP: key_values.moment_text,
}


_TEXT_TYPES = frozenset({"text", "character varying", "bpchar", "name"})
"""PostgreSQL types whose values need no cast to text; a cast would cut the padding of CHAR."""


_OTHER_CASTS = frozenset({"inet", "xml"})
"""PostgreSQL types whose cast to text is not the text that the database prints."""


def _join_item(relation: Relation, name: str, column: str) -> str:
    """Returns the SQL of a column in the log's form: binary values as Base64 without line breaks.

    Values of user-defined types are converted by the output function of the type: a cast may be a function
    of the type's owner, which would run with the permissions of the publisher's user.
    """
    if name in relation.user_types or relation.casts[name] in _OTHER_CASTS:
        return _output_of(column)
    if relation.casts[name] == "bytea":
        return f"pg_catalog.replace(pg_catalog.encode({column}, 'base64'), E'\\n', '')"
    return column if relation.casts[name] in _TEXT_TYPES else f"CAST({column} AS text)"


def _text_item(relation: Relation, name: str, column: str) -> str:
    """Returns ``_join_item`` as an expression of type text."""
    if name in relation.user_types or relation.casts[name] not in _TEXT_TYPES:
        return _join_item(relation, name, column)
    return _output_of(column) if relation.casts[name] == "bpchar" else f"CAST({column} AS text)"


def _output_of(column: str) -> str:
    """Returns the SQL of a value as its type writes it."""
    has_value = f"pg_catalog.num_nulls({column}) OPERATOR(pg_catalog.=) 0"
    return f"CASE WHEN {has_value} THEN pg_catalog.concat({column}) END"


def _equals(relation: Relation, name: str) -> str:
    """Returns PostgreSQL's own operator to compare a column, even if the search path has another one.

    Base types of extensions have their own operators; only superusers create such types.
    """
    return "=" if relation.user_types.get(name) == "b" else "OPERATOR(pg_catalog.=)"


def _join_source(dialect: Dialect, relation: Relation, columns: Sequence[str]) -> str:
    """Returns the FROM clause: table ``t`` joined with keys ``k``, which are numbered from 1 (``k.n``)."""
    quote = dialect.identifier_preparer.quote_identifier
    casts = [relation.casts[name].replace("%", "%%") for name in columns]
    arrays = [f"CAST(%(k{place})s AS {cast_}[])" for place, cast_ in enumerate(casts)]
    names = ", ".join(f"c{place}" for place in range(len(columns)))
    equals = [_equals(relation, name) for name in columns]
    on = " AND ".join(
        f"t.{quote(name)} {equals[place]} k.c{place}" for place, name in enumerate(columns)
    )
    table = quote(relation.table.name)
    if relation.schema is not None:
        table = f"{quote(relation.schema)}.{table}"
    rows = f"ROWS FROM (unnest({', '.join(arrays)})) WITH ORDINALITY AS k ({names}, n)"
    if set(columns) == set(relation.table.key):
        # forces the primary key's index (measured: 3 times faster)
        join = f"CROSS JOIN LATERAL (SELECT * FROM {table} AS t WHERE {on} OFFSET 0) AS t"  # noqa: S608
    else:
        if len(columns) == 1:
            on += f" AND t.{quote(columns[0])} {equals[0]} ANY ({arrays[0]})"  # allows the use of an index
        join = f"JOIN {table} AS t ON {on}"
    return f"{rows} {join}"
