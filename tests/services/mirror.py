"""A consumer of the topic: applies documents to a second table, which must end as the first one is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from publisher.consumer import (
    Add,
    AddValue,
    AttributeChange,
    Delete,
    Inbox,
    Modify,
    ModifyAssociation,
    Operation,
    Origin,
    RemoveAllValues,
    RemoveValue,
    Value,
    ValueType,
    from_record,
)
from publisher.model.keys import parse
from tests.services.databases import Place
from tests.services.topics import Record

Change = tuple[sa.Connection, Any]
"""A connection, and the condition that finds the changed row."""


class Mirror:
    """The second table.

    A strict one fails on what cannot be in a log of values: a change of a row that is not there, an
    insert of one that is, a value to remove that the row has not.
    """

    def __init__(self, place: Place, table: str, *, strict: bool) -> None:
        self._name, self._strict = f"{table}_mirror", strict
        self._engine = place.engine
        self._inbox = Inbox()
        place.execute(f"CREATE TABLE {self._name} (LIKE {table} INCLUDING INDEXES)")
        self._table = sa.Table(self._name, sa.MetaData(), autoload_with=self._engine)

    def apply(self, records: Iterable[Record]) -> int:
        """Applies records of one topic in the order of their partitions; returns their number."""
        count = 0
        with self._engine.begin() as connection:
            for record in records:
                count += 1
                origin = Origin(f"topic/{record.partition}", record.offset)
                arrived = from_record(record.value, record.key, record.headers, origin)
                for delivery in self._inbox.accept(arrived):
                    for operation in delivery.operations:
                        self._operation(connection, operation)
        return count

    def differences(self, table: str) -> list[Any]:
        """Rows that only one of the two tables has."""
        assert not self._inbox.held
        with self._engine.connect() as connection:
            found: list[Any] = []
            for one, other in ((table, self._name), (self._name, table)):
                statement = f"SELECT * FROM {one} EXCEPT SELECT * FROM {other}"
                found += [(one, *row) for row in connection.execute(sa.text(statement))]
            return found

    def _key(self, association: str) -> dict[str, sa.ColumnElement[Any]]:
        key = association.rpartition(",schema=")[0].rpartition(",table=")[0]
        return {part.column: self._cast(part.column, part.value) for part in parse(key)}

    def _where(self, association: str) -> sa.ColumnElement[bool]:
        key = self._key(association)
        return sa.and_(*(self._table.c[name] == value for name, value in key.items()))

    def _operation(self, connection: sa.Connection, operation: Operation) -> None:
        old = operation.old if isinstance(operation, ModifyAssociation) else operation.association
        where = self._where(old)
        found = connection.execute(sa.select(self._table).where(where)).first()
        if self._strict:
            assert (found is None) == isinstance(operation, Add), operation
        match operation:
            case Delete():
                connection.execute(self._table.delete().where(where))
            case ModifyAssociation(_, new):
                connection.execute(self._table.update().where(where).values(self._key(new)))
            case Add(key, _, changes) | Modify(key, _, changes):
                if found is None:
                    connection.execute(self._table.insert().values(self._key(key)))
                for name, group in groupby(changes, attrgetter("attribute")):
                    self._attribute((connection, where), name, list(group))

    def _cast(self, name: str, value: Any) -> Any:
        """The database makes its own of a text."""
        if isinstance(value, bytes):
            return value
        return sa.cast(sa.literal(value, sa.Text()), self._table.c[name].type)

    def _attribute(self, row: Change, name: str, changes: list[AttributeChange]) -> None:
        """Changes a column by one value after the other: a document may change one twice."""
        connection, where = row
        value: Any = None
        for place, change in enumerate(changes):
            given = None if isinstance(change, RemoveAllValues) else to_column(change.value)
            if self._strict:
                removed = given if isinstance(change, RemoveValue) else None
                if place:
                    assert value == removed, changes
                else:
                    self._check(row, name, removed)
            value = given if isinstance(change, AddValue) else None
        value = None if value is None else self._cast(name, value)
        connection.execute(self._table.update().where(where).values({name: value}))

    def _check(self, row: Change, name: str, value: Any) -> None:
        """Fails unless the row has this value."""
        connection, where = row
        column = self._table.c[name]
        is_old = column.is_(None) if value is None else column == self._cast(name, value)
        asked = sa.select(sa.func.count()).where(where, is_old)
        assert connection.execute(asked).scalar() == 1, (name, value)


def to_column(value: Value) -> Any:
    """Returns what the table takes for a value: bytes, or text that it casts."""
    return value.native if value.type is ValueType.OCTET else value.text
