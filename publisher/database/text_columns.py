"""The text of a column's values as MariaDB and SQLite print it, in SQL.

Triggers log this text, and all queries read it, so a value has one text by every way.  Binary values are
read as they are, and become Base64.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Dialect, literal_column, types

from publisher.database.catalogue import Relation, sql_column
from publisher.database.column_kinds import Type, mysql_name
from publisher.model.catalogue import ColumnKind


def text_column(relation: Relation, name: str, dialect: Dialect) -> ColumnElement[Any]:
    """Returns a column of a table of MariaDB or SQLite as text, binary values as bytes."""
    type_, kind = relation.types[name], relation.table.columns[name]
    mark = '"' if dialect.name == "sqlite" else "`"
    value = mark + name.replace(mark, mark * 2) + mark  # SQLAlchemy doubles % in the whole text
    if dialect.name == "sqlite":
        return literal_column(_sqlite_item(value, type_, kind))
    if kind is ColumnKind.OCTET or isinstance(type_, types.String):
        return sql_column(name)
    return literal_column(mariadb_text(value, type_))


def mariadb_text(value: str, type_: Type) -> str:
    """Returns the SQL of the text of a value that is not binary."""
    number = f"{value} + 0" if mysql_name(type_) == "BIT" else value
    return f"CAST({number} AS CHAR)"


def sqlite_text(value: str, type_: Type, kind: ColumnKind) -> str:
    """Returns the SQL of the text of a value; of a binary one only if the column has a type."""
    if kind is ColumnKind.DECIMAL or isinstance(type_, types.NullType):
        return _number(value)
    return f"CAST({value} AS TEXT)"


def _sqlite_item(value: str, type_: Type, kind: ColumnKind) -> str:
    if kind is ColumnKind.OCTET:
        return f"CAST({value} AS BLOB)"
    text = sqlite_text(value, type_, kind)
    if isinstance(type_, types.NullType):
        return f"CASE typeof({value}) WHEN 'blob' THEN {value} ELSE {text} END"
    return text


def _number(value: str) -> str:
    """Returns the SQL of a number with enough digits to restore it; other values are unchanged."""
    text = f"CAST({value} AS TEXT)"
    exact = f"typeof({value}) <> 'real' OR CAST({text} AS REAL) = {value}"
    return f"CASE WHEN {exact} THEN {text} ELSE printf('%!.17g', {value}) END"
