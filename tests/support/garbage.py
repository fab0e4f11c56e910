"""Counts what a call leaves for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable

_CALLS = 3


def count_garbage(call: Callable[[], object]) -> int:
    """Returns the least number of objects in reference cycles that one of several calls leaves.

    A call that leaves some does so each time.  Other objects may come between: the first call fills what is
    kept for the process, and finalizers and threads of earlier tests leave garbage, too."""
    return min(_count_once(call) for _ in range(_CALLS))


def _count_once(call: Callable[[], object]) -> int:
    gc.collect()
    gc.disable()
    try:
        call()
        return gc.collect()
    finally:
        gc.enable()
