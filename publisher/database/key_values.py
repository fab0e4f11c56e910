"""Converts key texts to values of their column's type."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from publisher.model.catalogue import ColumnKind
from publisher.model.keys import decimal_text, integer_text

_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})
_INT64 = range(-(1 << 63), 1 << 64)
"""From the least signed to the greatest unsigned integer of 64 bits."""


class KeyValueError(ValueError):
    """A key text that is not a value of its column's type."""


class KeyColumn(NamedTuple):
    """The conversions of a key column."""

    read: Callable[[str], Any]
    """Converts the text in a key to a statement's parameter; raises ``ValueError``."""
    same: Callable[[Any], Any]
    """Normalises parameters and the driver's results, so that equal values compare as equal."""


def key_column(kind: ColumnKind, *, padded: bool, sqlite: bool) -> KeyColumn:
    """Returns the conversions of a kind.  SQLite has no types for dates and fractions."""
    if kind is ColumnKind.STRING and padded:
        return KeyColumn(str, _strip_padding)
    return (_SQLITE if sqlite else {}).get(kind) or _COLUMNS[kind]


def base64_bytes(text: str) -> bytes:
    """Decodes Base64, the text form of binary columns."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error too
        raise KeyValueError(f"{_excerpt(text)} is not Base64") from None


def moment_text(text: str) -> str:
    """Returns the text of a date or time; refuses words such as ``now``, whose value changes."""
    if text[:1].isdigit() or text in ("infinity", "-infinity"):
        return text
    raise KeyValueError(f"{_excerpt(text)} is not a date or time")


def number_text(text: str) -> str:
    """Returns the text of a number, for a database that converts texts itself."""
    number = decimal_text(text)
    if number is None and text.lower() not in ("nan", "infinity", "-infinity"):
        raise KeyValueError(f"{_excerpt(text)} is not a number")
    return number if number is not None else text


def whole_text(text: str) -> str:
    """Returns the text of an integer."""
    number = integer_text(text)
    if number is None:
        raise KeyValueError(f"{_excerpt(text)} is not an integer")
    return number


def _integer(text: str) -> int | Decimal:
    number = int(whole_text(text))
    return number if number in _INT64 else Decimal(number)


def _sqlite_integer(text: str) -> int:
    number = int(whole_text(text))
    if not -(1 << 63) <= number < 1 << 63:
        raise KeyValueError(f"{_excerpt(text)} does not fit the 64 bits of SQLite's integers")
    return number


def _decimal(text: str) -> Decimal:
    number = decimal_text(text)
    if number is None:
        raise KeyValueError(f"{_excerpt(text)} is not a number")
    return Decimal(number)


def _decimal_as_text(text: str) -> str:
    return str(_decimal(text))


def _state(text: str) -> int:
    folded = text.lower()
    if folded not in _TRUE and folded not in _FALSE:
        raise KeyValueError(f"{_excerpt(text)} is neither true nor false")
    return int(folded in _TRUE)


def _sqlite_state(text: str) -> int:
    """Reads a boolean, or another number that a column of this type may have."""
    return _state(text) if text.lower() in _TRUE | _FALSE else _sqlite_integer(text)


def _moment(text: str) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(moment_text(text))
    except ValueError:
        raise KeyValueError(f"{_excerpt(text)} is not a timestamp") from None


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(moment_text(text))
    except ValueError:
        raise KeyValueError(f"{_excerpt(text)} is not a date") from None


def _time(text: str) -> dt.time:
    try:
        return dt.time.fromisoformat(moment_text(text))
    except ValueError:
        raise KeyValueError(f"{_excerpt(text)} is not a time") from None


def _same_integer(value: Any) -> Any:
    return value if isinstance(value, (int, Decimal)) else str(value)


def _same_decimal(value: Any) -> Any:
    return Decimal(str(value)) if isinstance(value, (int, float, str)) else value


def _same_state(value: Any) -> Any:
    return any(value) if isinstance(value, bytes) else bool(value)


def time_of_day(value: Any) -> Any:
    """Converts the time spans that PyMySQL returns for TIME to times of day if they are shorter than
    a day."""
    if isinstance(value, dt.timedelta) and dt.timedelta() <= value < dt.timedelta(days=1):
        return (dt.datetime(1, 1, 1) + value).time()  # noqa: DTZ001 - a time of day has no zone
    return value


def _identity(value: Any) -> Any:
    return value


def _strip_padding(value: Any) -> str:
    return str(value).rstrip(" ")


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


_COLUMNS = {
    ColumnKind.STRING: KeyColumn(str, str),
    ColumnKind.INT: KeyColumn(_integer, _same_integer),
    ColumnKind.DECIMAL: KeyColumn(_decimal, _same_decimal),
    ColumnKind.STATE: KeyColumn(_state, _same_state),
    ColumnKind.OCTET: KeyColumn(base64_bytes, bytes),
    ColumnKind.DATE: KeyColumn(_date, _identity),
    ColumnKind.TIME: KeyColumn(_time, time_of_day),
    ColumnKind.TIMESTAMP: KeyColumn(_moment, _identity),
}
_SQLITE = {
    ColumnKind.INT: KeyColumn(_sqlite_integer, _same_integer),
    ColumnKind.DECIMAL: KeyColumn(_decimal_as_text, _same_decimal),
    ColumnKind.STATE: KeyColumn(_sqlite_state, _same_integer),
    ColumnKind.DATE: KeyColumn(str, str),
    ColumnKind.TIME: KeyColumn(str, str),
    ColumnKind.TIMESTAMP: KeyColumn(str, str),
}
