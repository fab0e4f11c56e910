"""Rows of a log compared with those that a run has read, by their fingerprints."""

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
    column,
    literal_column,
    quoted_name,
    select,
)
from sqlalchemy.sql.dml import ReturningDelete, ReturningUpdate
from sqlalchemy.sql.selectable import Select

from publisher.database import copy
from publisher.database.catalogue import Relation
from publisher.database.connection import Database

Ids = npt.NDArray[np.int64]
_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RowCheck:
    """How rows are compared: the columns that make a fingerprint, record id first, as the database has
    them; the function that makes it; and the log's text form of a value that a driver returns."""

    columns: tuple[str, ...]
    fingerprints_of: Callable[[list[pa.Array]], Ids]
    text_of: Callable[[Any], str | None]


@dataclass(frozen=True, slots=True)
class Compared:
    """The rows that a statement gave: how many are those of the run, and the ids of the others."""

    same: int
    others: Ids


class RowReader:
    """Compares the rows that statements give with fingerprints."""

    def __init__(self, database: Database, relation: Relation, check: RowCheck) -> None:
        self._relation = relation
        self._check = check
        self.returns_rows = copy.serves(database)
        """Whether the rows that a statement changes are given back, and need not be locked before."""

    def compare(self, connection: Connection, statement: Any, known: Ids) -> Compared:
        """Compares the rows of a statement with the fingerprints ``known``, which ascend."""
        same, others = 0, [np.empty(0, np.int64)]
        for columns in self._rows(connection, statement):
            is_known = _contained(self._check.fingerprints_of(columns), known)
            same += int(is_known.sum())
            odd = columns[0].filter(pa.array(~is_known)).to_pylist()
            others.append(np.array([int(float(i)) if "." in i else int(i) for i in odd], np.int64))
        return Compared(same, np.unique(np.concatenate(others)))

    def returning(
        self, connection: Connection, statement: Any
    ) -> ReturningUpdate[Any] | ReturningDelete[Any]:
        """The statement that also gives back the rows which it changes."""
        found: ReturningUpdate[Any] | ReturningDelete[Any] = statement.returning(
            *self._items(connection)
        )
        return found

    def selecting(
        self, connection: Connection, table: TableClause, where: ColumnElement[bool]
    ) -> Select[Any]:
        """The statement that reads rows of the table as ``compare`` needs them."""
        return select(*self._items(connection)).select_from(table).where(where)

    def _items(self, connection: Connection) -> list[ColumnElement[Any]]:
        if not self.returns_rows:
            return [column(quoted_name(name, quote=True)) for name in self._check.columns]
        return [
            literal_column(copy.item_text(connection, self._relation, name))
            for name in self._check.columns
        ]

    def _rows(self, connection: Connection, statement: Any) -> Iterator[list[pa.Array]]:
        if self.returns_rows:
            compiled = statement.compile(connection, compile_kwargs={"literal_binds": True})
            words = str(compiled) % ()  # % stands doubled for the driver
            names = tuple(f"c{place}" for place in range(len(self._check.columns)))
            for batch in copy.results(connection, words, names, _BATCH_BYTES):
                yield batch.columns
            return
        rows = connection.execute(statement).all()
        if rows:
            text_of = self._check.text_of
            yield [
                pa.array(map(text_of, values), pa.string()) for values in zip(*rows, strict=True)
            ]


def _contained(found: Ids, known: Ids) -> npt.NDArray[np.bool_]:
    """Tell which values are among ``known``, which ascend."""
    if not len(known):
        return np.zeros(len(found), np.bool_)
    places = np.minimum(np.searchsorted(known, found), len(known) - 1)
    return np.asarray(known[places] == found, np.bool_)
