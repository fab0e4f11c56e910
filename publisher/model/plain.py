"""Converts typed objects to the plain values of JSON, and back: mappings, lists, text and numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_SIMPLE = (str, int, float, bool, object)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass without copies of their values; a hook for ``json``, which cannot write it.

    Raises:
        TypeError: The value is no dataclass.
    """
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


_JSON = json.JSONEncoder(ensure_ascii=False, default=fields_of).encode


def to_lines(content: Mapping[str, Any]) -> str:
    """Writes a JSON object with one line for each of its values.

    Indenting inner values, too, takes five times as long.
    """
    lines = (f" {_JSON(name)}: {_JSON(value)}" for name, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def restore(kind: type[T], plain: Mapping[str, Any], *, complete: bool = False) -> T:
    """Restores a dataclass from the JSON form of its ``asdict``, by the types of its fields.

    Missing fields get their defaults; with ``complete`` a missing field raises ``KeyError``.  A value
    that does not fit its field may raise ``TypeError``, ``KeyError``, ``ValueError`` or
    ``AttributeError``; values are not checked further.
    """
    if complete and (missing := get_type_hints(kind).keys() - plain.keys()):
        raise KeyError(f"{kind.__name__} has no {min(missing)}")
    restored: T = _restore_class(kind, plain)
    return restored


def _restore(hint: Any, value: Any) -> Any:
    """Restores one value by its type hint; a value whose type needs no conversion is returned unchanged."""
    origin, arguments = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not NoneType]
        return _restore(members[0], value) if len(members) == 1 else value
    if origin in (tuple, frozenset, dict, Mapping):
        return _restore_collection(origin, arguments, value)
    return _restore_class(hint, value) if isinstance(hint, type) else value


def _restore_collection(origin: Any, arguments: tuple[Any, ...], value: Any) -> Any:
    if origin in (dict, Mapping):
        name, item = arguments
        return {_restore(name, key): _restore(item, each) for key, each in value.items()}
    if origin is tuple and arguments[1:] != (...,):
        return tuple(map(_restore, arguments, value))
    item = arguments[0]
    return origin(value) if item in _SIMPLE else origin(_restore(item, each) for each in value)


def _restore_class(kind: Any, value: Any) -> Any:
    if issubclass(kind, tuple):  # a named tuple
        hints = _hints(kind)
        if isinstance(value, Mapping):
            return kind(**{n: _restore(hints[n], v) for n, v in value.items()})
        return kind(*map(_restore, hints.values(), value))
    if issubclass(kind, Enum | PurePath):
        return kind(value)
    if kind is int and isinstance(value, str):  # the keys of JSON objects are text
        return int(value)
    return _restore_dataclass(kind, value) if is_dataclass(kind) else value


def _restore_dataclass(kind: Any, value: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    return kind(**{n: _restore(hints[n], v) if n in hints else v for n, v in value.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
