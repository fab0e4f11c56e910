"""Settings of a library that pass through the job file: as text, from the environment, from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from publisher.config.toml_sections import Section

_PLACES = ("env", "file")


def given_settings(section: Section, directory: Path) -> dict[str, str]:
    """The settings of a table by name; what is wrong is noted, never with a value.

    ``{ env = "NAME" }`` is the value of an environment variable, ``{ file = "PATH" }`` the content
    of a file (relative to ``directory``) without the line end behind it.  Numbers and booleans
    become text.
    """
    found: dict[str, str] = {}
    for first, value in section.data.items():
        for name, given in _leaves(first, value):
            try:
                found[name] = _text(given, directory)
            except ValueError as error:
                section.problem(name, str(error))
    return found


def _leaves(name: str, value: object) -> list[tuple[str, object]]:
    """``sasl.password = …`` without quotes around the name is tables in tables."""
    if not isinstance(value, Mapping) or _is_place(value):
        return [(name, value)]
    return [leaf for part, inner in value.items() for leaf in _leaves(f"{name}.{part}", inner)]


def _is_place(value: Mapping[str, object]) -> bool:
    return any(place in value and not isinstance(value[place], Mapping) for place in _PLACES)


def _text(given: object, directory: Path) -> str:
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str | int | float):
        return str(given)
    if not isinstance(given, Mapping):
        raise ValueError('write it as text, or as { env = "NAME" } or { file = "PATH" }')  # noqa: TRY004
    place, *others = given.items()
    kind, where = place
    if others or kind not in _PLACES or not isinstance(where, str) or not where:
        raise ValueError('write { env = "NAME" } or { file = "PATH" }, one of the two')
    return _variable(where) if kind == "env" else _content(directory / Path(where).expanduser())


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ValueError(f"the environment variable {name} is not set: set it")
    return value


def _content(path: Path) -> str:
    try:
        return path.read_text("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}: name a file that can be read") from None
