"""Counts over time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.reports.page.timeline import INTERVALS, Timeline

SECOND = 1_000_000
HOUR = 3_600 * SECOND
NOW = 1_777_777_777 * SECOND


def timeline_of(times: list[int], kind: str = "add") -> Timeline:
    timeline = Timeline()
    timeline.add(kind, np.array(times, np.int64))
    return timeline


def test_few_seconds_have_intervals_of_a_second() -> None:
    span = timeline_of([NOW, NOW + 5, NOW + 2 * SECOND]).timespan()
    assert span.width == SECOND
    assert [dict(interval.counts) for interval in span.intervals] == [{"add": 2}, {}, {"add": 1}]


def test_kinds_are_counted_apart() -> None:
    timeline = timeline_of([NOW, NOW])
    timeline.add("delete", np.array([NOW], np.int64))
    assert dict(timeline.timespan().intervals[0].counts) == {"add": 2, "delete": 1}


def test_single_wrong_times_do_not_widen_the_intervals() -> None:
    times = [NOW + n * SECOND for n in range(50)] * 100
    span = timeline_of([*times, 0, NOW + 10_000 * 8_760 * HOUR]).timespan()
    assert (span.width, span.earlier, span.later) == (SECOND, 1, 1)
    assert sum(sum(interval.counts.values()) for interval in span.intervals) == 5_000


@given(
    st.lists(
        st.lists(st.integers(-(2**62), 2**62) | st.integers(NOW, NOW + 10**6 * HOUR), min_size=1),
        max_size=4,
    )
)
def test_no_event_is_lost_and_the_number_of_intervals_is_bounded(batches: list[list[int]]) -> None:
    timeline = Timeline()
    for number, times in enumerate(batches):
        timeline.add(f"kind {number % 2}", np.array(times, np.int64))
    span = timeline.timespan()
    counted = sum(sum(interval.counts.values()) for interval in span.intervals)
    assert counted + span.earlier + span.later == sum(map(len, batches))
    assert len(span.intervals) <= INTERVALS
    starts = [interval.start for interval in span.intervals]
    assert starts == sorted(starts)
    assert all(b - a == span.width for a, b in pairwise(starts))


@pytest.mark.parametrize("step", [SECOND, HOUR, 400 * 24 * HOUR])
def test_memory_is_bounded(step: int) -> None:
    timeline = Timeline()
    for first in range(0, 20_000, 1_000):
        timeline.add("add", np.array([NOW + n * step for n in range(first, first + 1_000)]))
    assert len(timeline._counts) <= 4_096 + 1_000
    total = sum(sum(i.counts.values()) for i in timeline.timespan().intervals)
    assert total == 20_000
