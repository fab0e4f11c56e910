"""Turns the tables of a job file into options objects and collects all problems.

Each part of the program declares its options as a frozen dataclass; a table of the job file consists
of one or several of them.  pydantic checks types and bounds, strictly: text is never accepted as a
number.  TOML parsers do not keep line numbers, so a second pass over the text finds the line of a key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from publisher.config.validation import option_names, validate
from publisher.errors import SettingKey, SettingProblem

T = TypeVar("T")

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_ENTRY = re.compile(
    r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*="""
)
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")
_MAX_NAMES = 12
"""Maximum number of known keys that a message lists."""


class Problems:
    """Collects the problems of a job file, with their lines if they are known."""

    def __init__(self, text: str = "") -> None:
        self._lines = _line_numbers(text)
        self._options: dict[SettingKey, str] = {}
        self._names: dict[SettingKey, str] = {}
        self._problems: list[SettingProblem] = []
        self._concerned: list[SettingKey] = []

    def add(self, key: SettingKey, text: str) -> None:
        """Adds a problem of the setting ``key``."""
        self._concerned.append(key)
        option = self._options.get(key)
        line = self._line(key) if option is None else 0
        names = tuple(
            (at, self._names[key[: at + 1]])
            for at in range(len(key))
            if key[: at + 1] in self._names
        )
        self._problems.append(SettingProblem(key, text, line, names, option))

    def from_option(self, key: SettingKey, option: str) -> None:
        """Records that the value of ``key`` came from an option of the command line."""
        self._options[key] = option

    def has_own_option(self, key: SettingKey) -> bool:
        """Returns whether the value of ``key`` came from an option of its own, such as ``--status``."""
        return re.fullmatch(r"--[\w-]+", self._options.get(key, "")) is not None

    def name(self, key: SettingKey, name: str) -> None:
        """Records the name of a table in an array."""
        self._names[key] = name

    def concern(self, key: SettingKey) -> bool:
        """Returns whether a problem is about ``key``, a part of it, or the table that contains it."""
        return any(
            key[: len(other)] == other or other[: len(key)] == key for other in self._concerned
        )

    def suspect(self, key: SettingKey) -> None:
        """Makes ``concern`` include a setting that was probably meant by a misspelt key."""
        self._concerned.append(key)

    def in_order(self) -> list[SettingProblem]:
        """All problems in the order of the file; those without a line come last."""
        return sorted(self._problems, key=lambda problem: problem.line or 1 << 30)

    def __bool__(self) -> bool:
        return bool(self._problems)

    def _line(self, key: SettingKey) -> int:
        while key:
            if key in self._lines:
                return self._lines[key]
            key = key[:-1]
        return 0


def report_unknown_key(key: SettingKey, known: Iterable[str], problems: Problems) -> None:
    """Adds the problem of an unknown key, with the nearest known one."""
    if problems.has_own_option(key):
        problems.add(key, "the format of the source has no such setting; leave the option out")
        return
    names = sorted(known)
    matches = get_close_matches(str(key[-1]), names, 1, 0.6)
    hint = f"did you mean {matches[0]}?" if matches else _known_keys(names)
    problems.add(key, f"unknown key, {hint}")
    if matches:
        problems.suspect((*key[:-1], matches[0]))


def _known_keys(names: list[str]) -> str:
    if len(names) > _MAX_NAMES:
        return "the files in conf/ show all keys"
    return f"the known keys are {', '.join(names)}"


class Section:
    """One table of the job file.  ``finish`` refuses its unknown keys."""

    def __init__(self, place: SettingKey, data: object, problems: Problems) -> None:
        self.place = place
        self._problems = problems
        self._known: set[str] = set()
        if not isinstance(data, Mapping):
            problems.add(place, f"should be a table, write [{'.'.join(map(str, place))}]")
            data = {}
        self.data: dict[str, Any] = dict(data)

    def options(self, kind: type[T]) -> T:
        """Reads the options of one class, with defaults in place of wrong values; adds their problems."""
        return self.entry(kind) or kind()

    def entry(self, kind: type[T]) -> T | None:
        """As ``options``, but ``None`` if an option without default is wrong or missing."""
        names = option_names(kind)
        self.know(names)
        given = {name: self.data[name] for name in names if name in self.data}
        validation = validate(kind, given)
        for key, name in validation.names:
            self._problems.name((*self.place, *key), name)
        for problem in validation.problems:
            self._problems.add((*self.place, *problem.key), problem.text)
        return validation.value

    def know(self, names: Iterable[str]) -> None:
        """Accepts keys without checking their values."""
        self._known.update(names)

    def override(self, **options: object) -> None:
        """Replaces values of the file by those of the command line that are not ``None``."""
        for key, value in options.items():
            if value is not None:
                self.data[key] = value
                name = "database" if (self.place, key) == (("database",), "url") else key
                self._problems.from_option((*self.place, key), f"--{name}")

    def concerns(self, *names: str) -> bool:
        """Returns whether a problem is about one of these keys or the whole table."""
        return any(self._problems.concern((*self.place, name)) for name in names)

    def problem(self, name: str, text: str) -> None:
        """Adds a problem of a key's value."""
        self._problems.add((*self.place, name), text)

    def refuse(self, name: str, text: str) -> None:
        """Adds a problem if the table has a key that only other tables may have."""
        self._known.add(name)
        if name in self.data:
            self.problem(name, text)

    def finish(self) -> None:
        """Adds a problem for each unknown key."""
        for name in self.data:
            if name not in self._known:
                report_unknown_key((*self.place, name), self._known, self._problems)


def flatten(
    name: str, value: object, *, is_leaf: Callable[[Mapping[str, object]], bool] = lambda _: False
) -> Iterator[tuple[str, object]]:
    """Yields dotted names and values, because TOML reads ``spark.sql.x = "y"`` as nested tables.

    ``is_leaf`` recognises tables that are values.
    """
    if not isinstance(value, Mapping) or is_leaf(value):
        yield name, value
        return
    for part, inner in value.items():
        yield from flatten(f"{name}.{part}", inner, is_leaf=is_leaf)


def _line_numbers(text: str) -> dict[SettingKey, int]:
    """Line of each table and key that begins a line."""
    lines: dict[SettingKey, int] = {}
    counts: dict[SettingKey, int] = {}
    table: SettingKey = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _table_key(header[2], counts, counted=header[1] == "[[")
            lines.setdefault(table, number)
            if isinstance(table[-1], int):
                lines.setdefault(table[:-1], number)
        elif entry := _ENTRY.match(line):
            lines.setdefault((*table, *_parts(entry[1])), number)
    return lines


def _table_key(name: str, counts: dict[SettingKey, int], *, counted: bool) -> SettingKey:
    parts = _parts(name)
    key: SettingKey = ()
    for place, part in enumerate(parts):
        key = (*key, part)
        if counted and place == len(parts) - 1:
            counts[key] = counts.get(key, 0) + 1
        if key in counts:
            key = (*key, counts[key] - 1)
    return key


def _parts(name: str) -> list[str]:
    return ["".join(groups) for groups in _PART.findall(name)]
