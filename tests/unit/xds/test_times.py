"""Dates and times by time syntax."""

from __future__ import annotations

import datetime as dt
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from publisher.model.change import Reason
from publisher.xds.escape import ValueProblem
from publisher.xds.times import TimeRange, Times, TimeSyntax, time_zone

SYNTAXES: tuple[TimeSyntax, ...] = get_args(TimeSyntax)
BERLIN = ZoneInfo("Europe/Berlin")


def times(syntax: TimeSyntax, zone: str = "UTC", range_: TimeRange = "32-bit") -> Times:
    return Times(syntax, time_zone(zone), range_)


@pytest.mark.parametrize(
    ("syntax", "text"),
    [(1, "1709210096"), (2, "20240229123456500000000"), (3, "2024-02-29 12:34:56.5")],
)
@pytest.mark.parametrize(
    "written",
    [
        "2024-02-29 12:34:56.500000000",
        "2024-02-29 12:34:56.5",
        "2024-02-29T12:34:56.5Z",
        " 2024-02-29 12:34:56.5+00 ",
        "2024-02-29 14:34:56.5+02:00",
        "2024-02-29 10:04:56.5 -0230",
    ],
)
def test_a_timestamp_by_each_syntax(syntax: TimeSyntax, text: str, written: str) -> None:
    assert times(syntax).timestamp(written) == text


@pytest.mark.parametrize(
    ("syntax", "text"), [(1, "1709164800"), (2, "20240229"), (3, "2024-02-29")]
)
@pytest.mark.parametrize(
    "written", ["2024-02-29", "2024-02-29 00:00:00.0", "2024-02-29T00:00:00+02:00"]
)
def test_a_date_by_each_syntax(syntax: TimeSyntax, text: str, written: str) -> None:
    assert times(syntax).date(written) == text


@pytest.mark.parametrize(("syntax", "text"), [(1, "45296"), (2, "123456"), (3, "12:34:56")])
@pytest.mark.parametrize("written", ["12:34:56", "12:34:56.999999999", "13:34:56+01"])
def test_a_time_by_each_syntax(syntax: TimeSyntax, text: str, written: str) -> None:
    assert times(syntax).time(written) == text


def test_only_seconds_are_of_type_time() -> None:
    assert [times(syntax).value_type for syntax in SYNTAXES] == ["time", "string", "string"]


def test_java_text_has_one_digit_of_fraction_at_least_and_no_zero_at_its_end() -> None:
    assert times(3).timestamp("0987-01-01 00:00:00") == "0987-01-01 00:00:00.0"
    assert times(3).timestamp("2024-01-01 00:00:00.123456780") == "2024-01-01 00:00:00.12345678"


def test_parts_that_are_left_out_are_zero() -> None:
    assert times(2).timestamp("2024-02-29") == "20240229000000000000000"
    assert times(2).timestamp("2024-02-29 12:34") == "20240229123400000000000"


def test_text_without_an_offset_is_in_the_zone_of_the_settings() -> None:
    assert times(1, "Europe/Berlin").timestamp("2024-07-01 02:00:00") == "1719792000"
    assert times(1).timestamp("2024-07-01 00:00:00") == "1719792000"
    assert times(1, "Europe/Berlin").date("1970-01-01") == "-3600"
    assert times(1, "Europe/Berlin").time("01:00:00") == "0"


def test_text_with_an_offset_is_brought_to_the_zone_of_the_settings() -> None:
    assert times(3, "Europe/Berlin").timestamp("2024-07-01T00:00:00Z") == "2024-07-01 02:00:00.0"


def test_seconds_before_1970_are_negative_and_whole() -> None:
    assert times(1).timestamp("1969-12-31 23:59:59.9") == "-1"


