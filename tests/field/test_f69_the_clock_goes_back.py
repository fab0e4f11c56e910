"""A clock that goes back delays nothing.

After a step of the clock timers fired all at once, or not for hours.
"""

from __future__ import annotations

import shutil
import time

import pytest

from tests.field.changes import change, change_file
from tests.support.workbench import Workbench, event, log_file

pytestmark = pytest.mark.long

JOB = """
[[sources]]
name = "changes"
format = "change-table"
snapshots = ["in"]
source_table = "usr"
key = ["id"]
header_columns = 7
mask_order = "msb"
pair_wait = 1
[dispatch]
path = "out"
"""
LOG = """
[[sources]]
name = "log"
snapshots = ["in"]
[dispatch]
path = "out"
"""


AHEAD = ("faketime", "-f", "+2h")
"""Starts a program whose clock is two hours ahead."""


@pytest.mark.skipif(
    shutil.which("faketime") is None, reason="not proved: a clock that goes back (no faketime)"
)
def test_a_held_record_waits_by_the_clock_of_the_run(bench: Workbench) -> None:
    bench.write("job.toml", JOB)
    bench.write(
        "in/1.csv",
        change_file(
            ("id", "a"),
            [
                change(1, "I", [7, 8], id="1", a="a1"),
                change(2, "B", id="1", a="a1"),
                change(2, "U", [8], id="1", a="a2"),
                change(3, "U", [8], id="1", a="a3"),
            ],
        ),
    )
    held = bench.run("publish", "-c", "job.toml", "--json", prefix=AHEAD).report
    assert held["outcomes"]["held"] == 1
    bench.publish()
    time.sleep(1.5)
    bench.publish()
    assert bench.objects()["id=1,table=usr"]["a"] == ("a3",)


@pytest.mark.skipif(
    shutil.which("faketime") is None, reason="not proved: a clock that goes back (no faketime)"
)
def test_retention_keeps_the_runs_of_a_clock_that_was_ahead(bench: Workbench) -> None:
    bench.write("job.toml", LOG + "[ledger]\nretention_days = 1\n")
    for number, prefix in enumerate((("faketime", "-f", "+3d"), (), ())):
        bench.write(
            f"in/{number}.csv",
            log_file([event("idu=1", 3, "fname", new=str(number), record_id=number + 1)]),
        )
        bench.run("publish", "-c", "job.toml", prefix=prefix)
    assert bench.objects() == {"idu=1,table=usr": {"fname": ("2",)}}
    assert len(bench.lines()) == 3


def test_future_events_are_held_by_the_clock_of_the_run(bench: Workbench) -> None:
    bench.write(
        "log.csv", log_file([event("idu=1", 3, "fname", new="a", event_time="2026-05-01 12:00:00")])
    )
    bench.write("job.toml", '[[sources]]\nsnapshots = ["log.csv"]\nfuture_events = true\n')

    def outcome(hour: int, to: str) -> str:
        now = f"2026-05-01T{hour}:00:00Z"
        words = ("log.csv", "-c", "job.toml", "--now", now, "--json")
        outcomes: dict[str, int] = bench.replay(*words, to=to).report["outcomes"]
        return next(name for name, count in outcomes.items() if count)

    assert [outcome(11, "a"), outcome(13, "b"), outcome(11, "c")] == ["held", "published", "held"]
