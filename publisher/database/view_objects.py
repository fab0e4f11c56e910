"""Reads the objects of views: the rows of a key are one object, whose attributes may have several values."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from publisher.database.numbered_rows import Keys, Texts, by_column
from publisher.database.statements import Query
from publisher.model.catalogue import Table
from publisher.model.change import Reason
from publisher.model.view_names import ViewColumns
from publisher.planning.query_back import Answer, Answers, CurrentRow, CurrentValue, RefusedLookup


class ViewQuery:
    """The ``Query`` of a view that is a class; its columns are the attributes."""

    def __init__(self, rows: Query, view: Table, columns: ViewColumns) -> None:
        """``rows`` reads the rows of the view by its key."""
        self.name = rows.name
        self.columns = tuple(columns.names)
        self.max_keys = rows.max_keys
        self.keys = rows.keys
        self.all_rows = rows.all_rows
        self._key = frozenset(view.key)
        self._attributes = [
            (attribute, rows.columns.index(name.written), name.is_multiple)
            for attribute, name in columns.names.items()
        ]

    def rows(self, connection: Connection, keys: Keys) -> Answers:
        """Reads the object of each key."""
        found = self.all_rows(connection, keys).by_key(len(keys[0]))
        return by_column([self._object_of(rows) for rows in found])

    def _object_of(self, rows: Sequence[Texts]) -> Answer:
        if not rows:
            return None
        current: list[CurrentValue] = []
        for attribute, place, is_multiple in self._attributes:
            values = sorted({value for row in rows if (value := row[place]) is not None})
            if is_multiple:
                current.append(tuple(values))
            elif len(values) > 1:
                return self._refuse(attribute, values)
            else:
                current.append(values[0] if values else None)
        return CurrentRow(self.columns, tuple(current))

    def _refuse(self, attribute: str, values: Sequence[str]) -> RefusedLookup:
        count = len(values)
        if attribute in self._key:
            return RefusedLookup(
                Reason.TABLE_KEY,
                f"view {self.name} has {count:,} keys that the database takes for this one:"
                f" {attribute} is {values[0]!r} and {values[1]!r}: give them one spelling",
            )
        return RefusedLookup(
            Reason.SEVERAL_VALUES,
            f"the rows of view {self.name} with this key have {count:,} values of {attribute}, which is "
            f"single-valued: name the column mv_{attribute}, or return one value for each key",
        )
