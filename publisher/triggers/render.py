"""Renders the SQL of an event log and its triggers from the template of a database.

A template calls ``statement`` with the description of each statement.  Names and other texts come into it
only through the filters ``name``, ``literal`` and ``dollar_quoted``, which quote them.  Texts in quotes may
contain anything, so the filters that arrange lines change nothing between quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlalchemy import types

from publisher.database.connection import TEXT_SETTINGS
from publisher.database.text_columns import mariadb_text, sqlite_text
from publisher.triggers.mariadb_cascades import MariadbCascades
from publisher.triggers.model import (
    DatabaseKind,
    LoggedTable,
    Statement,
    Style,
    TableRef,
    literal,
    object_name,
)

MARIADB_ROLE_BYTES = 80
_QUOTED = r"""('[^']*'|"[^"]*"|`[^`]*`)"""


def render(
    kind: DatabaseKind,
    log: TableRef,
    tables: Sequence[LoggedTable] = (),
    style: Style = Style.PER_FIELD,
    *,
    notifies: bool = False,
    removals: Sequence[TableRef] = (),
    cascades: MariadbCascades | None = None,
) -> list[Statement]:
    """Returns the statements that create a log, its role and the triggers of tables.

    ``removals`` are triggers to drop; MariaDB needs the ``cascades`` of the tables.
    """
    statements: list[Statement] = []

    def statement(
        description: str, *, is_of_writer: bool = False, caller: Callable[[], str]
    ) -> str:
        statements.append(Statement(description, _drop_blank_lines(caller()), is_of_writer))
        return ""

    _environment(kind).get_template(f"{kind}.sql.j2").render(
        cascades=cascades,
        log=log if kind is not DatabaseKind.SQLITE else TableRef(None, log.name),
        notifies=notifies,
        per_row=Style.PER_ROW,
        removals=removals,
        statement=statement,
        style=style,
        tables=tables,
        text_settings=TEXT_SETTINGS,
        writer=mariadb_writer(log),
    )
    return statements


def script(kind: DatabaseKind, statements: Iterable[Statement]) -> str:
    """Returns a script for the database's shell, which runs the statements in one transaction if it can."""
    texts = [statement.text for statement in statements]
    if kind is not DatabaseKind.MARIADB:
        return "\n".join(["BEGIN;\n", *(f"{text};\n" for text in texts), "COMMIT;\n"])
    mark = _unused_mark("$$", texts)
    return "\n".join(
        [f"DELIMITER {mark}\n", *(f"{text}{mark}\n" for text in texts), "DELIMITER ;\n"]
    )


def mariadb_writer(log: TableRef) -> str:
    """Returns the name of the role with whose rights the triggers of a log run in MariaDB."""
    return object_name(".".join(filter(None, log)), "writer", MARIADB_ROLE_BYTES)


@cache
def _environment(kind: DatabaseKind) -> Environment:
    """Returns the templates with the filters of a database."""

    def quote(name: str | TableRef) -> str:
        return kind.quote(name) if isinstance(name, str) else name.sql(kind)

    def own_name(table: str, purpose: str) -> str:
        return object_name(table, purpose, kind.name_bytes)

    environment = Environment(  # noqa: S701 - SQL is quoted by its own filters
        loader=PackageLoader("publisher.triggers"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["of_type"] = _is_of_type
    environment.filters |= {
        "any": _any,
        "dollar_quoted": _dollar_quoted,
        "each": lambda items, macro, *arguments: [macro(*arguments, item) for item in items],
        "flat": lambda sql: _replace_unquoted(r"\s*\n\s*", " ", sql.strip()),
        "indent": _indent,
        "literal": literal,
        "mariadb_text": mariadb_text,
        "name": quote,
        "object": lambda ref, purpose: TableRef(ref.schema, own_name(ref.name, purpose)),
        "object_name": own_name,
        "sqlite_text": sqlite_text,
        "where": lambda conditions: "".join(
            f"\n{'  AND' if place else 'WHERE'} {condition}"
            for place, condition in enumerate(conditions)
        ),
    }
    return environment


def _any(conditions: Sequence[str]) -> str:
    return conditions[0] if len(conditions) == 1 else f"({' OR '.join(conditions)})"


def _is_of_type(type_: types.TypeEngine[object], *names: str) -> bool:
    """Tests for types of SQLAlchemy by their names."""
    return isinstance(type_, tuple(getattr(types, name) for name in names))


def _dollar_quoted(body: str) -> str:
    mark = _unused_mark("$xds$", [body])
    return f"{mark}\n{body}{mark}"


def _unused_mark(mark: str, texts: Sequence[str]) -> str:
    """Returns a mark that does not occur in the texts: this one, or one with a number."""
    number = 0
    while any(mark in text for text in texts):
        number += 1
        mark = f"$xds{number}$"
    return mark


def _indent(sql: str, width: int) -> str:
    return " " * width + _replace_unquoted(r"\n(?=[^\n])", "\n" + " " * width, sql.strip("\n"))


def _drop_blank_lines(sql: str) -> str:
    return _replace_unquoted(r"\n[ \n]*(?=\n)", "", sql.strip("\n "))


def _replace_unquoted(pattern: str, replacement: str, sql: str) -> str:
    """Replaces a pattern outside quotes."""
    return re.sub(f"{_QUOTED}|{pattern}", lambda match: match[1] or replacement, sql)
