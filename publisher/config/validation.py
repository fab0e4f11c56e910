"""Makes options objects of plain values; pydantic checks types and bounds, every problem is collected.

pydantic calls an object's own check (``__post_init__``) only where all its values have the right type.
Where one has not, the own check runs here with every value that the wrong one could have been, and a
problem that none of them avoids is reported with the first ones.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import product
from math import prod
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

T = TypeVar("T")
Key = tuple[str | int, ...]
"""Where a setting stands: ``("sources", 0, "delimiter")``."""

_UNION_MEMBER = re.compile(r"(int|str|bool|float|constrained-|literal\[|function-)")
_LIST = 'should be a list in brackets, as ["A", "B"]'
_TABLE = 'should be a table, as { NAME = "VALUE" }'
_WORDS = {
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _TABLE,
    "mapping_type": _TABLE,
    "dataclass_type": _TABLE,
    "string_type": 'should be text in quotes, as "A"',
    "path_type": 'should be text in quotes, as "A"',
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "bool_type": "should be true or false",
    "string_too_short": "should not be empty",
    "too_short": "should not be empty",
}
"""What pydantic says in words of its own, by its kind of error."""
_SECRET = re.compile("url|pass|secret|token|jaas|sasl|key_file", re.IGNORECASE)

_COMBINATIONS = 256
"""Values of wrong settings that are tried together, at most; beyond, own checks are left out."""
_ANY_TEXT = "?"
"""Stands for a text that is missing."""


@dataclass(frozen=True, slots=True)
class Validation(Generic[T]):
    """The object that values gave, and what is wrong with them.

    Where something is wrong it has the values that are right and defaults for the others; ``None``
    where one without a default is wrong or missing.
    """

    value: T | None
    problems: Sequence[tuple[Key, str]] = ()
    names: Sequence[tuple[Key, str]] = ()
    """The tables in arrays that have a name, and it."""


def validate(kind: type[T], given: Mapping[str, object]) -> Validation[T]:
    """Makes an object of the dataclass ``kind``."""
    absent = _may_be_absent(kind)
    given = {
        name: None if value is False and name in absent else value for name, value in given.items()
    }
    try:
        return Validation(_typed(kind, given))
    except ValidationError as error:
        problems = list(_messages(error.errors(include_url=False), option_names(kind)))
    partial = _Partial(kind, given)
    reported = [key for key, _ in problems]
    problems += [
        (key, message)
        for key, message in partial.problems()
        if not any(key[: len(other)] == other for other in reported if other)
    ]
    return Validation(partial.value(), problems, list(_names_inside((), given)))


def _typed(hint: Any, value: object) -> Any:
    # By way of JSON: there pydantic's strict mode takes text for paths, enumerations and times,
    # lists for tuples, and still refuses "1" for 1.
    return TypeAdapter(hint).validate_json(json.dumps(value, default=_plain), strict=True)


class _Partial:
    """An object of which some values are wrong or missing."""

    def __init__(self, kind: type[Any], given: Mapping[str, object], place: Key = ()) -> None:
        self._kind = kind
        self._given = given
        self._place = place
        self._inside: list[_Partial] = []
        self._values: dict[str, Any] = {}
        self._open: dict[str, list[Any]] = {}
        hints = get_type_hints(kind, include_extras=True)
        defaults = option_defaults(kind)
        for name in option_names(kind):
            if name in given:
                self._take(name, hints[name])
            if name not in self._values and (name in given or name not in defaults):
                candidates = list(_candidates(hints[name]))
                if name in defaults:
                    candidates = [defaults[name], *(c for c in candidates if c != _ANY_TEXT)]
                self._open[name] = candidates

    def _take(self, name: str, hint: Any) -> None:
        value = self._given[name]
        item = _item_kind(hint)
        try:
            self._values[name] = _typed(hint, value)
        except ValidationError:
            if item is not None and isinstance(value, list):
                self._values[name] = tuple(self._items(name, item, value))

    def _items(self, name: str, item: type[Any], values: Sequence[object]) -> Iterator[Any]:
        """The items that are right."""
        for number, value in enumerate(values):
            try:
                yield _typed(item, value)
            except ValidationError:
                if isinstance(value, Mapping):
                    self._inside.append(_Partial(item, value, (*self._place, name, number)))

    def problems(self) -> Iterator[tuple[Key, str]]:
        """What own checks find, whatever the wrong values were meant to be."""
        for partial in self._inside:
            yield from partial.problems()
        if prod(map(len, self._open.values())) > _COMBINATIONS:
            return
        texts: list[list[str]] = []
        for values in product(*self._open.values()):
            try:
                self._kind(**self._values, **dict(zip(self._open, values, strict=True)))
            except ValueError as error:
                texts.append(str(error).splitlines())
            else:
                return
        if texts:
            common = [line for line in texts[0] if all(line in other for other in texts)]
            names = option_names(self._kind)
            yield from _own_messages(self._place, common, self._given, names)

    def value(self) -> Any:
        """The object with the values that are right and that its own check takes together."""
        defaults = option_defaults(self._kind)
        values = {name: value for name, value in self._values.items() if name not in defaults}
        made = self._made(values)
        for name in self._values:
            with_one = self._made({**values, name: self._values[name]})
            if with_one is not None:
                values, made = {**values, name: self._values[name]}, with_one
        return made

    def _made(self, values: Mapping[str, Any]) -> Any:
        try:
            return self._kind(**values)
        except (TypeError, ValueError):  # one without a default is missing, or it refuses them
            return None


def _item_kind(hint: Any) -> type[Any] | None:
    """The dataclass of which a type is a list; ``None`` for other types."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    item = get_args(hint)[0] if get_origin(hint) is tuple else None
    return item if isinstance(item, type) and is_dataclass(item) else None


