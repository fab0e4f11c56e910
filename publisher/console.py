"""Text for terminals: control characters as escapes, styles, counts, and the phases of runs.

Imports no part of the program, so that the command line starts fast.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum


class Phase(StrEnum):
    """A phase of a run, as progress bars name it."""

    WAITING = "waiting"
    """Follow mode: rows that are pending before a poll."""
    READING = "reading"
    """Parts of the input."""
    PLANNING = "planning"
    """Lanes."""
    SENDING = "sending"
    """Documents."""
    ACKNOWLEDGING = "acknowledging"
    """Rows whose statuses are written."""


Progress = Callable[[Phase, int, int], None]
"""Receives the phase of a run, the number of its items that are done, and of all of them."""


def printable(text: str) -> str:
    """Escapes control characters, so that no value can control a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def printable_json(text: str) -> str:
    """Escapes control characters of a JSON text as JSON does; keeps line ends."""
    return "".join(
        c if c.isprintable() or c == "\n" else json.dumps(c).removeprefix('"').removesuffix('"')
        for c in text
    )


class Styled(str):
    """A line for terminals, with styles, in which control characters are escaped already."""

    __slots__ = ()


_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32}


def style(text: str, **styles: bool) -> str:
    """Adds styles (``bold``, ``dim``, ``red``, ``green``) to each line that has text, unless the environment
    has ``NO_COLOR``."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    codes = ";".join(str(_STYLES[name]) for name, is_set in styles.items() if is_set)
    return "\n".join(
        f"\x1b[{codes}m{line}\x1b[0m" if codes and line.strip() else line
        for line in text.split("\n")
    )


def is_terminal() -> bool:
    """Returns whether standard output is a terminal."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """The number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def shorten(text: str, longest: int = 500) -> str:
    """Truncates a text, with its length if something is missing."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def counts_text(counts: Mapping[str, int]) -> str:
    """Lists counts by name: ``3 published, 1 rejected``."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
