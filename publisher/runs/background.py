"""Work that a job does in a thread while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from publisher.database.connection_cache import ConnectionCache, use_cache

T = TypeVar("T")


class Background(Generic[T]):
    """Runs one piece of work at a time; whoever waits for it gets its result or its error.

    The thread keeps database connections of its own from one piece to the next.
    """

    def __init__(self, name: str) -> None:
        """``name`` is the name of the thread."""
        self._cache = ConnectionCache()
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix=name, initializer=use_cache, initargs=(self._cache,)
        )
        self._work: Future[T] | None = None

    @property
    def is_free(self) -> bool:
        """True if all work is waited for."""
        return self._work is None

    @property
    def is_done(self) -> bool:
        """True if there is work to wait for, and it has ended."""
        return self._work is not None and self._work.done()

    def start(self, work: Callable[[], T]) -> None:
        """Starts work; call it only while ``is_free``."""
        self._cache.run += 1
        self._work = self._thread.submit(work)

    def wait(self) -> T | None:
        """Waits until the work has ended, and returns its result; ``None`` if there is none."""
        work, self._work = self._work, None
        return None if work is None else work.result()

    def close(self) -> None:
        """Waits for the thread; errors of work that nobody has waited for are lost."""
        self._thread.shutdown()
        self._cache.close()
