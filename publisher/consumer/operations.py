"""Typed operations of documents: values, changes of attributes, operations."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

_INTEGER = re.compile(r"-?[0-9]{1,1000}").fullmatch
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ValueType(StrEnum):
    """Attribute ``type`` of a value: a syntax of the directory."""

    STRING = "string"
    TELEPHONE = "teleNumber"
    INT = "int"
    STATE = "state"
    COUNTER = "counter"
    DN = "dn"
    INTERVAL = "interval"
    OCTET = "octet"
    TIME = "time"
    STRUCTURED = "structured"


_NUMBERS = frozenset({ValueType.INT, ValueType.COUNTER, ValueType.INTERVAL})
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ValueComponent:
    """A named part of a structured value."""

    name: str
    text: str
    association_ref: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an attribute; equal values have equal types, texts and references."""

    text: str
    type: ValueType | None = None
    """``None`` for text without a type."""
    association_ref: str | None = None
    """Association of the object that the value refers to, if it is a reference."""
    components: tuple[ValueComponent, ...] = ()

    @property
    def is_reference(self) -> bool:
        """Returns whether the value refers to another object."""
        return self.association_ref is not None

    @property
    def native(self) -> str | int | bool | bytes | datetime:
        """Converts the text to the Python type of the value: numbers, truth, bytes, times in UTC."""
        if self.type in _NUMBERS:
            return int(self.text)
        if self.type is ValueType.STATE:
            return self.text == "true"
        if self.type is ValueType.OCTET:
            return base64.b64decode(self.text)
        if self.type is ValueType.TIME:
            return _EPOCH + timedelta(seconds=int(self.text))
        return self.text

    def find_problem(self) -> str | None:
        """Describes why the text does not fit the type; ``None`` if it does."""
        type_, text = self.type, self.text
        if type_ in _NUMBERS and not _INTEGER(text):
            return "is not an integer"
        if type_ is ValueType.TIME and not (_INTEGER(text) and _EARLIEST <= int(text) <= _LATEST):
            return "is not a time in seconds"
        if type_ is ValueType.STATE and text not in ("true", "false"):
            return "is neither true nor false"
        if type_ is ValueType.OCTET and not _BASE64(text):
            return "is not Base64"
        return None


@dataclass(frozen=True, slots=True)
class AddValue:
    """Adds a value to an attribute; a value that is present stays as it is."""

    attribute: str
    value: Value


@dataclass(frozen=True, slots=True)
class RemoveValue:
    """Removes a value from an attribute, if it is present."""

    attribute: str
    value: Value


@dataclass(frozen=True, slots=True)
class RemoveAllValues:
    """Removes all values of an attribute."""

    attribute: str


AttributeChange = AddValue | RemoveValue | RemoveAllValues


@dataclass(frozen=True, slots=True)
class Add:
    """Creates an object with values; adds the values to an object that exists."""

    association: str
    class_name: str
    changes: tuple[AddValue, ...] = ()
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Modify:
    """Changes attributes in the given order; creates an object that does not exist."""

    association: str
    class_name: str
    changes: tuple[AttributeChange, ...] = ()
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Removes an object, if it exists."""

    association: str
    class_name: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ModifyAssociation:
    """Gives the object ``old`` the association ``new``; its class and values stay."""

    old: str
    new: str
    event_id: str | None = None


Operation = Add | Modify | Delete | ModifyAssociation
