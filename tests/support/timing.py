"""Processor time of a function at two sizes of its input."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMES = 4
"""The larger input is this many times the smaller one."""
_NOISE = 0.05
"""Seconds that may pass whatever the size."""


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Fails where the time for ``TIMES`` times the size is far from ``TIMES`` times the time.

    A quadratic function takes 16 times as long for the larger input, a linear one 4 times.
    """
    smaller, larger = _seconds(work, size), _seconds(work, TIMES * size)
    assert larger <= _NOISE + 2 * TIMES * smaller, f"{smaller:.3f} s, then {larger:.3f} s"


def _seconds(work: Callable[[int], object], size: int) -> float:
    taken = []
    for _ in range(2):
        start = time.process_time()
        work(size)
        taken.append(time.process_time() - start)
    return min(taken)
