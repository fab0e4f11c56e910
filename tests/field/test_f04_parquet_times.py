"""Times of Parquet keep their digits and their day.

Nanosecond columns raised an error, came as long integers, or lost three digits; INT96 was read with a
shift, and beyond 64-bit nanoseconds it wrapped. INT96 holds a Julian day and the nanoseconds of the day.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.workbench import Workbench

JOB = """
[[sources]]
name = "cmp"
format = "triggerless"
snapshots = ["in"]
key = {{ usr = ["id"] }}
[dispatch]
path = "out"
[documents]
time_syntax = {syntax}
[tables.usr]
columns = {{ id = "int", t = "timestamp" }}
"""
NANOSECONDS = 1772359200_123456789


def published(bench: Workbench, times: pa.Array, syntax: int, **options: object) -> list[str]:
    bench.write("job.toml", JOB.format(syntax=syntax))
    bench.write("in/.keep", "")
    ids = pa.array(range(len(times)), pa.int64())
    table = pa.table({"id": ids, "t": times})
    pq.write_table(table, bench.folder / "in" / "usr.parquet", **options)
    bench.publish()
    objects = bench.objects()
    return [objects.get(f"id={n},table=usr", {}).get("t", ("",))[0] for n in range(len(times))]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_are_exact(bench: Workbench, zone: str | None) -> None:
    times = pa.array([NANOSECONDS], pa.timestamp("ns", zone))
    assert published(bench, times, 2) == ["20260301100000123456789"]


def test_microseconds_and_seconds_are_exact(bench: Workbench) -> None:
    times = pa.array([NANOSECONDS // 1000], pa.timestamp("us"))
    assert published(bench, times, 2) == ["20260301100000123456000"]


def test_int96_is_the_day_that_it_names(bench: Workbench) -> None:
    milliseconds = [631152000000, 253402214400000, -30610224000000]
    times = pa.array(milliseconds, pa.timestamp("ms"))
    found = published(bench, times, 3, use_deprecated_int96_timestamps=True)
    dates = ["1990-01-01 00:00:00.0", "9999-12-31 00:00:00.0", "1000-01-01 00:00:00.0"]
    assert found[0] == dates[0]
    for text, date in zip(found[1:], dates[1:], strict=True):
        assert text in (date, "")
    assert {reject.reason for reject in bench.rejects()} <= {"value"}
