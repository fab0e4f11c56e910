"""Values of columns as ``<value>`` elements, by the kind of the column.

The text form of values is the form of old_value and new_value in the event log: plain text, Base64 for binary
columns, ODBC canonical form for dates and times.  ``text_of`` converts values of database drivers to the
same form, so that logged and looked-up values are converted in the same way.
"""

from __future__ import annotations

import binascii
import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

from publisher.errors import refuse_options
from publisher.model.catalogue import ColumnKind
from publisher.model.change import Reason
from publisher.model.keys import BLANKS, integer_text
from publisher.xds.escape import FORBIDDEN as _FORBIDDEN
from publisher.xds.escape import (
    VERBATIM,
    VERBATIM_TRIMMED,
    ValueProblem,
    escape_permitted,
    needs_attention,
    refuse_forbidden,
    refuse_long,
)
from publisher.xds.times import TimeRange, Times, TimeSyntax, time_zone, zone_problems

__all__ = ["Converter", "ValueOptions", "ValueProblem", "Values", "text_of"]


@dataclass(frozen=True, slots=True)
class Converter:
    """Converts the text form of a value to its escaped element."""

    value_type: str
    content: Callable[[str], str]
    """The element's content.  Raises ``ValueProblem``."""
    verbatim: str | None
    """Regular expression (RE2) of texts that ``content`` leaves unchanged; ``None`` if there is none."""

    def __call__(self, text: str) -> str:
        """Converts a text to the element.  Raises ``ValueProblem``."""
        return f'<value type="{self.value_type}">{self.content(text)}</value>'

    def around(self, content: str) -> str:
        """Wraps content into the element."""
        return f'<value type="{self.value_type}">{content}</value>'


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """Form of values in documents."""

    forbidden: Literal["reject", "replace"] = "reject"
    """Handling of characters that XML 1.0 forbids: reject the record, or replace each of them by U+FFFD. In
    keys and names they are never replaced."""
    time_syntax: TimeSyntax = 1
    """Form of dates and times: 1 is whole seconds since 1970-01-01 UTC, 2 is canonical text, 3 is
    Java's text."""
    time_range: TimeRange = "32-bit"
    """Range of seconds for ``time_syntax = 1``; other values reject the record. ``32-bit`` is 1901
    to 2106 (signed or unsigned), ``unsigned`` 1970 to 2106, ``signed`` 1901 to 2038."""
    time_zone: str = "UTC"
    """IANA name of the time zone of dates and times without one."""
    trim_padding: bool = True
    """Remove the blanks with which the database pads columns of fixed width (CHAR)."""
    reference_text: Literal["association", "key", "empty"] = "association"
    """Text of references, whose attribute ``association-ref`` names their target: the association of
    the target, the key in it, or nothing."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError``."""
        refuse_options(zone_problems(self.time_zone))


class Values:
    """Creates the converters of columns, by the options of a run."""

    def __init__(self, options: ValueOptions, *, limits_length: bool = True) -> None:
        """``limits_length`` refuses values that parsers of XML refuse by default; JSON has no such limit."""
        self.options = options
        self.limits_length = limits_length
        times = Times(options.time_syntax, time_zone(options.time_zone), options.time_range)
        self._checked: dict[ColumnKind, Converter] = {
            ColumnKind.OCTET: Converter("octet", _octet, _VERBATIM_OCTET),
            ColumnKind.INT: Converter("int", _integer, r"^(?:0|-?[1-9][0-9]{0,17})$"),
            ColumnKind.STATE: Converter("state", _state, "^(?:true|false)$"),
            ColumnKind.DATE: Converter(times.value_type, times.date, None),
            ColumnKind.TIME: Converter(times.value_type, times.time, None),
            ColumnKind.TIMESTAMP: Converter(times.value_type, times.timestamp, None),
        }

    def converter(self, kind: ColumnKind | None, padded: bool = False) -> Converter:
        """Returns the converter of a column; a column of unknown kind (``None``) becomes a string.

        Decimals become strings, too: the directory has no syntax for fractions.
        """
        if kind in self._checked:
            return self._checked[kind]
        return _string(self.options.forbidden, padded and self.options.trim_padding)


