"""The tables of a job file, taken apart into options objects; every problem is collected.

A part of the program declares its options as a frozen dataclass.  A table of the job file is made
of one or several of them; pydantic checks types and bounds, strictly: text is never taken for a
number.  The line of a key is found by reading the text once more, TOML parsers do not keep it.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

T = TypeVar("T")
Key = tuple[str | int, ...]
"""Where a setting stands: ``("sources", 0, "delimiter")``."""

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_ENTRY = re.compile(
    r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*="""
)
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")
_UNION_MEMBER = re.compile(r"(int|str|bool|float|constrained-|literal\[|function-)")
_SHOWN = 12
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


class Problems:
    """What is wrong with a job file, one line each, with the number of the line where known."""

    def __init__(self, text: str = "") -> None:
        self._lines = _line_numbers(text)
        self._spoken: dict[Key, str] = {}
        self._named: dict[Key, str] = {}
        self._found: list[tuple[int, str]] = []

    def add(self, key: Key, message: str) -> None:
        """``key`` is the place of the setting; the message says what is wrong with it."""
        if key in self._spoken:
            self._found.append((0, f"{self._spoken[key]}: {message}"))
            return
        number = self._line(key)
        where = f" (line {number})" if number else ""
        self._found.append((number, f"{_place(key, self._named)}: {message}{where}"))

    def rename(self, key: Key, name: str) -> None:
        """From now on ``key`` is spoken of as ``name``: its value came from the command line."""
        self._spoken[key] = name

    def name(self, key: Key, name: str) -> None:
        """``key`` is a table of an array of tables and has this name."""
        self._named[key] = name

    @property
    def lines(self) -> list[str]:
        """All problems, in the order of the file, those without a line last."""
        return [text for _, text in sorted(self._found, key=lambda item: item[0] or 1 << 30)]

    def __bool__(self) -> bool:
        return bool(self._found)

    def _line(self, key: Key) -> int:
        while key:
            if key in self._lines:
                return self._lines[key]
            key = key[:-1]
        return 0


