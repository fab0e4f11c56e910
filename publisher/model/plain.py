"""Converts typed objects to the plain values of JSON, and back: mappings, lists, text and numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, partial
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
    restored: T = _restore_value(_class_converter(kind), plain)
    return restored


Convert = Callable[[Any], Any]
"""Restores a value of one type, which is not ``None``."""


@cache
def _converter(hint: Any) -> Convert | None:
    """The conversion of values with a type hint; ``None`` if they stay as they are."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not NoneType]
        return _converter(members[0]) if len(members) == 1 else None
    if origin in (dict, Mapping):
        name, each = map(_converter, arguments)
        return partial(_restore_mapping, name, each)
    if origin is tuple and arguments[1:] != (...,):
        return partial(_restore_fixed, [*map(_converter, arguments)])
    if origin in (tuple, frozenset):
        item = None if arguments[0] in _SIMPLE else _converter(arguments[0])
        return origin if item is None else partial(_restore_collection, origin, item)
    return _class_converter(hint) if isinstance(hint, type) else None


def _class_converter(kind: Any) -> Convert | None:
    if issubclass(kind, tuple):
        return partial(_restore_named_tuple, kind)
    if issubclass(kind, Enum | PurePath):
        return kind  # type: ignore[no-any-return]
    if kind is int:
        return _restore_integer
    return partial(_restore_dataclass, kind) if is_dataclass(kind) else None


def _restore_value(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _restore_fixed(converters: Iterable[Convert | None], values: Iterable[Any]) -> Any:
    return tuple(map(_restore_value, converters, values))


def _restore_collection(kind: Convert, convert: Convert, values: Iterable[Any]) -> Any:
    return kind(None if value is None else convert(value) for value in values)


def _restore_mapping(name: Convert | None, item: Convert | None, value: Mapping[Any, Any]) -> Any:
    if name is None and item is None:
        return dict(value)
    return {_restore_value(name, key): _restore_value(item, each) for key, each in value.items()}


def _restore_named_tuple(kind: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _restore_dataclass(kind, value)
    return kind(*map(_restore_value, _converters(kind).values(), value))


def _restore_integer(value: Any) -> Any:
    return int(value) if isinstance(value, str) else value  # the keys of JSON objects are text


def _restore_dataclass(kind: Any, value: Mapping[str, Any]) -> Any:
    converters = _converters(kind).get
    return kind(**{name: _restore_value(converters(name), each) for name, each in value.items()})


@cache
def _converters(kind: Any) -> dict[str, Convert | None]:
    """The conversions of the fields of a class."""
    return {name: _converter(hint) for name, hint in get_type_hints(kind).items()}
