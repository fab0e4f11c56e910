"""Locks a ledger directory for one program at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from publisher.errors import UsageError


@contextmanager
def lock_directory(directory: Path, *, wait: bool = False) -> Iterator[None]:
    """Holds the lock of a directory; creates the directory if necessary.

    Raises:
        UsageError: Another program holds the lock, and ``wait`` is not set.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / "lock"
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)  # works on a read-only disk, too
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise UsageError(
                f"another program is working in {directory}: wait until it has ended"
            ) from error
        yield
    finally:
        os.close(descriptor)


def refuse_locked_directory(directory: Path) -> None:
    """Raises ``UsageError`` if another program holds the lock of a directory.  Creates nothing."""
    if (directory / "lock").exists():
        with lock_directory(directory):
            pass
