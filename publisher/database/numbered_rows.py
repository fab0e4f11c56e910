"""The rows of queries by key, column by column, and their conversion to answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.model.change import Reason
from publisher.planning.query_back import Answer, Answers, CurrentRow, CurrentRows, RefusedLookup

Values: TypeAlias = tuple[Any, ...]
"""The values of a key, in the order of its columns."""

Keys: TypeAlias = Sequence[Sequence[Any] | pa.StringArray]
"""The values of keys, column by column."""

Texts: TypeAlias = tuple[str | None, ...]
"""The values of a row in the text form of the log, by column."""


class NumberedRows(NamedTuple):
    """Rows in the text form of the log, column by column."""

    numbers: npt.NDArray[np.int64]
    """The place of each row's key among the keys of the query, in ascending order."""
    values: Sequence[pa.Array]
    """The values of each column."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]], width: int) -> NumberedRows:
        """Converts rows of ``width`` columns, each after the number of its key."""
        columns = zip(*rows, strict=True) if rows else [()] * (1 + width)
        numbers, *texts = columns
        values = [pa.array(column, pa.string()) for column in texts]
        return cls(np.array(numbers, np.int64), values)

    def answers(self, count: int, columns: tuple[str, ...], table: str) -> Answers:
        """Answers ``count`` keys, each of which must have one row; the columns are those of the table."""
        rows = np.bincount(self.numbers, minlength=count)
        others: dict[int, RefusedLookup | None] = dict.fromkeys(np.flatnonzero(rows == 0).tolist())
        several = RefusedLookup(
            Reason.DATABASE_REFUSED,
            f"several rows of {table} have this key: add columns to the key that make it unique",
        )
        others |= dict.fromkeys(np.flatnonzero(rows > 1).tolist(), several)
        numbers, values = self
        if (rows > 1).any():
            is_single = rows[numbers] == 1
            numbers = numbers[is_single]
            values = [column.filter(pa.array(is_single)) for column in values]
        return Answers([CurrentRows(numbers, columns, values)] if len(numbers) else [], others)

    def by_key(self, keys: int) -> list[list[Texts]]:
        """Groups the rows by the places of their keys, up to, but not including, ``keys``."""
        found: list[list[Texts]] = [[] for _ in range(keys)]
        columns = (column.to_pylist() for column in self.values)
        for number, texts in zip(self.numbers.tolist(), zip(*columns, strict=True), strict=True):
            found[number].append(texts)
        return found


def select_keys(keys: Keys, numbers: Sequence[int]) -> Keys:
    """Returns some of the keys by their numbers."""
    return [
        column.take(pa.array(numbers, pa.int64()))
        if isinstance(column, pa.Array)
        else [column[number] for number in numbers]
        for column in keys
    ]


def texts_of(column: Sequence[str] | pa.StringArray) -> Sequence[str]:
    """Returns the texts of a column as Python's."""
    return column.to_pylist() if isinstance(column, pa.Array) else column


def by_column(answers: Sequence[Answer]) -> Answers:
    """Converts the answers for the keys of a query, which are in the order of the keys."""
    rows: dict[int, CurrentRow] = {}
    others: dict[int, RefusedLookup | None] = {}
    for number, answer in enumerate(answers):
        if isinstance(answer, CurrentRow):
            rows[number] = answer
        else:
            others[number] = answer
    return Answers([CurrentRows.of(rows)] if rows else [], others)
