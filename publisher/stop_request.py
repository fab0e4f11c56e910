"""A request to stop, which a handler of a signal may make at any moment, and the pauses that it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

_STEP = 0.05
"""Seconds after which a pause looks for work again."""


class StopRequest:
    """An event that is set once, and that one thread waits for.

    A handler of a signal runs in the middle of whatever the main thread does, and ``threading.Event`` holds
    a lock while it begins to wait: a handler that sets one then waits for itself, for ever.
    ``SimpleQueue.put`` is reentrant.
    """

    def __init__(self, has_work: Callable[[], bool] = lambda: False) -> None:
        """``has_work`` ends a pause, too: another program has ordered something."""
        self.has_work = has_work
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
        """Waits until the stop is requested, there is work, or the time is over; returns ``is_set()``."""
        end = time.monotonic() + seconds
        while not self._is_set and (left := end - time.monotonic()) > 0 and not self.has_work():
            with suppress(Empty):
                self._wakes.get(timeout=min(left, _STEP))
        return self._is_set
