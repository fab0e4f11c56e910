"""Settings that a library defines: values as text, from the environment or from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from publisher.config.toml_sections import Section, flatten

_PLACES = ("env", "file")


def read_client_options(section: Section, directory: Path) -> dict[str, str]:
    """The settings of a table by name; their problems never show a value.

    ``{ env = "NAME" }`` is the value of an environment variable, ``{ file = "PATH" }`` the content
    of a file (relative to ``directory``) without its last line ends.  Numbers and booleans become
    text.
    """
    options: dict[str, str] = {}
    for first, table in section.data.items():
        for name, value in flatten(first, table, is_leaf=_is_place):
            try:
                options[name] = _text(value, directory)
            except ValueError as error:
                section.problem(name, str(error))
    return options


def _is_place(value: Mapping[str, object]) -> bool:
    return any(place in value and not isinstance(value[place], Mapping) for place in _PLACES)


def _text(value: object, directory: Path) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if not isinstance(value, Mapping):
        raise ValueError('write it as text, or as { env = "NAME" } or { file = "PATH" }')  # noqa: TRY004
    place, *others = value.items()
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
        raise ValueError(f"{path}: {error.strerror}: name a readable file") from None
