"""A consumer of the topic: applies documents to a second table, which must end as the first one is."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from lxml import etree

from publisher.model.keys import parse
from tests.services.databases import Place
from tests.services.topics import Record

CONVERTERS: Mapping[str, Callable[[str], Any]] = {"octet": base64.b64decode}
"""From the text of a value to what the table takes, by the type in the document; else the text."""


class Mirror:
    """The second table.

    A strict one fails on what cannot be in a log of values: a change of a row that is not there, an
    insert of one that is, a value to remove that the row has not.
    """

    def __init__(self, place: Place, table: str, *, strict: bool) -> None:
        self._name, self._strict = f"{table}_mirror", strict
        self._engine = place.engine
        place.execute(f"CREATE TABLE {self._name} (LIKE {table} INCLUDING INDEXES)")
        self._table = sa.Table(self._name, sa.MetaData(), autoload_with=self._engine)

    def apply(self, records: Iterable[Record]) -> int:
        """Applies records in their order; gives their number."""
        count = 0
        with self._engine.begin() as connection:
            for record in records:
                count += 1
                sent = etree.fromstring(record.value or b"").find("input")
                assert sent is not None
                for operation in sent:
                    key = operation.findtext("association")
                    assert key is not None
                    assert key.encode() == record.key
                    self._operation(connection, operation, self._where(key))
        return count

    def differences(self, table: str) -> list[Any]:
        """Rows that only one of the two tables has."""
        with self._engine.connect() as connection:
            found: list[Any] = []
            for one, other in ((table, self._name), (self._name, table)):
                statement = f"SELECT * FROM {one} EXCEPT SELECT * FROM {other}"
                found += [(one, *row) for row in connection.execute(sa.text(statement))]
            return found

    def _where(self, association: str) -> dict[str, str]:
        key = association.rpartition(",schema=")[0].rpartition(",table=")[0]
        return {part.column: part.value for part in parse(key)}

    def _operation(
        self, connection: sa.Connection, operation: etree._Element, key: dict[str, str]
    ) -> None:
        where = sa.and_(
            *(self._table.c[name] == self._cast(name, value) for name, value in key.items())
        )
        row = connection.execute(sa.select(self._table).where(where)).mappings().one_or_none()
        if operation.tag == "delete":
            assert row is not None or not self._strict, key
            connection.execute(self._table.delete().where(where))
            return
        if operation.tag == "add":
            assert row is None or not self._strict, key
        else:
            assert row is not None or not self._strict, key
        if row is None:
            typed = {name: self._cast(name, value) for name, value in key.items()}
            connection.execute(self._table.insert().values(typed))
        for element in operation.iterchildren("add-attr", "modify-attr"):
            self._attribute(connection, where, element)

    def _cast(self, name: str, value: Any) -> Any:
        """The database makes its own of a text."""
        if isinstance(value, bytes):
            return value
        return sa.cast(sa.literal(value, sa.Text()), self._table.c[name].type)

    def _attribute(self, connection: sa.Connection, where: Any, element: etree._Element) -> None:
        """Its values one after the other: a document may change one twice."""
        name = element.get("attr-name")
        assert name is not None
        value: Any = None
        for place, part in enumerate(element):
            if element.tag == "add-attr":
                value = value_of(part)
                continue
            given = None if part.tag == "remove-all-values" else value_of(part[0])
            if self._strict:
                removed = given if part.tag == "remove-value" else None
                if place:
                    assert value == removed, etree.tostring(element)
                else:
                    self._check(connection, where, name, removed)
            value = given if part.tag == "add-value" else None
        value = None if value is None else self._cast(name, value)
        connection.execute(self._table.update().where(where).values({name: value}))

    def _check(self, connection: sa.Connection, where: Any, name: str, value: Any) -> None:
        """Fails unless the row has this value."""
        column = self._table.c[name]
        is_old = column.is_(None) if value is None else column == self._cast(name, value)
        asked = sa.select(sa.func.count()).where(where, is_old)
        assert connection.execute(asked).scalar() == 1, (name, value)


def value_of(element: etree._Element) -> Any:
    """Returns the value of a column for a ``<value>``."""
    text = element.text or ""
    convert = CONVERTERS.get(element.get("type", ""))
    return text if convert is None else convert(text)
