"""Text for terminals: control characters as escapes, counts, and the phases of runs.

Imports no part of the program, so that the command line starts fast.
"""

from __future__ import annotations

import json
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


def shorten(text: str, longest: int = 500) -> str:
    """Truncates a text, with its length if something is missing."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def counts_text(counts: Mapping[str, int]) -> str:
    """Lists counts by name: ``3 published, 1 rejected``."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())
