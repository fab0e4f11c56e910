"""Determines the kinds of columns from their SQL types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import types
from sqlalchemy.dialects import mysql, postgresql

from publisher.model.catalogue import ColumnKind

Type = types.TypeEngine[Any]

_KINDS: tuple[tuple[type[Type], ColumnKind], ...] = (
    # the order matters for derived classes
    (types.Boolean, ColumnKind.STATE),
    (types.Integer, ColumnKind.INT),
    (mysql.YEAR, ColumnKind.INT),
    (mysql.BIT, ColumnKind.INT),
    (types.Float, ColumnKind.DECIMAL),
    (types.Numeric, ColumnKind.DECIMAL),
    (types.LargeBinary, ColumnKind.OCTET),
    (types.BINARY, ColumnKind.OCTET),
    (types.VARBINARY, ColumnKind.OCTET),
    (mysql.TINYBLOB, ColumnKind.OCTET),
    (mysql.MEDIUMBLOB, ColumnKind.OCTET),
    (mysql.LONGBLOB, ColumnKind.OCTET),
    (types.DateTime, ColumnKind.TIMESTAMP),
    (types.Date, ColumnKind.DATE),
    (types.Time, ColumnKind.TIME),
)


def base_type(type_: Type) -> Type:
    """Returns the type on which a domain is based."""
    while isinstance(type_, postgresql.DOMAIN):
        type_ = type_.data_type
    return type_


def column_kinds(types_: Mapping[str, Type], key: tuple[str, ...]) -> dict[str, ColumnKind]:
    """Returns the kind of each column."""
    # a key column has more values than true and false
    return {
        name: ColumnKind.INT if name in key and _is_small_boolean(type_) else kind_of(type_)
        for name, type_ in types_.items()
    }


def pads(type_: Type) -> bool:
    """Returns whether the database pads the values of this type with blanks."""
    return isinstance(type_, (types.CHAR, types.NCHAR))


def kind_of(type_: Type) -> ColumnKind:
    """Determines the kind of a column of this SQL type."""
    if _is_small_boolean(type_) or (isinstance(type_, mysql.BIT) and type_.length == 1):
        return ColumnKind.STATE
    if isinstance(type_, types.Numeric) and type_.scale == 0 and type_.precision:
        return ColumnKind.INT
    return next((kind for known, kind in _KINDS if isinstance(type_, known)), ColumnKind.STRING)


def _is_small_boolean(type_: Type) -> bool:
    """Recognises TINYINT(1), which MySQL and MariaDB use for BOOLEAN."""
    return isinstance(type_, mysql.TINYINT) and getattr(type_, "display_width", None) == 1
