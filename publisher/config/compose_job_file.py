"""Composes a new job file from the example of its format, which shows every setting with its default."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from publisher.errors import InternalError

_SECTION = re.compile(r"(?:# )?\[")


@dataclass(frozen=True, slots=True)
class NewSource:
    """The input of a new job: files, one table, or the tables that are compared."""

    format: str
    snapshots: tuple[str, ...] = ()
    table: str | None = None
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewDatabase:
    """The database of a new job: its URL, or the environment variable that holds it."""

    url: str | None = None
    url_env: str | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class NewSink:
    """The sink of a new job: a directory, or a topic."""

    path: str = "documents"
    bootstrap: str | None = None
    topic: str | None = None
    has_topic: bool | None = None
    """Whether the topic exists; ``None`` if the brokers could not be asked."""


def compose_job_file(
    example: str,
    source: NewSource,
    database: NewDatabase | None,
    sink: NewSink,
    notes: Sequence[str],
    name: str,
    *,
    shows_defaults: bool = True,
) -> str:
    """Composes the text of a job file from the text of the example.

    ``name`` is that of the job and of its source; ``notes`` are comments that stand before the first section.
    Without ``shows_defaults`` the file has only settings that it sets.
    """
    lines = example.splitlines()
    lines = lines[lines.index("[job]") :]
    _set(lines, 0, "name", name)
    _set(lines, lines.index("[[sources]]"), "name", name)
    _write_source(lines, source)
    if database is not None:
        _write_database(lines, database)
    _write_sink(lines, sink)
    comments = [f"# {note}".rstrip() for note in notes]
    shown = ["", *lines] if shows_defaults else _without_defaults(lines)
    return "\n".join([*comments, *shown]) + "\n"


def _without_defaults(lines: Sequence[str]) -> Iterator[str]:
    """Removes comments, and sections without settings."""
    kept = [line for line in lines if line and not line.startswith("#")]
    for line, following in pairwise([*kept, "["]):
        if not line.startswith("["):
            yield line
        elif not following.startswith("["):
            yield from ("", line)


def _write_source(lines: list[str], source: NewSource) -> None:
    start = lines.index("[[sources]]")
    _set(lines, start, "format", source.format)
    if source.snapshots:
        _set(lines, start, "snapshots", list(source.snapshots))
        return
    place = _find(lines, start, "snapshots")
    if source.tables:
        del lines[place]
        _set(lines, start, "tables", list(source.tables))
    else:
        lines[place] = f"table = {_toml(source.table)}"


def _write_database(lines: list[str], database: NewDatabase) -> None:
    start = lines.index("# [database]")
    lines[start] = "[database]"
    for name, value in (
        ("url", database.url),
        ("url_env", database.url_env),
        ("schema", database.schema),
    ):
        if value is not None:
            _set(lines, start, name, value)


def _write_sink(lines: list[str], sink: NewSink) -> None:
    start = lines.index("[dispatch]")
    if sink.bootstrap is None:
        _set(lines, start, "path", sink.path)
        return
    del lines[_find(lines, start, "path")]
    _set(lines, start, "to", "kafka")
    _set(lines, start, "bootstrap", sink.bootstrap)
    _set(lines, start, "topic", sink.topic)
    if not sink.has_topic:
        _set(lines, start, "create_topics", True)
    if sink.has_topic is None:
        lines[_find(lines, start, "create_topics")] += "  # the brokers could not be asked"


def _set(lines: list[str], start: int, name: str, value: object) -> None:
    """Sets a key of the section at ``start``.  The comment in its line describes the example, so it goes."""
    lines[_find(lines, start, name)] = f"{name} = {_toml(value)}"


def _find(lines: Sequence[str], start: int, name: str) -> int:
    """Finds the line of a key, set or in a comment, in the section at ``start``."""
    key = re.compile(rf"(?:# )?{re.escape(name)} = ")
    for place in range(start + 1, len(lines)):
        if key.match(lines[place]):
            return place
        if _SECTION.match(lines[place]):
            break
    raise InternalError(f"{lines[start]} of the example has no {name}: install the program again")


def _toml(value: object) -> str:
    """Writes text and lists of text: a string of JSON is one of TOML, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