def limit_length(converter: Converter, what: str) -> Converter:
    """Returns a converter that refuses values that parsers of XML refuse by default."""
    content = converter.content

    def limited(text: str) -> str:
        xml = content(text)
        refuse_long(xml, what)
        return xml

    return replace(converter, content=limited)


def _string(forbidden: Literal["reject", "replace"], trim: bool) -> Converter:
    def content(text: str) -> str:
        if needs_attention(text) is None:
            return text
        if forbidden == "reject":
            refuse_forbidden(
                text, "the value", 'fix it in the source, or set forbidden = "replace"'
            )
        else:
            text = _FORBIDDEN.sub("\ufffd", text)
        return escape_permitted(text)

    if trim:
        return Converter("string", lambda text: content(text.rstrip(" ")), VERBATIM_TRIMMED)
    return Converter("string", content, VERBATIM)


_BASE64 = re.compile(r"[A-Za-z0-9+/]*(?:[AQgw]==|[AEIMQUYcgkosw048]=)?").fullmatch
_VERBATIM_OCTET = (
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
)
_DROP_BLANKS = dict.fromkeys(map(ord, BLANKS))


def _octet(text: str) -> str:
    """Checks padded Base64 and removes blanks and line breaks, which encoders of databases insert.

    Any other fault shows that the value is damaged, even if only unused bits of its last character
    are set."""
    if _BASE64(text) is None:
        text = text.translate(_DROP_BLANKS)
    if len(text) % 4 or _BASE64(text) is None:
        raise ValueProblem(
            Reason.VALUE,
            f"{text[:40]!r} is not Base64 (length {len(text)}), but the column is binary: "
            "fix the trigger, or declare the column's type in [tables]",
        )
    return text


_INTEGER_DIGITS = 1000
"""Consumers read no longer integers."""


def _integer(text: str) -> str:
    number = integer_text(text)
    if number is None or len(number) > _INTEGER_DIGITS:
        raise ValueProblem(
            Reason.VALUE,
            f"{text[:40]!r} is not an integer: fix the trigger, or declare the column's type in [tables]",
        )
    return number


_STATES = MappingProxyType(
    {
        **dict.fromkeys(("1", "t", "true", "y", "yes"), "true"),
        **dict.fromkeys(("0", "f", "false", "n", "no"), "false"),
    }
)


def _state(text: str) -> str:
    state = _STATES.get(text) or _STATES.get(text.strip(BLANKS).lower())
    if state is None:
        raise ValueProblem(
            Reason.VALUE,
            f"{text[:40]!r} is not a boolean: write true or false, "
            "or declare the column's type in [tables]",
        )
    return state


def text_of(value: object) -> str | None:
    """Converts a database value to the text form of the event log; ``None`` for SQL NULL.

    Binary values become Base64, booleans ``true`` and ``false``, numbers plain digits, lists and JSON
    objects JSON text.  Dates and times become ISO text, with a blank between date and time and with the
    offset of values that have one.
    """
    if value is None:
        return None
    form = _TEXT_FORMS.get(type(value))
    if form is not None:
        return form(value)
    for known, known_form in _TEXT_FORMS.items():  # subclasses that drivers return
        if isinstance(value, known):
            return known_form(value)
    return str(value)


def _base64(value: bytes | bytearray | memoryview) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=text_of)


def _clock(value: dt.timedelta) -> str:
    """Converts a time of day of a MySQL driver to ``hh:mm:ss``, with its fraction."""
    sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
    minutes, seconds = divmod(value.days * 86_400 + value.seconds, 60)
    fraction = f".{value.microseconds:06d}" if value.microseconds else ""
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{fraction}"


# The order matters for derived classes: bool before int, datetime before date.
_TEXT_FORMS: dict[type, Callable[..., str]] = {
    str: str.__str__,
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    Decimal: lambda value: format(value, "f"),
    bytes: _base64,
    bytearray: _base64,
    memoryview: _base64,
    dt.datetime: lambda value: value.isoformat(" "),
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.timedelta: _clock,
    dict: _json,
    list: _json,
    tuple: _json,
}
