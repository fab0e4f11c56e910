"""A server that the workers of a test run share: the first that needs it starts it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path


@contextmanager
def share(directory: Path, start: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """Yields the address of a running server, or of one that ``start`` starts.

    The worker that started the server stops it once no other worker uses it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    address, own_mark = directory / "address", directory / f"{os.getpid()}.user"
    with ExitStack() as server:
        with _lock(directory):
            if not address.exists():
                text = server.enter_context(start())
                address.write_text(text)
                server.callback(_wait_for_others, directory)
            own_mark.touch()
        try:
            yield address.read_text()
        finally:
            own_mark.unlink()


def _wait_for_others(directory: Path) -> None:
    """Waits until no other worker uses the server; later ones start their own."""
    while True:
        with _lock(directory):
            if not any(Path("/proc", mark.stem).exists() for mark in directory.glob("*.user")):
                (directory / "address").unlink()
                return
        time.sleep(0.1)


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    with (directory / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
