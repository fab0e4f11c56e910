"""When a following publisher polls: by interval, or by times of day."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.schedule import FollowOptions

DAY = 86_400.0


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("interval", [0.0, 0.5, 10.0])
def test_an_interval_is_the_pause_whatever_the_time(interval: float) -> None:
    options = FollowOptions(polling_interval=interval)
    assert not options.at_times
    assert options.pause(at("2026-05-04T23:59:59")) == interval


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        ("2026-05-04T06:00:00", 1_800.0),
        ("2026-05-04T06:29:59.750", 0.25),
        ("2026-05-04T06:30:00", 11 * 3_600.0 + 30 * 60 + 5),  # the moment itself is over
        ("2026-05-04T12:00:00", 6 * 3_600.0 + 5),
        ("2026-05-04T18:00:05", 12 * 3_600.0 + 29 * 60 + 55),  # the first of tomorrow
        ("2026-05-04T23:59:59", 6 * 3_600.0 + 30 * 60 + 1),
        ("2026-12-31T23:30:00", 7 * 3_600.0),
    ],
)
def test_times_of_day_are_waited_for(now: str, seconds: float) -> None:
    options = FollowOptions(polling_interval=1, publication_times=("18:00:05", "06:30"))
    assert options.at_times
    assert options.pause(at(now)) == seconds


def test_one_time_comes_once_a_day() -> None:
    options = FollowOptions(publication_times=("00:00",))
    assert options.pause(at("2026-05-04T00:00:00")) == DAY
    assert options.pause(at("2026-05-04T23:59:59")) == 1.0


@given(
    st.lists(st.times(), min_size=1, max_size=4),
    st.datetimes(at("2000-01-01T00:00:00"), at("2100-01-01T00:00:00")),
)
def test_a_pause_is_never_nothing_and_never_more_than_a_day(times: list, now: datetime) -> None:
    texts = tuple(moment.isoformat() for moment in times)
    assert 0 < FollowOptions(publication_times=texts).pause(now) <= DAY


@pytest.mark.parametrize("text", ["", "25:00", "6:30 pm", "noon", "12:60", "06:30+02:00", "06:30Z"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no time of day; write 18:30 or 18:30:00") as caught:
        FollowOptions(publication_times=("06:30", text))
    assert repr(text) in str(caught.value)
