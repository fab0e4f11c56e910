"""Look-ups of current rows for query-back events: the protocol and its answers.

``publisher.database.lookup`` implements ``Lookup`` with a database.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.model.change import Object, Reason

CurrentValue: TypeAlias = str | tuple[str, ...] | None
"""The value of a column, or all values of an attribute of a child table."""


class CurrentRow(NamedTuple):
    """The current row of an object, with the attributes of its child tables.

    ``columns`` are the names of all columns, the key included, in the order of the table and the
    spelling of the database, then the attributes of child tables; ``values`` are in the text form of
    the event log (event log columns, old_value and new_value), ``None`` for NULL.  Attributes of child
    tables have any number of values.
    """

    columns: tuple[str, ...]
    values: tuple[CurrentValue, ...]


class RefusedLookup(NamedTuple):
    """An answer for an object whose row cannot be read.

    ``detail`` describes the problem and ends with an instruction.
    """

    reason: Reason
    detail: str


Answer: TypeAlias = CurrentRow | RefusedLookup | None
"""The answer to a look-up; ``None`` if the row does not exist."""


class ObjectLookup(NamedTuple):
    """The look-up of an object for one of its polls, and the answer."""

    object: Object
    poll: int
    answer: Answer
    row_key: str | None = None
    """The key under which the row was read, if the key of the object changes."""


class CurrentRows(NamedTuple):
    """The current rows of objects of one table, column by column (see ``CurrentRow``).

    The keys of these objects name the same columns in the same order and spelling."""

    places: npt.NDArray[np.int64]
    """The place of each row's object among the objects of the look-up, in ascending order."""
    columns: tuple[str, ...]
    values: Sequence[pa.Array]
    """The values of each column: texts, or lists of texts."""

    @classmethod
    def of(cls, rows: Mapping[int, CurrentRow]) -> CurrentRows:
        """Collects rows with the same columns by the places of their objects, in ascending order."""
        values = zip(*(row.values for row in rows.values()), strict=True)
        columns = next(iter(rows.values())).columns
        return cls(np.array([*rows], np.int64), columns, [*map(_array_of, values)])

    def select(self, rows: npt.NDArray[np.int64]) -> CurrentRows:
        """Returns some of the rows by their indexes."""
        if np.array_equal(rows, np.arange(len(self.places))):
            return self
        values = [column.take(pa.array(rows)) for column in self.values]
        return CurrentRows(self.places[rows], self.columns, values)

    def answers(self) -> Iterator[tuple[int, CurrentRow]]:
        """Yields the rows one by one, each with the place of its object."""
        rows = map(
            CurrentRow, repeat(self.columns), zip(*map(_values_of, self.values), strict=True)
        )
        return zip(self.places.tolist(), rows, strict=True)


def _array_of(values: Sequence[CurrentValue]) -> pa.Array:
    """Converts the values of a column; those of attributes of child tables are all tuples."""
    is_list = isinstance(values[0], tuple)
    return pa.array(values, pa.list_(pa.string()) if is_list else pa.string())


def _values_of(column: pa.Array) -> Sequence[CurrentValue]:
    values = column.to_pylist()
    return [*map(tuple, values)] if pa.types.is_list(column.type) else values


class Answers(NamedTuple):
    """The answers to the look-up of several objects; each answer has the place of its object."""

    rows: list[CurrentRows]
    others: dict[int, RefusedLookup | None]


class RowLookups(NamedTuple):
    """The look-ups of objects whose keys do not change, each for a poll, and their rows in the same order."""

    objects: pa.RecordBatch
    """Schema, table and key of each object."""
    polls: npt.NDArray[np.int64]
    columns: tuple[str, ...]
    values: Sequence[pa.Array]
    """The values of each column: texts, or lists of texts."""


NamedColumns: TypeAlias = Mapping[int, Collection[str]]
"""The columns that suffice for an object, by its place among the objects of a look-up: of its child tables
only those that these columns need are read.  Other objects are read whole."""
NO_NAMED_COLUMNS: NamedColumns = MappingProxyType({})


class Lookup(Protocol):
    """Reads the current rows of objects."""

    def read(self, objects: pa.RecordBatch, named: NamedColumns = NO_NAMED_COLUMNS) -> Answers:
        """Reads the current rows of the objects, a batch with schemas, tables and keys."""


class NoDatabase:
    """The look-up of a run without a database: refuses every object."""

    def read(
        self,
        objects: pa.RecordBatch,
        named: NamedColumns = NO_NAMED_COLUMNS,  # noqa: ARG002
    ) -> Answers:
        """Returns a refusal for each of the objects."""
        return Answers([], dict.fromkeys(range(objects.num_rows), _NO_DATABASE))


_NO_DATABASE = RefusedLookup(
    Reason.NO_DATABASE,
    "the event reads the current row and no database is set: give --database URL or [database] url",
)
NO_DATABASE = NoDatabase()
