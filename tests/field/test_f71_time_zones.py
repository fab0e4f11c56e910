"""The machine's time zone has no part in any value.

A zone was missing or had been renamed, quotes in TZ broke it, and values shifted with the machine's
zone.
"""

from __future__ import annotations

import pytest

from tests.support.workbench import Workbench, event, log_file

pytestmark = pytest.mark.long

JOB = """
[[sources]]
snapshots = ["log.csv"]
time_zone = '{zone}'
[documents]
time_zone = '{zone}'
time_syntax = 3
[tables.usr]
columns = {{ born = "timestamp", day = "date", hour = "time" }}
"""
EVENTS = [
    event("idu=1", 3, "born", new="2026-05-01 10:00:00"),
    event("idu=1", 3, "day", new="2026-05-01"),
    event("idu=1", 3, "hour", new="10:00:00"),
]


@pytest.mark.parametrize("zone", ["Europe/Kyiv", "Europe/Kiev", "US/Eastern", "EST5EDT", "UTC"])
def test_documents_are_equal_in_every_zone_of_the_machine(bench: Workbench, zone: str) -> None:
    bench.write("log.csv", log_file(EVENTS))
    bench.write("job.toml", JOB.format(zone=zone))
    found = []
    for number, machine in enumerate(("UTC", "America/New_York", "Asia/Kathmandu", ":bad")):
        words = ("replay", "log.csv", "-c", "job.toml", "--to", f"out{number}")
        bench.run(*words, environment={"TZ": machine, "PGTZ": machine})
        found.append(bench.lines(f"out{number}"))
    assert found == [found[0]] * 4


@pytest.mark.parametrize("zone", ['"Europe/Berlin"', "../../etc/passwd", "Mars/Olympus", ""])
def test_an_unknown_zone_is_refused_by_name(bench: Workbench, zone: str) -> None:
    bench.write("log.csv", log_file(EVENTS))
    bench.write("job.toml", JOB.format(zone=zone))
    for words in (("replay", "log.csv", "--to", "out"), ("check",)):
        done = bench.run(*words, "-c", "job.toml", codes=[2, 3])
        assert "time_zone" in done.text
        assert zone in done.text
