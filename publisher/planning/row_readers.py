"""Reads the current rows that polls of objects need, each row once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from publisher.model.change import QUERY_BACK, ROW_QUERY_BACK, Change, Object
from publisher.planning.query_back import (
    NO_DATABASE,
    Answer,
    Answers,
    BulkLookup,
    NamedColumns,
)


class RowQuestion(NamedTuple):
    """A question for the current row of an object, for one of its polls."""

    row: Object
    """The object under the key that it has after all changes of its key."""
    columns: Collection[str] | None
    """The columns that suffice (see ``NamedColumns``); ``None``: the whole row."""


def needed_columns(changes: Iterable[Change]) -> Collection[str] | None:
    """Returns the columns that query-backs name; ``None`` if one of them reads the whole row."""
    named: set[str] = set()
    for change in changes:
        if change.event_type in ROW_QUERY_BACK:
            return None
        if change.event_type in QUERY_BACK:
            named.update(change.columns)
    return named


class RowAnswers(Protocol):
    """Answers questions for rows."""

    def answers(self, questions: Sequence[RowQuestion]) -> Sequence[Answer]:
        """Answers each of the questions."""


class PresentRows:
    """The rows of a database; questions for the same row have one answer."""

    def __init__(self, lookup: BulkLookup) -> None:
        self._lookup = lookup

    def answers(self, questions: Sequence[RowQuestion]) -> Sequence[Answer]:
        """Answers each of the questions."""
        rows = list(dict.fromkeys(question.row for question in questions))
        answers: Mapping[Object, Answer] = self._lookup.answers(rows, _join_columns(questions))
        return [answers[question.row] for question in questions]

    def read(self, objects: pa.RecordBatch) -> Answers:
        """Reads whole rows of objects whose keys do not change, given by schema, table and key."""
        return self._lookup.read(objects)


def _join_columns(questions: Iterable[RowQuestion]) -> NamedColumns:
    """The columns that suffice for rows of which no question needs all."""
    named: dict[Object, set[str]] = {}
    whole = {question.row for question in questions if question.columns is None}
    for question in questions:
        if question.columns is not None and question.row not in whole:
            named.setdefault(question.row, set()).update(question.columns)
    return named


NO_ROWS = PresentRows(NO_DATABASE)
"""The answers without a database: query-backs are rejected."""
