"""Looks up current rows by their keys, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database import catalogue_of, failures, statements
from publisher.database.catalogue import Relation
from publisher.database.child_values import ClassReader, class_reader
from publisher.database.connection import Database, begin_snapshot, fatal
from publisher.database.statements import Query, Values
from publisher.database.view_objects import ViewQuery
from publisher.errors import TableRefusedError
from publisher.model import keys
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import Object, Reason
from publisher.planning.query_back import NO_NAMED_COLUMNS, Answer, NamedColumns, RefusedLookup

TextOf = Callable[[Any], str | None]


class KeyBatch(NamedTuple):
    """Objects of one table with the values of their keys, as statements need them."""

    objects: list[Object]
    values: list[Values]

    def part(self, start: int, end: int) -> KeyBatch:
        """Returns the keys from ``start`` up to, but not including, ``end``."""
        return KeyBatch(self.objects[start:end], self.values[start:end])


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
        text_of: TextOf,
        classes: Catalogue | None = None,
        snapshot: str | None = None,
    ) -> None:
        """``text_of`` converts a value of the driver to the log's text form.

        ``classes`` describes the child tables of objects; without it only rows are read.  ``snapshot`` is
        the shared snapshot of PostgreSQL to read; ``None`` reads the present rows."""
        self._database = database
        self._classes = classes
        self._readers: dict[Query, ClassReader] = {}
        self._text_of = text_of
        self._snapshot = snapshot
        self._queries: dict[tuple[str | None, str, tuple[str, ...]], Query | RefusedLookup] = {}

    def answers(
        self, objects: Sequence[Object], named: NamedColumns = NO_NAMED_COLUMNS
    ) -> dict[Object, Answer]:
        """Returns an answer for each object."""
        answers: dict[Object, Answer] = {}
        batches: dict[ObjectQuery, KeyBatch] = {}
        for object_ in objects:
            try:
                query, values = self._query_and_values(object_)
            except _RefusedError as error:
                answers[object_] = error.refused
                continue
            object_query = self._object_query(query, named.get(object_))
            batch = batches.get(object_query)
            if batch is None:
                batch = batches[object_query] = KeyBatch([], [])
            batch.objects.append(object_)
            batch.values.append(values)
        for object_query, batch in batches.items():
            size = object_query.rows.max_keys(self._database.options.keys_per_statement)
            for start in range(0, len(batch.objects), size):
                self._read(object_query, batch.part(start, start + size), answers)
        return answers

    def _object_query(self, query: Query, columns: Collection[str] | None) -> ObjectQuery:
        reader = self._readers.get(query)
        if reader is not None and columns is not None:
            reader = reader.part(columns)
        return ObjectQuery(query, reader)

    def _query_and_values(self, object_: Object) -> tuple[Query, Values]:
        schema, table, key = object_
        try:
            parts = keys.parse(key)
        except keys.KeyProblem as problem:
            raise _RefusedError(Reason.TABLE_KEY, str(problem)) from None
        # keys of one part take a shortcut, because this code runs for each object
        first = parts[0]
        columns = (first[0],) if len(parts) == 1 else tuple([part[0] for part in parts])
        texts = (first[1],) if len(parts) == 1 else tuple([part[1] for part in parts])
        query = self._queries.get((schema, table, columns))
        if query is None:
            query = self._queries[schema, table, columns] = self._query(schema, table, columns)
        if isinstance(query, RefusedLookup):
            raise _RefusedError(*query)
        try:
            return query, query.key(texts)
        except ValueError as problem:  # KeyValueError, and numbers of too many digits
            detail = f"{problem}: fix the key in the event"
            raise _RefusedError(Reason.DATABASE_REFUSED, detail) from None

    def _query(
        self, schema: str | None, name: str, columns: tuple[str, ...]
    ) -> Query | RefusedLookup:
        try:
            relation = catalogue_of(self._database).relation(schema, name)
        except TableRefusedError as refused:
            return RefusedLookup(Reason.DATABASE_REFUSED, refused.message)
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
            return RefusedLookup(Reason.DATABASE_REFUSED, refused.message)

    def _query_of_class(
        self, relation: Relation, columns: tuple[str, ...], table: Table | None
    ) -> Query | RefusedLookup:
        """Creates the query for objects of a class, or for rows of a single table.

        Raises ``TableRefusedError`` if the database does not have the class as it is described."""
        view = None if table is None else table.view_columns
        names = [relation.column(view.written(name) if view else name) for name in columns]
        if None in names:
            return _unknown_column(relation, columns[names.index(None)])
        dialect = self._database.engine.dialect
        key = tuple(name for name in names if name is not None)
        query = statements.query(dialect, relation, key, self._text_of)
        if table is None:
            return query
        if view is not None:
            return ViewQuery(query, table, view)
        reader = class_reader(catalogue_of(self._database), dialect, table, self._text_of)
        if reader is not None:
            self._readers[query] = reader
        return query

    def _read(self, query: ObjectQuery, batch: KeyBatch, answers: dict[Object, Answer]) -> None:
        """Answers a batch; halves it if single rows make the statement fail."""
        rows_query, reader = query

        def read(connection: Connection) -> list[Answer]:
            if self._snapshot is not None:
                from publisher.database.copy import join_snapshot  # noqa: PLC0415 - needs psycopg

                join_snapshot(connection, self._snapshot)
            elif reader is not None:
                begin_snapshot(connection)
            if reader is None:
                return rows_query.rows(connection, batch.values)
            return reader.complete(connection, rows_query.rows(connection, batch.values))

        try:
            rows = self._database.run(read)
        except (DBAPIError, ValueError, OverflowError) as error:
            self._handle_failure(query, batch, error, answers)
        else:
            answers.update(zip(batch.objects, rows, strict=True))

    def _handle_failure(
        self, query: ObjectQuery, batch: KeyBatch, error: Exception, answers: dict[Object, Answer]
    ) -> None:
        if isinstance(error, DBAPIError) and failures.is_missing_permission(error):
            answers.update(dict.fromkeys(batch.objects, self._refuse_table(query.rows, error)))
            return
        if not failures.is_data_error(error):
            assert isinstance(error, DBAPIError)
            raise fatal(self._database, error, f"Reading rows of {query.rows.name}") from error
        size = len(batch.objects)
        if size > 1 and not failures.concerns_statement(error):
            self._read(query, batch.part(0, size // 2), answers)
            self._read(query, batch.part(size // 2, size), answers)
            return
        refused = RefusedLookup(
            Reason.DATABASE_REFUSED,
            f"reading the row of {query.rows.name} failed: {failures.message_of(error)}: fix the row, "
            "the view or the key",
        )
        answers.update(dict.fromkeys(batch.objects, refused))

    def _refuse_table(self, query: Query, error: DBAPIError) -> RefusedLookup:
        return RefusedLookup(
            Reason.DATABASE_REFUSED,
            f"reading table {query.name} of {self._database.name} failed: "
            f"{self._database.redact(error)}: grant the user SELECT on it, or exclude "
            "the table",
        )


class _RefusedError(Exception):
    """The key of an object is wrong, so that its row cannot be looked up."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.refused = RefusedLookup(reason, detail)


def _unknown_column(relation: Relation, column: str) -> RefusedLookup:
    known = ", ".join(relation.table.key or relation.types)
    return RefusedLookup(
        Reason.TABLE_KEY,
        f"{relation.table.name} has no column {column!r}: fix the key, which may name {known}",
    )
