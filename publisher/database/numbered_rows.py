"""The rows of queries by key, column by column, and their conversion to answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from publisher.model.change import Reason
from publisher.planning.query_back import Answer, Answers, CurrentRow, CurrentRows, RefusedLookup

Values: TypeAlias = tuple[Any, ...]
"""The values of a key, in the order of its columns."""

Texts: TypeAlias = tuple[str | None, ...]
"""The values of a row in the text form of the log, by column."""


class NumberedRows(NamedTuple):
    """Rows in the text form of the log, column by column."""

    numbers: Sequence[int]
    """The place of each row's key among the keys of the query."""
    values: Sequence[Sequence[str | None]]
    """The values of each column."""

    def by_key(self, keys: int) -> list[list[Texts]]:
        """Groups the rows by the places of their keys, up to, but not including, ``keys``."""
        found: list[list[Texts]] = [[] for _ in range(keys)]
        for number, texts in zip(self.numbers, zip(*self.values, strict=True), strict=True):
            found[number].append(texts)
        return found


def by_column(answers: Sequence[Answer]) -> Answers:
    """Converts the answers for the keys of a query, which are in the order of the keys."""
    rows: dict[int, CurrentRow] = {}
    others: dict[int, RefusedLookup | None] = {}
    for number, answer in enumerate(answers):
        if isinstance(answer, CurrentRow):
            rows[number] = answer
        else:
            others[number] = answer
    if not rows:
        return Answers([], others)
    columns, values = zip(*rows.values(), strict=True)
    return Answers([CurrentRows([*rows], columns[0], [*zip(*values, strict=True)])], others)


def several_rows(name: str) -> RefusedLookup:
    """Returns the refusal of a key that has several rows."""
    return RefusedLookup(
        Reason.DATABASE_REFUSED,
        f"several rows of {name} have this key: add columns to the key that make it unique",
    )
