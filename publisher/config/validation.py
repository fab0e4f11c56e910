"""Makes options objects from plain values, and collects all problems; pydantic checks types and bounds.

pydantic calls an object's own check (``__post_init__``) only if all its values have the right type.
Otherwise this module repeats the check with every possible value in place of a wrong one.  If a problem
occurs with all of them, it is reported together with the wrong types.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
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
from pydantic_core import CoreSchema, ErrorDetails, PydanticKnownError
from pydantic_core.core_schema import any_schema, no_info_after_validator_function

from publisher.errors import OptionsError, SettingKey, SettingProblem

T = TypeVar("T")

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
"""Messages for pydantic's kinds of errors, in place of its own."""
_SECRET = re.compile("url|pass|secret|token|jaas|sasl|key_file", re.IGNORECASE)

_COMBINATIONS = 256
"""Maximum number of combinations of values that are tried in place of wrong settings; if there are
more, the object's own check is skipped."""
_ANY_TEXT = "?"
"""Replaces a missing text."""


class Choices:
    """Annotation of a text that must be one of ``names``, which may grow between validations."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def __get_pydantic_core_schema__(self, *_: object) -> CoreSchema:
        return no_info_after_validator_function(self._check, any_schema())

    def _check(self, value: Any) -> Any:
        names = list(self.names)
        if value not in names:
            *others, last = map(repr, names)
            raise PydanticKnownError(
                "literal_error", {"expected": f"{', '.join(others)} or {last}"}
            )
        return value


@dataclass(frozen=True, slots=True)
class Validation(Generic[T]):
    """The result of a validation: an object, and the problems of its values.

    If there are problems, the object has the correct values, and defaults in place of wrong ones; it is
    ``None`` if an option without default is wrong or missing.
    """

    value: T | None
    problems: Sequence[SettingProblem] = ()
    names: Sequence[tuple[SettingKey, str]] = ()
    """Names of tables in arrays, if they have a name."""


def validate(kind: type[T], given: Mapping[str, object]) -> Validation[T]:
    """Builds an object of the dataclass ``kind`` from given values."""
    if not given and not required_names(kind):
        return Validation(kind())
    optional = _optional_names(kind)
    given = {
        name: None if value is False and name in optional else value
        for name, value in given.items()
    }
    try:
        return Validation(_parse(kind, given))
    except ValidationError as error:
        problems = list(_problems_of_types(error.errors(include_url=False)))
    partial = _Partial(kind, given)
    reported = [problem.key for problem in problems]
    problems += [
        problem
        for problem in partial.problems()
        if not any(problem.key[: len(other)] == other for other in reported if other)
    ]
    return Validation(partial.value(), problems, list(_names_inside((), given)))


def _parse(hint: Any, value: object) -> Any:
    # for JSON, pydantic's strict mode accepts text as path, enumeration or time, and a list as
    # tuple, but still refuses "1" for 1
    text = json.dumps(value, default=_json_value)
    return _type_adapter(hint).validate_json(text, strict=True)


@cache  # building one takes a hundred times as long as using it
def _type_adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


class _Partial:
    """An object with wrong or missing values."""

    def __init__(
        self, kind: type[Any], given: Mapping[str, object], place: SettingKey = ()
    ) -> None:
        self._kind = kind
        self._given = given
        self._place = place
        self._nested: list[_Partial] = []
        self._values: dict[str, Any] = {}
        self._replacements: dict[str, list[Any]] = {}
        hints = get_type_hints(kind, include_extras=True)
        defaults = option_defaults(kind)
        for name in option_names(kind):
            if name in given:
                self._parse_option(name, hints[name])
            if name not in self._values and (name in given or name not in defaults):
                candidates = list(_candidates(hints[name]))
                if name in defaults:
                    candidates = [defaults[name], *(c for c in candidates if c != _ANY_TEXT)]
                self._replacements[name] = candidates

    def _parse_option(self, name: str, hint: Any) -> None:
        value = self._given[name]
        item = _item_kind(hint)
        try:
            self._values[name] = _parse(hint, value)
        except ValidationError:
            if item is not None and isinstance(value, list):
                self._values[name] = tuple(self._correct_items(name, item, value))

    def _correct_items(self, name: str, item: type[Any], values: Sequence[object]) -> Iterator[Any]:
        for number, value in enumerate(values):
            try:
                yield _parse(item, value)
            except ValidationError:
                if isinstance(value, Mapping):
                    self._nested.append(_Partial(item, value, (*self._place, name, number)))

    def problems(self) -> Iterator[SettingProblem]:
        """Yields the problems that the object's own check finds with every replacement of wrong options."""
        for partial in self._nested:
            yield from partial.problems()
        if prod(map(len, self._replacements.values())) > _COMBINATIONS:
            return
        results: list[list[SettingProblem]] = []
        for values in product(*self._replacements.values()):
            try:
                self._kind(**self._values, **dict(zip(self._replacements, values, strict=True)))
            except ValueError as error:
                results.append(list(_problems_of_check(self._place, error, self._given)))
            else:
                return
        for problem in results[0] if results else ():
            if all(problem in problems for problems in results):
                yield problem

    def value(self) -> Any:
        """Makes the object with as many correct values as its own check accepts together."""
        defaults = option_defaults(self._kind)
        values = {name: value for name, value in self._values.items() if name not in defaults}
        accepted = self._try(values)
        for name, value in self._values.items():
            extended = self._try({**values, name: value})
            if extended is not None:
                values, accepted = {**values, name: value}, extended
        return accepted

    def _try(self, values: Mapping[str, Any]) -> Any:
        try:
            return self._kind(**values)
        except (TypeError, ValueError):  # an option without default is missing, or a check fails
            return None


