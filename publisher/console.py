"""Text for terminals: control characters as escapes, counts, and a progress bar.

Imports no part of the program, so that the command line starts fast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Progress = Callable[[str, float], None]
"""Receives the phase of a run and the share of it that is done, 0 to 1."""


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


@contextmanager
def progress() -> Iterator[Progress | None]:
    """Shows a progress bar on standard error if that is a terminal; else yields ``None``."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only where there is a terminal
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def update(phase: str, done: float) -> None:
            bar.update(task, description=phase, completed=done)

        yield update
