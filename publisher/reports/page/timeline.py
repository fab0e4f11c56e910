"""Counts over time, in intervals that become wider as the time span grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3_600 * _SECOND, 86_400 * _SECOND
_WIDTHS = (
    *(_SECOND, 10 * _SECOND, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 6 * _HOUR),
    *(_DAY, 7 * _DAY, 28 * _DAY, 364 * _DAY, 3_640 * _DAY, 36_400 * _DAY, 364_000 * _DAY),
    3_640_000 * _DAY,
)
"""Widths of intervals in microseconds.  The last one divides all times of 64 bits into few intervals."""

INTERVALS = 60
"""Maximum number of intervals in a finished timeline."""
_AT_ONCE = 4_096
"""Maximum number of counters in memory."""
_STRAY = 0.001
"""Share of the events at each end of the timeline that may be left out, so that single wrong times do not
make all intervals wide."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Counts of one interval by kind; ``start`` is in microseconds since 1970-01-01 UTC."""

    start: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Timespan:
    """Consecutive intervals of the same width in microseconds, and the events outside them."""

    width: int
    intervals: tuple[Interval, ...]
    earlier: int
    later: int


class Timeline:
    """Counts events by kind and time; memory does not depend on their number."""

    def __init__(self) -> None:
        self._step = 0
        self._counts: Counter[tuple[int, str]] = Counter()

    def add(self, kind: str, times: np.ndarray) -> None:
        """Counts events at these times, in microseconds since 1970-01-01 UTC."""
        while True:
            starts, counts = np.unique(times // _WIDTHS[self._step], return_counts=True)
            if len(self._counts) + len(starts) <= _AT_ONCE or self._step == len(_WIDTHS) - 1:
                break
            self._step += 1
            self._counts = _widen(self._counts, _WIDTHS[self._step])
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            self._counts[start * _WIDTHS[self._step], kind] += count

    def timespan(self) -> Timespan:
        """Divides the time of the events into at most ``INTERVALS`` intervals."""
        step, counts = self._step, self._counts
        while True:
            width = _WIDTHS[step]
            totals = Counter[int]()
            for (start, _), count in counts.items():
                totals[start] += count
            starts = _without_strays(totals)
            if not starts or (starts[-1] - starts[0]) // width < INTERVALS:
                break
            step += 1
            counts = _widen(counts, _WIDTHS[step])
        if not starts:
            return Timespan(width, (), 0, 0)
        return Timespan(
            width,
            tuple(_interval(start, counts) for start in range(starts[0], starts[-1] + 1, width)),
            sum(count for start, count in totals.items() if start < starts[0]),
            sum(count for start, count in totals.items() if start > starts[-1]),
        )


def _widen(counts: Counter[tuple[int, str]], width: int) -> Counter[tuple[int, str]]:
    wider = Counter[tuple[int, str]]()
    for (start, kind), count in counts.items():
        wider[start // width * width, kind] += count
    return wider


def _interval(start: int, counts: Counter[tuple[int, str]]) -> Interval:
    return Interval(start, {kind: count for (at, kind), count in counts.items() if at == start})


def _without_strays(totals: Counter[int]) -> list[int]:
    """The starts of intervals, without those at both ends that hold few events."""
    starts, allowed = sorted(totals), int(totals.total() * _STRAY)
    for end in (0, -1):
        left_out = 0
        while starts and left_out + totals[starts[end]] <= allowed:
            left_out += totals[starts.pop(end)]
    return starts
