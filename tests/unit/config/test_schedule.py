"""When a following publisher polls: by interval, or by times of day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.config.schedule import FollowOptions

DAY = 86_400.0


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def times(*texts: str, zone: str = "Europe/Berlin") -> FollowOptions:
    return FollowOptions(publication_times=texts, time_zone=zone)


def publications(options: FollowOptions, after: str, count: int) -> list[str]:
    """The next publication times, in the zone of the options."""
    moment, found = at(after), []
    for _ in range(count):
        moment = options.next_publication(moment)
        found.append(moment.astimezone(ZoneInfo(options.time_zone)).isoformat())
    return found


def test_without_times_polls_go_by_the_interval() -> None:
    assert not FollowOptions(polling_interval=0.5).at_times
    assert times("06:00").at_times


@pytest.mark.parametrize(
    ("now", "next_"),
    [
        ("2026-05-04T06:00:00", "2026-05-04T06:30:00"),
        ("2026-05-04T06:29:59.750", "2026-05-04T06:30:00"),
        ("2026-05-04T06:30:00", "2026-05-04T18:00:05"),  # the moment itself is over
        ("2026-05-04T12:00:00", "2026-05-04T18:00:05"),
        ("2026-05-04T18:00:05", "2026-05-05T06:30:00"),
        ("2026-12-31T23:30:00", "2027-01-01T06:30:00"),
    ],
)
def test_the_next_time_of_day(now: str, next_: str) -> None:
    options = times("18:00:05", "06:30", zone="UTC")
    assert options.next_publication(at(f"{now}+00:00")) == at(f"{next_}+00:00")


def test_a_time_of_day_stays_the_same_when_the_clocks_change() -> None:
    assert publications(times("06:00"), "2026-03-28T00:00:00Z", 3) == [
        "2026-03-28T06:00:00+01:00",
        "2026-03-29T06:00:00+02:00",
        "2026-03-30T06:00:00+02:00",
    ]


def test_a_time_that_the_clocks_show_twice_comes_once() -> None:
    assert publications(times("02:30"), "2026-10-24T12:00:00Z", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


def test_a_time_that_the_clocks_skip_comes_later() -> None:
    assert publications(times("02:30"), "2026-03-28T12:00:00Z", 2) == [
        "2026-03-29T03:30:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


@given(
    st.sets(st.times(), min_size=1, max_size=4),
    st.datetimes(at("2000-01-01T00:00:00"), at("2037-01-01T00:00:00")),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"]),
)
def test_every_time_comes_once_a_day(times_: set, now: datetime, zone: str) -> None:
    options = times(*(moment.isoformat() for moment in times_), zone=zone)
    moment = now.replace(tzinfo=UTC)
    found = []
    while moment < now.replace(tzinfo=UTC) + timedelta(days=20):
        moment = options.next_publication(moment)
        found.append(moment)
    assert all(earlier < later for earlier, later in pairwise(found))
    assert (
        max((later - earlier).total_seconds() for earlier, later in pairwise(found)) <= DAY + 3_600
    )
    # two times may fall together where clocks change by an hour
    assert abs(len(found) - 20 * len(times_)) <= len(times_) + 1


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../etc/passwd"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match=r"time_zone: .* is not known; write a name such as"):
        times("06:00", zone=zone)


@pytest.mark.parametrize("text", ["", "25:00", "6:30 pm", "noon", "12:60", "06:30+02:00", "06:30Z"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a time of day; write 18:30 or 18:30:00"
    ) as caught:
        FollowOptions(publication_times=("06:30", text))
    assert repr(text) in str(caught.value)
