"""Shows whether an instance follows a job: it holds a shared lock on a file in the ledger directory."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from publisher.errors import RunningError

_LOCK = "follow.lock"
"""Holds who follows the job; the time of its last change is the last sign of life."""


@contextmanager
def mark_following(root: Path) -> Iterator[Callable[[], None]]:
    """Shows other programs that an instance follows the job with this ledger directory.

    Returns a function that gives a sign of life.
    """
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        place = {"host": socket.gethostname(), "machine": _machine()}
        who = {**place, "process": os.getpid(), "since": since}
        os.ftruncate(descriptor, os.pwrite(descriptor, json.dumps(who).encode(), 0))
        yield lambda: os.utime(descriptor)
    finally:
        os.close(descriptor)


def is_followed(root: Path) -> bool:
    """Tests whether an instance follows the job.

    Raises:
        RunningError: One does, on another machine that shares the disk.
    """
    with suppress(FileNotFoundError), (root / _LOCK).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _refuse_other_machine(root)
            return True
    return False


def _refuse_other_machine(root: Path) -> None:
    with suppress(OSError, ValueError, KeyError):
        who = json.loads((root / _LOCK).read_text(encoding="utf-8"))
        if who["machine"] != _machine():
            raise RunningError(
                f"the job is followed on another machine ({describe_follower(root)}), and a ledger serves "
                "one machine at a time: stop that instance, then start this command again"
            )


def _machine() -> str:
    """Identifies this machine: its containers have different host names."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return socket.gethostname()


def describe_follower(root: Path) -> str:
    """Describes the newest instance that follows the job: host, process, start, last sign of life."""
    path = root / _LOCK
    with suppress(OSError, ValueError, KeyError):
        who = json.loads(path.read_text(encoding="utf-8"))
        seconds = max(0, round(time.time() - path.stat().st_mtime))
        return (
            f"publish --follow on {who['host']}, process {who['process']}, since {who['since']}, last sign "
            f"of life {seconds:,} s ago"
        )
    return f"publish --follow, which holds the lock of {path}"
