"""Current rows by their keys, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from publisher import keys
from publisher.change import Object, Reason
from publisher.database import failures, statements
from publisher.database.catalogue import Relation
from publisher.database.connection import Database, fatal
from publisher.database.statements import KeyValueError, Query, Values
from publisher.query_back import Answer, Refused, Row

TextOf = Callable[[Any], str | None]


class Asked(NamedTuple):
    """An object and the values of its key in the form that the statement takes."""

    object: Object
    values: Values


class DatabaseLookup:
    """The ``Lookup`` of a database: one statement for each table and lot of keys.

    A lot whose statement fails for the sake of single rows is halved until these stand alone; only
    they are refused.  Raises ``UnreachableError``, and ``FatalError`` where the database refuses to
    read the table at all.
    """

    def __init__(self, database: Database, text_of: TextOf) -> None:
        """``text_of`` gives the log's text form of a value that the driver returns."""
        self._database = database
        self._text_of = text_of
        self._queries: dict[tuple[str | None, str, tuple[str, ...]], Query | Refused] = {}

    def answers(self, objects: Sequence[Object]) -> dict[Object, Answer]:
        """An answer for each of the objects."""
        answers: dict[Object, Answer] = {}
        lots: dict[int, tuple[Query, list[Asked]]] = {}
        for object_ in objects:
            asked = self._asked(object_)
            if isinstance(asked, Refused):
                answers[object_] = asked
                continue
            query, values = asked
            lots.setdefault(id(query), (query, []))[1].append(Asked(object_, values))
        for query, every in lots.values():
            for lot in _cut(every, query.most(self._database.options.keys_per_statement)):
                answers.update(self._read(query, lot))
        return answers

    def _asked(self, object_: Object) -> tuple[Query, Values] | Refused:
        try:
            parts = keys.parse(object_.key)
        except keys.KeyProblem as problem:
            return Refused(Reason.TABLE_KEY, str(problem))
        place = (object_.schema, object_.table, tuple(part.column for part in parts))
        query = self._queries.get(place)
        if query is None:
            query = self._queries[place] = self._query(*place)
        if isinstance(query, Refused):
            return query
        try:
            return query, query.key([part.value for part in parts])
        except KeyValueError as problem:
            return Refused(Reason.DATABASE_REFUSED, f"{problem}: mend the key in the event")

    def _query(self, schema: str | None, name: str, columns: tuple[str, ...]) -> Query | Refused:
        relation = self._database.catalogue().relation(schema, name)
        if relation is None:
            where = f" in schema {schema!r}" if schema is not None else ""
            return Refused(
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

    def _read(self, query: Query, lot: Sequence[Asked]) -> Iterator[tuple[Object, Answer]]:
        """The answers for a lot; halved where the statement fails for single rows."""
        try:
            found = self._rows(query, [asked.values for asked in lot])
        except (DBAPIError, ValueError, OverflowError) as error:
            yield from self._failed(query, lot, error)
            return
        for (object_, _), rows in zip(lot, found, strict=True):
            if len(rows) == 1:
                yield object_, rows[0]
            else:
                yield object_, (_several(query, len(rows)) if rows else None)

    def _rows(self, query: Query, values: Sequence[Values]) -> list[list[Row]]:
        def read(connection: Connection) -> list[list[Row]]:
            return query.rows(connection, values)

        return self._database.run(read)

    def _failed(
        self, query: Query, lot: Sequence[Asked], error: Exception
    ) -> Iterator[tuple[Object, Answer]]:
        if not failures.is_data_error(error):
            if isinstance(error, DBAPIError):
                raise fatal(self._database, error, f"Reading rows of {query.name}") from error
            raise error
        if len(lot) > 1 and not failures.concerns_statement(error):
            middle = len(lot) // 2
            yield from self._read(query, lot[:middle])
            yield from self._read(query, lot[middle:])
            return
        refused = Refused(
            Reason.DATABASE_REFUSED,
            f"reading the row of {query.name} failed: {failures.words(error)}: mend the row, "
            "the view or the key",
        )
        for object_, _ in lot:
            yield object_, refused


def _cut(every: Sequence[Asked], most: int) -> Iterator[Sequence[Asked]]:
    for start in range(0, len(every), most):
        yield every[start : start + most]


def _unknown_column(relation: Relation, column: str) -> Refused:
    known = ", ".join(relation.table.key or relation.types)
    return Refused(
        Reason.TABLE_KEY,
        f"{relation.table.name} has no column {column!r}: mend the key, which may name {known}",
    )


def _several(query: Query, count: int) -> Refused:
    return Refused(
        Reason.DATABASE_REFUSED,
        f"{count} rows of {query.name} have this key: name columns in the key that tell rows apart",
    )