BEYOND: dict[TimeRange, tuple[list[str], list[str]]] = {
    "32-bit": (["1901-12-13 20:45:51", "2106-02-07 06:28:16"], ["1901-12-13 20:45:52"]),
    "unsigned": (["1969-12-31 23:59:59", "9999-12-31"], ["1970-01-01", "2106-02-07 06:28:15"]),
    "signed": (["2038-01-19 03:14:08", "9999-12-31"], ["2038-01-19 03:14:07", "1902-01-01"]),
    "any": ([], ["0001-01-01", "9999-12-31 23:59:59"]),
}
"""By range: moments outside of it and inside."""


@pytest.mark.parametrize("range_", get_args(TimeRange))
def test_seconds_outside_the_range_are_refused_with_the_setting_that_takes_them(
    range_: TimeRange,
) -> None:
    outside, inside = BEYOND[range_]
    for text in inside:
        assert int(times(1, range_=range_).timestamp(text)) in range(-(2**36), 2**38)
    for text in outside:
        with pytest.raises(ValueProblem, match='set time_range = "any"') as raised:
            times(1, range_=range_).timestamp(text)
        assert raised.value.reason is Reason.VALUE
        assert text in raised.value.detail
    with_text = [times(syntax, range_=range_) for syntax in (2, 3)]
    assert [len(one.timestamp("9999-12-31")) for one in with_text] == [23, 21]


def test_a_date_far_ahead_is_refused_unless_the_settings_take_it() -> None:
    with pytest.raises(ValueProblem, match="253402214400 seconds since 1970"):
        times(1).date("9999-12-31")
    assert times(1, range_="any").date("9999-12-31") == "253402214400"
    assert times(1, "Europe/Berlin", "unsigned").time("01:00:00") == "0"
    with pytest.raises(ValueProblem, match="-3600 seconds"):
        times(1, "Europe/Berlin", "unsigned").time("00:00:00")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("timestamp", ""),
        ("timestamp", "yesterday"),
        ("timestamp", "2023-02-29 00:00:00"),
        ("timestamp", "2024-01-01 24:00:00"),
        ("timestamp", "2024-01-01 23:59:60"),
        ("timestamp", "2024-01-01 00:00:00.1234567890"),
        ("timestamp", "2024-01-01 00:00:00+25:00"),
        ("timestamp", "0001-01-01 00:00:00+01:00"),
        ("timestamp", "infinity"),
        ("timestamp", "\u0662024-01-01 00:00:00"),
        ("timestamp", "0000-01-01"),
        ("date", "2024-01-01 00:00:01"),
        ("date", "2024-01-01 00:00:00.1"),
        ("date", "01/02/2024"),
        ("time", "25:00:00"),
        ("time", "2024-01-01 00:00:00"),
        ("time", "-01:00:00"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_form_to_write(what: str, text: str) -> None:
    with pytest.raises(ValueProblem, match=rf"is not a {what}.*(write|declare)") as caught:
        getattr(times(1), what)(text)
    assert caught.value.reason is Reason.VALUE


@given(st.datetimes(timezones=st.sampled_from([dt.UTC, BERLIN])))
@example(dt.datetime(1, 1, 1, tzinfo=BERLIN))
@example(dt.datetime.max.replace(tzinfo=BERLIN))
def test_seconds_are_those_of_the_moment(moment: dt.datetime) -> None:
    zone = "UTC" if moment.tzinfo is dt.UTC else "Europe/Berlin"
    if moment.fold:
        moment = moment.replace(fold=0)  # local text cannot say which of two it is
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    seconds = (moment - epoch) // dt.timedelta(seconds=1)
    assert times(1, zone, "any").timestamp(str(moment.replace(tzinfo=None))) == str(seconds)


@given(st.datetimes())
def test_canonical_and_java_text_have_every_digit(moment: dt.datetime) -> None:
    text = moment.isoformat(" ")
    canonical = times(2).timestamp(text)
    assert len(canonical) == 23
    assert dt.datetime.strptime(canonical[:-3], "%Y%m%d%H%M%S%f") == moment  # noqa: DTZ007
    assert times(3).timestamp(times(3).timestamp(text)) == times(3).timestamp(text)
