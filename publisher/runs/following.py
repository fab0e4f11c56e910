"""Shows whether an instance follows a job: it holds a shared lock on a file in the journal directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = "follow.lock"


@contextmanager
def mark_following(root: Path) -> Iterator[None]:
    """Shows other programs that an instance follows the job with this journal directory."""
    descriptor = os.open(root / _LOCK, os.O_RDONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def is_followed(root: Path) -> bool:
    """Tests whether an instance follows the job."""
    try:
        descriptor = os.open(root / _LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
