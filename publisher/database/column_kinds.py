"""Determines the kinds of columns from their SQL types."""

from __future__ import annotations

from typing import Any

from sqlalchemy import types
from sqlalchemy.dialects import postgresql

from publisher.model.catalogue import ColumnKind

Type = types.TypeEngine[Any]

_KINDS: tuple[tuple[type[Type], ColumnKind], ...] = (
    # the order matters for derived classes
    (types.Boolean, ColumnKind.STATE),
    (types.Integer, ColumnKind.INT),
    (types.Float, ColumnKind.DECIMAL),
    (types.Numeric, ColumnKind.DECIMAL),
    (types.LargeBinary, ColumnKind.OCTET),
    (types.BINARY, ColumnKind.OCTET),
    (types.VARBINARY, ColumnKind.OCTET),
    (types.DateTime, ColumnKind.TIMESTAMP),
    (types.Date, ColumnKind.DATE),
    (types.Time, ColumnKind.TIME),
)
_MYSQL_KINDS = {
    "YEAR": ColumnKind.INT,
    "BIT": ColumnKind.INT,
    "TINYBLOB": ColumnKind.OCTET,
    "MEDIUMBLOB": ColumnKind.OCTET,
    "LONGBLOB": ColumnKind.OCTET,
}


def mysql_name(type_: Type) -> str | None:
    """Returns the name of a type that only MySQL and MariaDB have, and ``None`` for other types.

    Goes by the module of the type: importing this dialect takes 9 ms, which users of other databases save.
    """
    kind = type(type_)
    return kind.__name__ if kind.__module__.startswith("sqlalchemy.dialects.mysql.") else None


def base_type(type_: Type) -> Type:
    """Returns the type on which a domain is based."""
    while isinstance(type_, postgresql.DOMAIN):
        type_ = type_.data_type
    return type_


def pads(type_: Type) -> bool:
    """Returns whether the database pads the values of this type with blanks."""
    return isinstance(type_, (types.CHAR, types.NCHAR))


def kind_of(type_: Type) -> ColumnKind:
    """Determines the kind of a column of this SQL type.

    TINYINT(1) is an integer, also if it was created as BOOLEAN: (1) is a display width.
    """
    name = mysql_name(type_)
    if name == "BIT" and getattr(type_, "length", None) == 1:
        return ColumnKind.STATE
    if name in _MYSQL_KINDS:
        return _MYSQL_KINDS[name]
    if isinstance(type_, types.Numeric) and type_.scale == 0 and type_.precision:
        return ColumnKind.INT
    return next((kind for known, kind in _KINDS if isinstance(type_, known)), ColumnKind.STRING)
