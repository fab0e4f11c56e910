"""Ranges of rows by a column whose texts have one fixed form, so that they are ordered as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, not_, or_, select, types
from sqlalchemy import case as case_of

from publisher.database.catalogue import Relation, sql_column, sql_table_of


@dataclass(frozen=True, slots=True)
class Span:
    """Rows whose value has the form, is greater than ``after`` (if set) and not greater than ``upto``."""

    column: str
    form: str
    """Regular expression with the same meaning in PostgreSQL, MariaDB and Python."""
    after: str | None
    upto: str
    others: bool
    """Includes rows whose value has another form or is NULL."""


@dataclass(frozen=True, slots=True)
class TableExtent:
    """The extent of a table at one moment."""

    greatest: str | None
    """Greatest value of the form."""
    rows: int
    """Number of rows with a value of the form."""
    before: int
    """Number of rows with a value of the form that is not greater than a mark."""
    others: int
    """Number of rows with another value or NULL."""


class Bounds(NamedTuple):
    """Conditions on the rows to read; a row must meet all of them.

    The column ``order`` has a value in [low, high), or NULL if ``low`` is ``None``; the column named first in
    ``where`` has the value named second; the row is in ``span``.  The rows are sorted by ``sort`` and limited
    to ``max_rows``.
    """

    order: str | None
    low: int | None
    high: int | None
    where: tuple[str, str] | None
    sort: str | None = None
    span: Span | None = None
    max_rows: int | None = None


def select_rows(
    relation: Relation, bounds: Bounds, items: Sequence[ColumnElement[Any]]
) -> Select[Any]:
    """Selects the rows of a table within bounds."""
    statement = select(*items).select_from(sql_table_of(relation))
    if bounds.where is not None:
        name, value = bounds.where
        wanted: ColumnElement[Any] = sql_column(name)
        if isinstance(relation.types[name], types.NullType):
            wanted = as_text(relation, name)  # SQLite compares no number with a text
        statement = statement.where(wanted == value)
    if bounds.order is not None:
        order = sql_column(bounds.order)
        if bounds.low is not None:
            statement = statement.where(order >= bounds.low)
        if bounds.high is not None:
            has_null = () if bounds.low is not None else (order.is_(None),)
            statement = statement.where(or_(order < bounds.high, *has_null))
    if bounds.span is not None:
        statement = statement.where(span_condition(bounds.span, relation))
    if bounds.sort is not None:
        statement = statement.order_by(sql_column(bounds.sort))
    return statement if bounds.max_rows is None else statement.limit(bounds.max_rows)


def span_condition(span: Span, relation: Relation) -> ColumnElement[bool]:
    """Returns the condition of a span, for a statement."""
    value, has_form = value_of(relation, span.column), fits(relation, span.column, span.form)
    inside = and_(has_form, value <= span.upto)
    if span.after is not None:
        inside = and_(inside, value > span.after)
    if not span.others:
        return inside
    return or_(inside, sql_column(span.column).is_(None), not_(has_form))


def extent_columns(
    relation: Relation, name: str, form: str, mark: str | None
) -> list[ColumnElement[Any]]:
    """Returns expressions for the fields of ``TableExtent``, in one pass over the table."""
    value, has_form = value_of(relation, name), fits(relation, name, form)
    rows = func.count(case_of((has_form, 1)))
    at_most = has_form if mark is None else and_(has_form, value <= mark)
    return [
        func.max(case_of((has_form, value))),
        rows,
        func.count(case_of((at_most, 1))),
        func.count() - rows,
    ]


def value_of(relation: Relation, name: str) -> ColumnElement[Any]:
    """Returns a column as text; without a cast if its type is text, so that an index can be used."""
    return sql_column(name) if is_text(relation, name) else as_text(relation, name)


def fits(relation: Relation, name: str, form: str) -> ColumnElement[bool]:
    """Returns the condition that the value of a column has a form."""
    return value_of(relation, name).regexp_match(form)


def as_text(relation: Relation, name: str) -> ColumnElement[Any]:
    """Returns a column as text; without a cast for user-defined types, whose owner may define casts."""
    value = sql_column(name)
    if name not in relation.user_types:
        return cast(value, Text)
    return case_of((func.pg_catalog.num_nulls(value) == 0, func.pg_catalog.concat(value)))


def is_text(relation: Relation, name: str) -> bool:
    """Returns whether a column has one of the database's own text types."""
    return isinstance(relation.types[name], types.String) and name not in relation.user_types
