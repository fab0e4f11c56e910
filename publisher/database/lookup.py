"""Looks up current rows by their keys, many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database import failures, statements
from publisher.database.catalogue import Relation, catalogue_of
from publisher.database.child_values import ClassReader, class_reader
from publisher.database.connection import Database, begin_snapshot, fatal
from publisher.database.numbered_rows import Keys, select_keys, texts_of
from publisher.database.row_keys import RowKey, refuse_other_keys, row_key
from publisher.database.statements import Query
from publisher.database.view_objects import ViewQuery
from publisher.errors import TableRefusedError
from publisher.model import keys
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import Object, Reason
from publisher.model.change_batches import objects_of
from publisher.model.key_columns import split_keys
from publisher.planning.query_back import (
    NO_NAMED_COLUMNS,
    Answers,
    CurrentRows,
    NamedColumns,
    RefusedLookup,
)

_KEYS = 4_000
"""Maximum number of keys in a statement."""
_KEYS_WITH_CHILDREN = 2_000
"""Maximum number of keys in statements for child tables: twice as many take longer (measured)."""
Numbers = npt.NDArray[np.int64]


class KeyBatch(NamedTuple):
    """Objects of one table by their places in a look-up, and the values of their keys."""

    places: Numbers
    columns: Keys

    def part(self, start: int, end: int) -> KeyBatch:
        """Returns the keys from ``start`` up to, but not including, ``end``."""
        return KeyBatch(self.places[start:end], [column[start:end] for column in self.columns])


class ObjectQuery(NamedTuple):
    """The query for the rows of objects, and the reader of their child tables, if any are needed."""

    rows: Query
    children: ClassReader | None


class DatabaseLookup:
    """The ``Lookup`` of a database: one statement for each table and batch of keys.

    If single rows make a batch fail, the batch is halved until these rows are found; only they are refused.
    If the database refuses a whole table, its objects are refused and the run continues.

    Raises ``UnreachableError`` and ``FatalError``.
    """

    def __init__(
        self,
        database: Database,
        classes: Catalogue | None = None,
        snapshot: str | None = None,
    ) -> None:
        """``classes`` describes the child tables of objects; without it only rows are read.  ``snapshot`` is
        the shared snapshot of PostgreSQL to read; ``None`` reads the present rows."""
        self._database = database
        self._classes = classes
        self._readers: dict[Query, ClassReader] = {}
        self._row_keys: dict[Query, RowKey] = {}
        self._snapshot = snapshot
        self._queries: dict[tuple[Any, ...], Query | RefusedLookup] = {}
        """By schema, table and the columns that keys name."""

    def read(self, objects: pa.RecordBatch, named: NamedColumns = NO_NAMED_COLUMNS) -> Answers:
        """Reads the current rows of the objects; an object may appear several times."""
        groups = _group_batch(objects)
        answers = Answers([], dict(groups.refused))
        for table_key, keys_of_table in groups.tables.items():
            query = self._queries.get(table_key)
            if query is None:
                query = self._queries[table_key] = self._query(*table_key)
            if isinstance(query, RefusedLookup):
                answers.others.update(dict.fromkeys(keys_of_table.places.tolist(), query))
                continue
            batch = _convert_keys(query, keys_of_table, table_key[2:], answers)
            for object_query, part in self._divide(query, batch, named):
                size = self._max_keys(object_query)
                found = Answers([], answers.others)
                starts = range(0, len(part.places), size)
                batches = [part.part(start, start + size) for start in starts]
                self._read(object_query, batches, found)
                for rows in _join(found.rows):
                    own, refused = refuse_other_keys(
                        self._row_keys[query], *keys_of_table[::-1], rows
                    )
                    if len(own.places):
                        answers.rows.append(own)
                    answers.others.update(refused)
        return answers

    def _max_keys(self, query: ObjectQuery) -> int:
        """Returns the maximum number of keys in one statement."""
        return query.rows.max_keys(_KEYS if query.children is None else _KEYS_WITH_CHILDREN)

    def _divide(
        self, query: Query, batch: KeyBatch, named: NamedColumns
    ) -> Iterable[tuple[ObjectQuery, KeyBatch]]:
        """Divides a batch by the child tables that its objects need."""
        reader = self._readers.get(query)
        if reader is None or not named:
            return [(ObjectQuery(query, reader), batch)]
        parts: dict[ObjectQuery, list[int]] = {}
        for number, place in enumerate(batch.places.tolist()):
            columns = named.get(place)
            needed = reader if columns is None else reader.part(columns)
            parts.setdefault(ObjectQuery(query, needed), []).append(number)
        return [
            (needed, KeyBatch(batch.places[numbers], select_keys(batch.columns, numbers)))
            for needed, numbers in parts.items()
        ]

    def _query(self, schema: str | None, name: str, *columns: str) -> Query | RefusedLookup:
        try:
            relation = catalogue_of(self._database).relation(schema, name)
        except TableRefusedError as refused:
            return RefusedLookup(Reason(refused.reason), refused.message)
        if relation is None:
            where = f" in schema {schema!r}" if schema is not None else ""
            return RefusedLookup(
                Reason.TABLE_NAME,
                f"{self._database.name} has no table or view {name!r}{where}: fix the event's "
                "table name, or name the right database and schema",
            )
        try:
            table = None if self._classes is None else self._classes.table(schema, name)
            return self._query_of_class(relation, columns, table)
        except TableRefusedError as refused:
            return RefusedLookup(Reason(refused.reason), refused.message)

    def _query_of_class(
        self, relation: Relation, columns: tuple[str, ...], table: Table | None
    ) -> Query | RefusedLookup:
        """Creates the query for objects of a class, or for rows of a single table.

        Raises ``TableRefusedError`` if the database does not have the class as it is described."""
        view = None if table is None else table.view_columns
        names = [relation.column(view.spelling_of(name) if view else name) for name in columns]
        if None in names:
            return _unknown_column(relation, columns[names.index(None)])
        dialect = self._database.engine.dialect
        key = tuple(name for name in names if name is not None)
        query = statements.query(dialect, relation, key)
        if table is not None and view is not None:
            query = ViewQuery(query, table, view)
            key = tuple(table.column(name) or name for name in columns)
        places = map(query.columns.index, key)
        self._row_keys[query] = row_key(columns, places, table or relation.table)
        if table is None or view is not None:
            return query
        reader = class_reader(catalogue_of(self._database), dialect, table)
        if reader is not None:
            self._readers[query] = reader
        return query

    def _read(self, query: ObjectQuery, batches: Sequence[KeyBatch], answers: Answers) -> None:
        """Answers batches on one connection; halves those in which single rows make the statement fail."""
        unread = deque(batches)
        is_query = query.children is None and self._snapshot is None

        def read(connection: Connection) -> None:
            self._begin(query, connection)
            while unread:
                self._read_batch(query, connection, unread[0], answers)
                unread.popleft()

        while unread:
            try:
                self._database.run(read, is_query=is_query)
            except (DBAPIError, ValueError, OverflowError) as error:
                self._handle_failure(query, unread.popleft(), error, answers)

    def _begin(self, query: ObjectQuery, connection: Connection) -> None:
        """Makes all statements of a new connection read the data of one moment, if they must."""
        if self._snapshot is not None:
            from publisher.database.copy import join_snapshot  # noqa: PLC0415 - needs psycopg

            join_snapshot(connection, self._snapshot)
        elif query.children is not None:
            begin_snapshot(connection)

    def _read_batch(
        self, query: ObjectQuery, connection: Connection, batch: KeyBatch, answers: Answers
    ) -> None:
        found = query.rows.rows(connection, batch.columns)
        rows = found.rows
        if query.children is not None:
            rows = [query.children.complete(connection, each) for each in rows]
        answers.rows.extend(each._replace(places=batch.places[each.places]) for each in rows)
        answers.others.update(
            (int(batch.places[number]), answer) for number, answer in found.others.items()
        )

    def _handle_failure(
        self, query: ObjectQuery, batch: KeyBatch, error: Exception, answers: Answers
    ) -> None:
        if isinstance(error, DBAPIError) and failures.is_missing_permission(error):
            refused = self._refuse_table(query.rows, error)
            answers.others.update(dict.fromkeys(batch.places.tolist(), refused))
            return
        if not failures.is_data_error(error):
            assert isinstance(error, DBAPIError)
            raise fatal(self._database, error, f"Reading rows of {query.rows.name}") from error
        size = len(batch.places)
        if size > 1 and not failures.concerns_statement(error):
            halves = [batch.part(0, size // 2), batch.part(size // 2, size)]
            self._read(query, halves, answers)
            return
        refused = RefusedLookup(
            Reason.DATABASE_REFUSED,
            f"reading the row of {query.rows.name} failed: {failures.message_of(error)}: fix the row, "
            "the view or the key",
        )
        answers.others.update(dict.fromkeys(batch.places.tolist(), refused))

    def _refuse_table(self, query: Query, error: DBAPIError) -> RefusedLookup:
        return RefusedLookup(
            Reason.DATABASE_REFUSED,
            f"reading table {query.name} of {self._database.name} failed: "
            f"{self._database.redact(error)}: grant the user SELECT on it, or exclude "
            "the table",
        )


def _join(parts: list[CurrentRows]) -> list[CurrentRows]:
    """Joins the rows of several statements of one query, which are planned faster together."""
    if len(parts) < 2:
        return parts
    columns = zip(*(part.values for part in parts), strict=True)
    values = [pa.concat_arrays(column) for column in columns]
    return [CurrentRows(np.concatenate([part.places for part in parts]), parts[0].columns, values)]


class _Groups(NamedTuple):
    """The keys of objects as texts, by schema, table and the columns that they name."""

    tables: dict[tuple[Any, ...], KeyBatch]
    refused: dict[int, RefusedLookup]
    """Objects whose keys cannot be parsed, by their places."""


def _group_batch(objects: pa.RecordBatch) -> _Groups:
    """Groups objects; those of one table with simple keys together, which is faster."""
    schemas, tables = (pc.unique(objects.column(name)) for name in ("schema", "table"))
    split = split_keys(objects.column("key")) if len(schemas) == len(tables) == 1 else None
    if split is None:
        return _group_objects(objects_of(objects))
    column, values = split
    table_key = (schemas[0].as_py(), tables[0].as_py(), column)
    return _Groups({table_key: KeyBatch(np.arange(len(values)), [values])}, {})


def _group_objects(objects: Sequence[Object]) -> _Groups:
    places: dict[tuple[Any, ...], list[int]] = {}
    texts: dict[tuple[Any, ...], list[Sequence[str]]] = {}
    refused: dict[int, RefusedLookup] = {}
    for place, (schema, table, key) in enumerate(objects):
        try:
            columns, values, _ = zip(*keys.parse(key), strict=True)
        except keys.KeyProblem as problem:
            refused[place] = RefusedLookup(Reason.TABLE_KEY, str(problem))
            continue
        places.setdefault((schema, table, *columns), []).append(place)
        texts.setdefault((schema, table, *columns), []).append(values)
    groups = {
        table: KeyBatch(np.array(places[table]), list(zip(*of_table, strict=True)))
        for table, of_table in texts.items()
    }
    return _Groups(groups, refused)


def _convert_keys(
    query: Query, texts: KeyBatch, names: Sequence[str], answers: Answers
) -> KeyBatch:
    """Converts the texts of keys to values; refuses those that have no value of the column's type."""
    try:
        return KeyBatch(texts.places, query.keys(texts.columns))
    except ValueError:
        places: list[int] = []
        values: list[Keys] = []
    rows = zip(*map(texts_of, texts.columns), strict=True)
    for place, row in zip(texts.places.tolist(), rows, strict=True):
        try:
            values.append(query.keys([[text] for text in row]))
        except ValueError as problem:  # KeyValueError, and numbers of too many digits
            detail = f"key column {', '.join(names)}: {problem}: fix the key in the event"
            answers.others[place] = RefusedLookup(Reason.DATABASE_REFUSED, detail)
        else:
            places.append(place)
    columns = [[column[0] for column in of_key] for of_key in zip(*values, strict=True)]
    return KeyBatch(np.array(places, np.int64), columns)


def _unknown_column(relation: Relation, column: str) -> RefusedLookup:
    known = ", ".join(relation.table.key or relation.types)
    return RefusedLookup(
        Reason.TABLE_KEY,
        f"{relation.table.name} has no column {column!r}: fix the key, which may name {known}",
    )
