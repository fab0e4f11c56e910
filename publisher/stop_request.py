"""A request to stop, which a handler of a signal may make at any moment."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue


class StopRequest:
    """An event that is set once, and that one thread waits for.

    A handler of a signal runs in the middle of whatever the main thread does, and ``threading.Event`` holds
    a lock while it begins to wait: a handler that sets one then waits for itself, for ever.
    ``SimpleQueue.put`` is reentrant.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Requests the stop; ends a wait."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        """True once the stop is requested."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Waits until the stop is requested or the time is over; returns ``is_set()``."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=seconds)
        return self._is_set
