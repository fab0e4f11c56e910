"""Rows by a column of text of one fixed form, whose order is that of the text: a mark of what was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import sql
from sqlalchemy import ColumnElement, Text, and_, cast, column, func, not_, or_, quoted_name, types
from sqlalchemy import case as case_of

from publisher.database.catalogue import Relation


@dataclass(frozen=True, slots=True)
class Span:
    """Rows whose value has the form and lies after ``after`` (``None``: at any place) up to ``upto``;
    where ``others`` is set also those whose value has another form or is NULL."""

    column: str
    form: str
    """Regular expression that PostgreSQL, MariaDB and Python read alike."""
    after: str | None
    upto: str
    others: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What a table has in a moment."""

    greatest: str | None
    """The greatest value of the form."""
    rows: int
    """Rows with a value of the form."""
    before: int
    """Those of them that lie at or before a mark."""
    others: int
    """Rows with another value, or none."""


def condition(span: Span, relation: Relation) -> ColumnElement[bool]:
    """The condition of a statement."""
    value, formed = value_of(relation, span.column), fits(relation, span.column, span.form)
    inside = and_(formed, value <= span.upto)
    if span.after is not None:
        inside = and_(inside, value > span.after)
    named: ColumnElement[Any] = column(quoted_name(span.column, quote=True))
    return or_(inside, named.is_(None), not_(formed)) if span.others else inside


def copied(span: Span, relation: Relation) -> sql.Composed:
    """The same for PostgreSQL's COPY, which takes no parameters."""
    name = sql.Identifier(span.column)
    text = sql.SQL("CAST({} AS text)").format(name)
    if span.column in relation.made_types:
        # its own cast may be a function of the type's owner
        text = sql.SQL("pg_catalog.concat({})").format(name)
    value = name if _is_text(relation, span.column) else text
    fits = sql.SQL("{} ~ {}").format(text, sql.Literal(span.form))
    inside = sql.SQL("{} AND {} <= {}").format(fits, value, sql.Literal(span.upto))
    if span.after is not None:
        inside = sql.SQL("{} AND {} > {}").format(inside, value, sql.Literal(span.after))
    if not span.others:
        return sql.SQL("({})").format(inside)
    return sql.SQL("(({}) OR {} IS NULL OR NOT {})").format(inside, name, fits)


def seen(relation: Relation, name: str, form: str, mark: str | None) -> list[ColumnElement[Any]]:
    """What to select for the fields of ``Seen``, which one pass over the table gives."""
    value, formed = value_of(relation, name), fits(relation, name, form)
    rows = func.count(case_of((formed, 1)))
    at_most = formed if mark is None else and_(formed, value <= mark)
    return [
        func.max(case_of((formed, value))),
        rows,
        func.count(case_of((at_most, 1))),
        func.count() - rows,
    ]


def value_of(relation: Relation, name: str) -> ColumnElement[Any]:
    """A column as text."""
    named: ColumnElement[Any] = column(quoted_name(name, quote=True))
    # as it is where it is text, for an index to serve
    return named if _is_text(relation, name) else as_text(relation, name)


def fits(relation: Relation, name: str, form: str) -> ColumnElement[bool]:
    """The condition that the value of a column has a form."""
    return value_of(relation, name).regexp_match(form)


def as_text(relation: Relation, name: str) -> ColumnElement[Any]:
    """A column as text; of a type that somebody made by its output, for a cast may be a function of the
    type's owner."""
    named: ColumnElement[Any] = column(quoted_name(name, quote=True))
    if name not in relation.made_types:
        return cast(named, Text)
    return case_of((func.pg_catalog.num_nulls(named) == 0, func.pg_catalog.concat(named)))


def _is_text(relation: Relation, name: str) -> bool:
    return isinstance(relation.types[name], types.String) and name not in relation.made_types