def _candidates(hint: Any) -> Iterator[Any]:
    """Values that stand for all that a type allows; none where there are too many."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _candidates(arguments[0])
    elif origin is Literal:
        yield from arguments
    elif origin in (Union, UnionType):
        for member in arguments:
            yield from _candidates(member)
    elif hint is NoneType:
        yield None
    elif hint is bool:
        yield from (False, True)
    elif hint is str:
        yield _ANY_TEXT
    elif _item_kind(hint) is not None:
        yield ()


def option_names(kind: type) -> list[str]:
    """The names of a part's options."""
    return [field.name for field in fields(kind) if field.init]


def required_names(kind: type) -> list[str]:
    """The names of the options that have no default."""
    return [name for name in option_names(kind) if name not in option_defaults(kind)]


def option_defaults(kind: type) -> dict[str, object]:
    """The options that have a default, and it."""
    found: dict[str, object] = {}
    for field in fields(kind):
        if field.default is not MISSING:
            found[field.name] = field.default
        elif field.default_factory is not MISSING:
            found[field.name] = field.default_factory()
    return found


def _may_be_absent(kind: type) -> frozenset[str]:
    """Options that ``false`` leaves out, as TOML has no null: those that have a value by default."""
    hints = get_type_hints(kind)
    return frozenset(
        name
        for name, default in option_defaults(kind).items()
        if default is not None and NoneType in get_args(hints[name])
    )


def _plain(value: object) -> str:
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    return str(value)


def _names_inside(key: Key, value: object) -> Iterator[tuple[Key, str]]:
    """The tables in arrays that have a name, and it."""
    if isinstance(value, Mapping):
        for part, inner in value.items():
            yield from _names_inside((*key, part), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
                yield (*key, number), inner["name"]
            yield from _names_inside((*key, number), inner)


def _messages(errors: list[ErrorDetails], names: list[str]) -> Iterable[tuple[Key, str]]:
    """One message for each key: a value of several possible types has an error for each of them."""
    by_key: dict[Key, list[str]] = {}
    shown: dict[Key, str] = {}
    for error in errors:
        key = tuple(error["loc"])
        if error["type"] == "too_short" and any(_is_inside(other, key) for other in errors):
            continue  # only its wrong items are missing
        if error["type"] == "value_error":
            lines = error["msg"].removeprefix("Value error, ").splitlines()
            yield from _own_messages(key, lines, error["input"], names)
            continue
        if error["type"] == "missing":
            by_key[key] = ["is required"]
            continue
        if len(key) > 1 and _is_union_member(key[1]):
            key = key[:1]
        text = _words(error)
        by_key.setdefault(key, []).append(text)
        shown[key] = _shown(key, error["input"])
    for key, texts in by_key.items():
        yield key, " or ".join(dict.fromkeys(texts)) + shown.get(key, "")


def _words(error: ErrorDetails) -> str:
    least = error.get("ctx", {}).get("min_length", 1)
    if error["type"] in _WORDS and least == 1:
        return _WORDS[error["type"]]
    return error["msg"].removeprefix("Input ").removeprefix("String ")


def _is_inside(error: ErrorDetails, key: Key) -> bool:
    return len(error["loc"]) > len(key) and tuple(error["loc"][: len(key)]) == key


def _own_messages(
    key: Key, lines: Iterable[str], given: object, names: list[str]
) -> Iterator[tuple[Key, str]]:
    """The problems that options found themselves, one on each line: ``NAME: what is wrong``."""
    inside = given if key and isinstance(given, Mapping) else None
    for line in lines:
        text = line if inside is None else line.removeprefix(f"{inside.get('name')}: ")
        name, colon, rest = text.partition(": ")
        # of the options, or of those of a table inside them
        if colon and (name in names if not key else inside is not None and name in inside):
            yield (*key, name), rest
        else:
            yield key, text + _shown(key, given)


def _is_union_member(part: str | int) -> bool:
    """Whether pydantic names here the member of a union that it tried, not a key of ours."""
    return isinstance(part, str) and _UNION_MEMBER.match(part) is not None


def _shown(key: Key, value: object) -> str:
    if not isinstance(value, (str, int, float)) or any(_SECRET.search(str(part)) for part in key):
        return ""
    return f", not {json.dumps(value, ensure_ascii=False)}"
