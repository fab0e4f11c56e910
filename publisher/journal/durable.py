"""Files that outlive a crash, and that only their owner can read: they hold personal data."""

from __future__ import annotations

import os
from pathlib import Path

from publisher.errors import FatalError

_DIGITS = 18
"""Of the largest number that is taken for one."""


def make_private(path: Path) -> None:
    """Makes a finished file readable by its owner only, and durable."""
    path.chmod(0o600)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_durably(path: Path, text: str) -> None:
    """Replaces a file by a synced one, readable by its owner only."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def read_number(path: Path, remedy: str) -> int:
    """Reads a file that holds one number; 0 where there is no such file.

    Raises:
        FatalError: It holds something else; ``remedy`` says what to do.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        shown = repr(text[:40]) if text else "nothing"
        raise FatalError(f"{path} is damaged, it holds {shown} and no number: {remedy}")
    return int(text)


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
