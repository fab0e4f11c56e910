"""The tables of a job file, taken apart into options objects; every problem is collected.

A part of the program declares its options as a frozen dataclass.  A table of the job file is made
of one or several of them; pydantic checks types and bounds, strictly: text is never taken for a
number.  The line of a key is found by reading the text once more, TOML parsers do not keep it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from publisher.config.validation import Key, option_names, validate

T = TypeVar("T")

_HEADER = re.compile(r"\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(#.*)?$")
_ENTRY = re.compile(
    r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*="""
)
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")
_SHOWN = 12


class Problems:
    """What is wrong with a job file, one line each, with the number of the line where known."""

    def __init__(self, text: str = "") -> None:
        self._lines = _line_numbers(text)
        self._spoken: dict[Key, str] = {}
        self._named: dict[Key, str] = {}
        self._found: list[tuple[int, str]] = []
        self._concerned: list[Key] = []

    def add(self, key: Key, message: str) -> None:
        """``key`` is the place of the setting; the message says what is wrong with it."""
        self._concerned.append(key)
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

    def concern(self, key: Key) -> bool:
        """Tell whether a problem is about ``key``, a part of it, or the table that it is in."""
        return any(
            key[: len(other)] == other or other[: len(key)] == key for other in self._concerned
        )

    def suspect(self, key: Key) -> None:
        """Let ``concern`` know a setting that a misspelt key was probably meant to be."""
        self._concerned.append(key)

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
    if near:
        problems.suspect((*key[:-1], near[0]))


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
        """The same for a part without defaults: ``None`` where such a value is wrong or missing."""
        names = option_names(kind)
        self.know(names)
        given = {name: self.data[name] for name in names if name in self.data}
        validation = validate(kind, given)
        for key, name in validation.names:
            self._problems.name((*self.place, *key), name)
        for key, message in validation.problems:
            self._problems.add((*self.place, *key), message)
        return validation.value

    def know(self, names: Iterable[str]) -> None:
        """Take keys for known without a look at their values."""
        self._known.update(names)

    def override(self, **spoken: object) -> None:
        """Take values of the command line over those of the file; ``None`` says nothing."""
        for key, value in spoken.items():
            if value is not None:
                self.data[key] = value
                name = "database" if (self.place, key) == (("database",), "url") else key
                self._problems.rename((*self.place, key), f"--{name}")

    def concerns(self, *names: str) -> bool:
        """Tell whether a problem is about one of these keys or the whole table."""
        return any(self._problems.concern((*self.place, name)) for name in names)

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


def flat(name: str, value: object) -> dict[str, object]:
    """``spark.sql.x = "y"`` without quotes around the name is tables in tables."""
    if not isinstance(value, Mapping):
        return {name: value}
    found: dict[str, object] = {}
    for part, inner in value.items():
        found |= flat(f"{name}.{part}", inner)
    return found


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