def unknown(key: Key, known: Iterable[str], problems: Problems) -> None:
    """Says that a key is not known, and which one is nearest."""
    names = sorted(known)
    near = get_close_matches(str(key[-1]), names, 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else _some(names)
    problems.add(key, f"unknown key, {hint}")


def _some(names: list[str]) -> str:
    if len(names) > _SHOWN:
        return "the files in conf/ show all that there are"
    return f"known are {', '.join(names)}"


class Section:
    """One table of the job file.  What is taken from it is known; ``finish`` refuses the rest."""

    def __init__(self, place: Key, data: object, problems: Problems) -> None:
        self.place = place
        self._problems = problems
        self._known: set[str] = set()
        if not isinstance(data, Mapping):
            problems.add(place, f"should be a table, write [{'.'.join(map(str, place))}]")
            data = {}
        self.data: dict[str, Any] = dict(data)

    def options(self, kind: type[T]) -> T:
        """The options of one part; its defaults where a value is wrong, which is noted."""
        return self.entry(kind) or kind()

    def entry(self, kind: type[T]) -> T | None:
        """The same for what has no defaults: ``None`` where a value is wrong or missing."""
        names = option_names(kind)
        self._known.update(names)
        given = {name: self.data[name] for name in names if name in self.data}
        return validated(kind, given, self.place, self._problems)

    def problem(self, name: str, message: str) -> None:
        """Notes that something is wrong with the value of a key."""
        self._problems.add((*self.place, name), message)

    def refuse(self, name: str, message: str) -> None:
        """Notes that a key which other tables have means nothing here, where it is set."""
        self._known.add(name)
        if name in self.data:
            self.problem(name, message)

    def finish(self) -> None:
        """Refuses the keys that nobody took."""
        for name in self.data:
            if name not in self._known:
                unknown((*self.place, name), self._known, self._problems)


def validated(
    kind: type[T], given: Mapping[str, object], place: Key, problems: Problems
) -> T | None:
    """An object of the dataclass ``kind``; wrong values are noted as problems."""
    absent = _may_be_absent(kind)
    given = {
        name: None if value is False and name in absent else value for name, value in given.items()
    }
    try:
        # By way of JSON: there pydantic's strict mode takes text for paths, enumerations and times,
        # lists for tuples, and still refuses "1" for 1.
        return TypeAdapter(kind).validate_json(json.dumps(given, default=_plain), strict=True)
    except ValidationError as error:
        for key, name in _names_inside((), given):
            problems.name((*place, *key), name)
        for key, message in _messages(error.errors(include_url=False), option_names(kind)):
            problems.add((*place, *key), message)
        return None


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


def flat(name: str, value: object) -> dict[str, object]:
    """``spark.sql.x = "y"`` without quotes around the name is tables in tables."""
    if not isinstance(value, Mapping):
        return {name: value}
    found: dict[str, object] = {}
    for part, inner in value.items():
        found |= flat(f"{name}.{part}", inner)
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
            yield from _own_messages(key, error, names)
            continue
        if error["type"] == "missing":
            by_key[key] = ["is required"]
            continue
        if len(key) > 1 and _is_union_member(key[1]):
            key = key[:1]
        text = _WORDS.get(error["type"]) or error["msg"].removeprefix("Input ")
        by_key.setdefault(key, []).append(text)
        shown[key] = _shown(key, error["input"])
    for key, texts in by_key.items():
        yield key, " or ".join(dict.fromkeys(texts)) + shown.get(key, "")


def _is_inside(error: ErrorDetails, key: Key) -> bool:
    return len(error["loc"]) > len(key) and tuple(error["loc"][: len(key)]) == key


def _own_messages(key: Key, error: ErrorDetails, names: list[str]) -> Iterator[tuple[Key, str]]:
    """The problems that options found themselves, one on each line: ``NAME: what is wrong``."""
    inside = error["input"] if key and isinstance(error["input"], Mapping) else None
    for line in error["msg"].removeprefix("Value error, ").splitlines():
        text = line if inside is None else line.removeprefix(f"{inside.get('name')}: ")
        name, colon, rest = text.partition(": ")
        # of the options, or of those of a table inside them
        if colon and (name in names if not key else inside is not None and name in inside):
            yield (*key, name), rest
        else:
            yield key, text + _shown(key, error["input"])


def _is_union_member(part: str | int) -> bool:
    """Whether pydantic names here the member of a union that it tried, not a key of ours."""
    return isinstance(part, str) and _UNION_MEMBER.match(part) is not None


def _shown(key: Key, value: object) -> str:
    if not isinstance(value, (str, int, float)) or any(_SECRET.search(str(part)) for part in key):
        return ""
    return f", not {json.dumps(value, ensure_ascii=False)}"


def _place(key: Key, named: Mapping[Key, str]) -> str:
    """``[documents] batch_size``, ``[[sources]] 2 delimiter``, ``[source] tables 2 (usr) items``."""
    if key[:2] == ("spark", "conf"):
        key = ("spark", *key[2:])
    if key[:2] == ("dispatch", "kafka"):
        return f"[dispatch.kafka] {'.'.join(map(str, key[2:]))}".rstrip()
    if len(key) > 1 and isinstance(key[1], int):
        table = f"[[{key[0]}]]" + (f" {key[1] + 1}" if key[1] else "")
        at = 2
    elif key and key[0] == "tables" and len(key) > 1:
        table, at = f"[tables.{key[1]}]", 2
    else:
        table, at = f"[{key[0]}]" if key else "the file", 1
    return f"{table} {_path(key, at, named)}".rstrip()


def _path(key: Key, start: int, named: Mapping[Key, str]) -> str:
    """The parts of a key from ``start`` on; places in arrays are counted from 1, with their name."""
    text = ""
    for at in range(start, len(key)):
        part = key[at]
        if isinstance(part, int):
            name = named.get(key[: at + 1])
            text += f" {part + 1}" + (f" ({name})" if name else "")
        else:
            before = key[at - 1]
            text += (" " if isinstance(before, int) else ".") + part if text else part
    return text.lstrip()


def _line_numbers(text: str) -> dict[Key, int]:
    """Line of each table and key, as far as they stand at the beginning of a line."""
    found: dict[Key, int] = {}
    counts: dict[Key, int] = {}
    table: Key = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _table_key(header[2], counts, counted=header[1] == "[[")
            found.setdefault(table, number)
            if isinstance(table[-1], int):
                found.setdefault(table[:-1], number)
        elif entry := _ENTRY.match(line):
            found.setdefault((*table, *_parts(entry[1])), number)
    return found


def _table_key(name: str, counts: dict[Key, int], *, counted: bool) -> Key:
    parts = _parts(name)
    key: Key = ()
    for place, part in enumerate(parts):
        key = (*key, part)
        if counted and place == len(parts) - 1:
            counts[key] = counts.get(key, 0) + 1
        if key in counts:
            key = (*key, counts[key] - 1)
    return key


def _parts(name: str) -> list[str]:
    return ["".join(groups) for groups in _PART.findall(name)]
