"""Files that outlive a crash, and that only their owner can read: they hold personal data."""

from __future__ import annotations

import os
from pathlib import Path


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


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
