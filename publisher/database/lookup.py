"""Current rows by their keys, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher.database import catalogue_of, failures, statements
from publisher.database.catalogue import Relation
from publisher.database.connection import Database, fatal
from publisher.database.statements import Query, Values
from publisher.errors import TableRefusedError
from publisher.model import keys
from publisher.model.change import Object, Reason
from publisher.planning.query_back import Answer, RefusedLookup

TextOf = Callable[[Any], str | None]


class Lot(NamedTuple):
    """Objects of one table, and for each the values of its key in the form that statements take."""

    objects: list[Object]
    values: list[Values]

    def cut(self, start: int, end: int) -> Lot:
        """A part of it."""
        return Lot(self.objects[start:end], self.values[start:end])


class DatabaseLookup:
    """The ``Lookup`` of a database: one statement for each table and lot of keys.

    A lot whose statement fails for the sake of single rows is halved until these stand alone; only
    they are refused.  A table that the database refuses to read refuses its own objects, not the run.
    Raises ``UnreachableError`` and ``FatalError``.
    """

    def __init__(self, database: Database, text_of: TextOf) -> None:
        """``text_of`` gives the log's text form of a value that the driver returns."""
        self._database = database
        self._text_of = text_of
        self._queries: dict[tuple[str | None, str, tuple[str, ...]], Query | RefusedLookup] = {}

    def answers(self, objects: Sequence[Object]) -> dict[Object, Answer]:
        """An answer for each of the objects."""
        answers: dict[Object, Answer] = {}
        lots: dict[Query, Lot] = {}
        for object_ in objects:
            try:
                query, values = self._asked(object_)
            except _RefusedError as error:
                answers[object_] = error.refused
                continue
            lot = lots.get(query)
            if lot is None:
                lot = lots[query] = Lot([], [])
            lot.objects.append(object_)
            lot.values.append(values)
        for query, lot in lots.items():
            most = query.most(self._database.options.keys_per_statement)
            for start in range(0, len(lot.objects), most):
                self._read(query, lot.cut(start, start + most), answers)
        return answers

    def _asked(self, object_: Object) -> tuple[Query, Values]:
        schema, table, key = object_
        try:
            parts = keys.parse(key)
        except keys.KeyProblem as problem:
            raise _RefusedError(Reason.TABLE_KEY, str(problem)) from None
        # most keys have one part, and this is done for each object
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
            detail = f"{problem}: mend the key in the event"
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
                f"{self._database.name} has no table or view {name!r}{where}: mend the event's "
                "table name, or name the right database and schema",
            )
        found = [relation.column(column) for column in columns]
        if None in found:
            return _unknown_column(relation, columns[found.index(None)])
        return statements.query(
            self._database.engine.dialect,
            relation,
            tuple(column for column in found if column is not None),
            self._text_of,
        )

    def _read(self, query: Query, lot: Lot, answers: dict[Object, Answer]) -> None:
        """Answers a lot; halved where the statement fails for single rows."""

        def read(connection: Connection) -> list[Answer]:
            return query.rows(connection, lot.values)

        try:
            found = self._database.run(read)
        except (DBAPIError, ValueError, OverflowError) as error:
            self._failed(query, lot, error, answers)
        else:
            answers.update(zip(lot.objects, found, strict=True))

    def _failed(
        self, query: Query, lot: Lot, error: Exception, answers: dict[Object, Answer]
    ) -> None:
        if isinstance(error, DBAPIError) and failures.is_refused_right(error):
            answers.update(dict.fromkeys(lot.objects, self._no_right(query, error)))
            return
        if not failures.is_data_error(error):
            assert isinstance(error, DBAPIError)
            raise fatal(self._database, error, f"Reading rows of {query.name}") from error
        size = len(lot.objects)
        if size > 1 and not failures.concerns_statement(error):
            self._read(query, lot.cut(0, size // 2), answers)
            self._read(query, lot.cut(size // 2, size), answers)
            return
        refused = RefusedLookup(
            Reason.DATABASE_REFUSED,
            f"reading the row of {query.name} failed: {failures.words(error)}: mend the row, "
            "the view or the key",
        )
        answers.update(dict.fromkeys(lot.objects, refused))

    def _no_right(self, query: Query, error: DBAPIError) -> RefusedLookup:
        return RefusedLookup(
            Reason.DATABASE_REFUSED,
            f"reading table {query.name} of {self._database.name} failed: "
            f"{self._database.scrubbed(error)}: give the database user the right to SELECT it, or "
            "exclude the table",
        )


class _RefusedError(Exception):
    """An object that is refused before its row is asked for."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.refused = RefusedLookup(reason, detail)


def _unknown_column(relation: Relation, column: str) -> RefusedLookup:
    known = ", ".join(relation.table.key or relation.types)
    return RefusedLookup(
        Reason.TABLE_KEY,
        f"{relation.table.name} has no column {column!r}: mend the key, which may name {known}",
    )