def _item_kind(hint: Any) -> type[Any] | None:
    """Returns the dataclass of the items if the type is a list of tables, else ``None``."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    item = get_args(hint)[0] if get_origin(hint) is tuple else None
    return item if isinstance(item, type) and is_dataclass(item) else None


def _candidates(hint: Any) -> Iterator[Any]:
    """Yields values that represent all values of a type; none if there are too many."""
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
    """Returns the names of the options of a class."""
    return [field.name for field in fields(kind) if field.init]


def required_names(kind: type) -> list[str]:
    """Returns the names of the options without default."""
    return [name for name in option_names(kind) if name not in option_defaults(kind)]


def option_defaults(kind: type) -> dict[str, object]:
    """Returns the defaults by option name."""
    defaults: dict[str, object] = {}
    for field in fields(kind):
        if field.default is not MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not MISSING:
            defaults[field.name] = field.default_factory()
    return defaults


def _optional_names(kind: type) -> frozenset[str]:
    """Returns the options with a default that may be ``None``: ``false`` unsets them in TOML."""
    hints = get_type_hints(kind)
    return frozenset(
        name
        for name, default in option_defaults(kind).items()
        if default is not None and NoneType in get_args(hints[name])
    )


def _json_value(value: object) -> str:
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    return str(value)


def _names_inside(key: SettingKey, value: object) -> Iterator[tuple[SettingKey, str]]:
    """Yields the names of tables in arrays, if they have a name."""
    if isinstance(value, Mapping):
        for part, inner in value.items():
            yield from _names_inside((*key, part), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
                yield (*key, number), inner["name"]
            yield from _names_inside((*key, number), inner)


def _problems_of_types(errors: list[ErrorDetails]) -> Iterator[SettingProblem]:
    """Yields one problem for each key, although pydantic reports an error for each possible type."""
    texts: dict[SettingKey, list[str]] = {}
    shown: dict[SettingKey, str] = {}
    for error in errors:
        key = tuple(error["loc"])
        if error["type"] == "too_short" and any(_is_inside(other, key) for other in errors):
            continue  # a consequence of wrong items, which pydantic does not count
        if error["type"] == "value_error":
            yield from _problems_of_check(key, error["ctx"]["error"], error["input"])
            continue
        if error["type"] == "missing":
            texts[key] = ["is required"]
            continue
        if len(key) > 1 and _is_union_member(key[1]):
            key = key[:1]
        texts.setdefault(key, []).append(_words(error))
        shown[key] = _value_hint(key, error["input"])
    for key, words in texts.items():
        yield SettingProblem(key, " or ".join(dict.fromkeys(words)) + shown.get(key, ""))


def _words(error: ErrorDetails) -> str:
    min_length = error.get("ctx", {}).get("min_length", 1)
    if error["type"] in _WORDS and min_length == 1:
        return _WORDS[error["type"]]
    return error["msg"].removeprefix("Input ").removeprefix("String ")


def _is_inside(error: ErrorDetails, key: SettingKey) -> bool:
    return len(error["loc"]) > len(key) and tuple(error["loc"][: len(key)]) == key


def _problems_of_check(
    key: SettingKey, error: ValueError, given: object
) -> Iterator[SettingProblem]:
    """Yields the problems that a class's or type's own check found."""
    if isinstance(error, OptionsError):
        for name, text in error.problems:
            yield SettingProblem((*key, name), text)
    else:
        yield SettingProblem(key, f"{error}{_value_hint(key, given)}")


def _is_union_member(part: str | int) -> bool:
    """Tests whether a part of a location is a union member that pydantic tried, not a key of the job file."""
    return isinstance(part, str) and _UNION_MEMBER.match(part) is not None


def _value_hint(key: SettingKey, value: object) -> str:
    if not isinstance(value, (str, int, float)) or any(_SECRET.search(str(part)) for part in key):
        return ""
    return f", not {json.dumps(value, ensure_ascii=False)}"
