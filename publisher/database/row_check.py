"""Compares rows of a log with the rows that a run has read, by their fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlalchemy import (
    ColumnElement,
    Connection,
    TableClause,
    literal_column,
    select,
)
from sqlalchemy.sql.dml import ReturningDelete, ReturningUpdate
from sqlalchemy.sql.selectable import Select

from publisher.database.catalogue import Relation
from publisher.database.connection import Database
from publisher.database.text_columns import text_column
from publisher.xds.values import text_of

Ids = npt.NDArray[np.int64]
_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RowCheck:
    """Columns and functions to compute fingerprints of rows."""

    columns: tuple[str, ...]
    """Columns of a fingerprint in the spelling of the database, the record id first."""
    fingerprints_of: Callable[[list[pa.Array]], Ids]


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Number of rows that the run has read (``same``), and the ids of other rows."""

    same: int
    others: Ids


class RowReader:
    """Compares the rows of statements with fingerprints."""

    def __init__(self, database: Database, relation: Relation, check: RowCheck) -> None:
        self._relation = relation
        self._check = check
        self.returns_rows = database.can_copy
        """True if statements return the rows that they change, so rows need not be locked first."""

    def compare(self, connection: Connection, statement: Any, known: Ids) -> RowComparison:
        """Compares the rows of a statement with the sorted fingerprints ``known``."""
        same, others = 0, [np.empty(0, np.int64)]
        for columns in self._rows(connection, statement):
            is_known = _is_among(self._check.fingerprints_of(columns), known)
            same += int(is_known.sum())
            ids = columns[0].filter(pa.array(~is_known)).to_pylist()
            others.append(np.array([int(float(i)) if "." in i else int(i) for i in ids], np.int64))
        return RowComparison(same, np.unique(np.concatenate(others)))

    def with_returning(
        self, connection: Connection, statement: Any
    ) -> ReturningUpdate[Any] | ReturningDelete[Any]:
        """Adds RETURNING for the rows that the statement changes."""
        returning: ReturningUpdate[Any] | ReturningDelete[Any] = statement.returning(
            *self._items(connection)
        )
        return returning

    def build_select(
        self, connection: Connection, table: TableClause, where: ColumnElement[bool]
    ) -> Select[Any]:
        """Returns the statement that reads rows of the table for ``compare``."""
        return select(*self._items(connection)).select_from(table).where(where)

    def _items(self, connection: Connection) -> list[ColumnElement[Any]]:
        if not self.returns_rows:
            return [
                text_column(self._relation, name, connection.dialect)
                for name in self._check.columns
            ]
        from publisher.database import copy  # noqa: PLC0415 - needs psycopg

        return [literal_column(copy.item_sql(self._relation, name)) for name in self._check.columns]

    def _rows(self, connection: Connection, statement: Any) -> Iterator[list[pa.Array]]:
        if self.returns_rows:
            from publisher.database import copy  # noqa: PLC0415 - needs psycopg

            text = copy.statement_text(connection, statement)
            names = tuple(f"c{place}" for place in range(len(self._check.columns)))
            for batch in copy.copy_statement(connection, text, names, _BATCH_BYTES):
                yield batch.columns
            return
        rows = connection.execute(statement).all()
        if rows:
            yield [
                pa.array(map(text_of, values), pa.string()) for values in zip(*rows, strict=True)
            ]


def _is_among(values: Ids, known: Ids) -> npt.NDArray[np.bool_]:
    """Flags the values that are among the sorted ``known``."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    order = np.argsort(values)
    ascending = values[order]  # sought in this order, each is near the one before
    places = np.minimum(np.searchsorted(known, ascending), len(known) - 1)
    flags = np.empty(len(values), np.bool_)
    flags[order] = known[places] == ascending
    return flags
