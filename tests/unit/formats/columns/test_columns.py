from __future__ import annotations

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from publisher.formats.columns.columns import Integers, integers, plain, texts, times


def pairs(found: Integers) -> list[int | None]:
    values, right = found
    return [
        value if good else None for value, good in zip(values.tolist(), right.tolist(), strict=True)
    ]


two = st.integers(0, 99).map(lambda number: f"{number:02}")
time_text = st.tuples(
    st.sampled_from(["2024", "0000", "0001", "9999", "1969", "24", "20240"]),
    st.sampled_from(["-", "", "/"]),
    st.sampled_from(["01", "12", "13", "1", "00"]),
    st.sampled_from(["-", "-", ""]),
    st.sampled_from(["01", "31", "29", "32"]),
    st.sampled_from([" ", "T", "", "  ", "t"]),
    st.sampled_from(["", "00", "23", "24"]),
    st.sampled_from([":", ""]),
    st.sampled_from(["", "59", "60", "5"]),
    st.sampled_from([":", ""]),
    st.sampled_from(["", "59", "60"]),
    st.sampled_from(["", ".", ".1", ".123456", ".1234567", ".123456789", ".1234567890", ",5"]),
    st.sampled_from(
        ["", "", "Z", "+02", "-0230", "+02:30", " +02", "+2", "+99:99", "UTC", "z", "+24"]
    ),
).map("".join)
plausible = st.builds(
    "{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}{}{}".format,
    st.integers(0, 9999),
    st.integers(0, 13),
    st.integers(0, 32),
    st.sampled_from(" T"),
    st.integers(0, 24),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from(["", ".5", ".123456", ".123456789", ".9999999"]),
    st.sampled_from(["", "", "Z", "+02:00", "-05", " +01"]),
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(time_text, plausible), st.sampled_from(["UTC", "Europe/Berlin"]))
@example("0000-01-01 00:00:00", "UTC")
@example("0001-01-01 00:00:00+02:00", "UTC")
@example("9999-12-31 23:00:00-02:00", "UTC")
@example("2024-03-31 02:30:00", "Europe/Berlin")
@example("2024-10-27 02:30:00", "Europe/Berlin")
def test_a_time_means_the_same_alone_and_among_others(text: str, zone: str) -> None:
    alone = pairs(times(pa.array([text]), zone))[0]
    others = ["?", "2024-01-01", "2024-01-01 00:00:00Z", None]
    for other in others:
        assert pairs(times(pa.array([other, text]), zone))[1] == alone


@settings(max_examples=200, deadline=None)
@given(st.datetimes(), st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]))
def test_times_are_those_of_the_standard_library(moment: dt.datetime, zone: str) -> None:
    expected = (
        moment.replace(tzinfo=ZoneInfo(zone)) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    ) // dt.timedelta(microseconds=1)
    exists = moment.replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC).astimezone(ZoneInfo(zone))
    if exists.replace(tzinfo=None) != moment or moment.year in (1, 9999) or moment.year < 1900:
        return  # a gap of the clocks, an end of the calendar, local mean time with seconds
    assert pairs(times(pa.array([moment.isoformat(" ")]), zone)) == [expected]
    assert pairs(times(pa.array([moment], pa.timestamp("us")), zone)) == [expected]


def test_native_times_of_every_unit_are_microseconds() -> None:
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "Asia/Tokyo"):
            array = (
                pa.array([int(moment.timestamp())], pa.int64())
                .cast(pa.timestamp("s"))
                .cast(pa.timestamp(unit, zone))
            )
            assert pairs(times(array, "UTC")) == [1_714_979_289_000_000]
    assert pairs(times(pa.array([moment.date()]), "UTC")) == [1_714_953_600_000_000]
    assert pairs(times(pa.array([-1], pa.timestamp("ns")), "UTC")) == [-1]


@pytest.mark.parametrize("array", [pa.array([1]), pa.array([True]), pa.nulls(1), pa.array([[1]])])
def test_what_is_no_time_is_not_right(array: pa.Array) -> None:
    assert pairs(times(array, "UTC")) == [None]


number_text = st.one_of(
    st.text(st.sampled_from("0123456789+-. xXeE_٣"), max_size=5),
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.integers(0, 99).map(lambda number: f" {number:03}"),
)


@settings(max_examples=400, deadline=None)
@given(number_text)
@example("0x10")
@example("9223372036854775808")
@example("-9223372036854775808")
def test_a_number_means_the_same_alone_and_among_others(text: str) -> None:
    alone = pairs(integers(pa.array([text])))[0]
    for other in ("?", "1", None):
        assert pairs(integers(pa.array([other, text])))[1] == alone
    if alone is not None:
        assert alone == int(text)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None], pa.int8()), [1, None]),
        (pa.array([1 << 63, 5], pa.uint64()), [None, 5]),
        (pa.array([1.0, 1.5, float("nan"), float("inf"), 1e300]), [1, None, None, None, None]),
        (pa.array([Decimal(7), Decimal("7.5")]), [7, None]),
        (pa.array([b"7", b"\xff"]), [7, None]),
        (pa.array(["7", "8", "7"]).dictionary_encode(), [7, 8, 7]),
        (pa.array(["7"], pa.large_string()), [7]),
        (pa.array([True, None]), [None, None]),
        (pa.array([dt.date.min]), [None]),
        (pa.nulls(1), [None]),
        (pa.array([], pa.string()), []),
    ],
)
def test_integers_of_all_types(array: pa.Array, expected: list[int | None]) -> None:
    assert pairs(integers(array)) == expected


@pytest.mark.parametrize(
    ("array", "expected", "right"),
    [
        (pa.array(["a", None, ""]), ["a", None, ""], [True, True, True]),
        (pa.array([b"a", b"\xff", None, b""]), ["a", None, None, ""], [True, False, True, True]),
        (pa.array([[1], None]), [None, None], [False, True]),
        (pa.array([1, None]), ["1", None], [True, True]),
        (pa.array([Decimal("1.50")]), ["1.50"], [True]),
        (pa.array([True]), ["true"], [True]),
        (pa.array(["a", "a"]).dictionary_encode(), ["a", "a"], [True, True]),
        (pa.nulls(2), [None, None], [True, True]),
    ],
)
def test_texts_of_all_types(array: pa.Array, expected: list[str | None], right: list[bool]) -> None:
    found, good = texts(array)
    assert found.type == pa.string()
    assert found.to_pylist() == expected
    assert np.array_equal(good, right)


def test_plain_leaves_no_dictionary_and_no_large_offsets() -> None:
    for array in (
        pa.array(["a"], pa.large_string()),
        pa.array(["a"]).dictionary_encode(),
        pa.array(["a"], pa.string_view()),
    ):
        assert plain(array).type == pa.string()
    assert plain(pa.array([b"ab"], pa.binary(2))).type == pa.binary()
