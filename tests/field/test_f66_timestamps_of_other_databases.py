"""A time is read whole or not at all.

Triggers on some databases wrote the database's own timestamp text into the log; the driver's guide
assumes ``yyyy-mm-dd hh:mm:ss.fffffffff`` only. Nothing may be read by half: no date without its time, no
fraction cut off, no local zone.
"""

from __future__ import annotations

import pytest

from tests.support.workbench import Workbench, event, log_file

REFUSED = [
    "2026-05-01-13.45.10.000000",
    "May  1 2026  1:45:10:123PM",
    "2026-05-01 13:45:10,123",
    "2026-05-01T13:45:10.1234567890",
    "2026-05-01 24:00:00",
    "2026-05-01 13:45:60",
    "2026-5-1 9:5:1",
    "20260501134510Z",
    "2026-02-30 00:00:00",
]
READ = {
    "2026-05-01 13:45:10": "1777643110",
    "2026-05-01T13:45:10Z": "1777643110",
    "2026-05-01 13:45:10.123456789": "1777643110",
    "2026-05-01 13:45:10+02:00": "1777635910",
}


@pytest.mark.parametrize("text", REFUSED)
def test_another_form_is_rejected(bench: Workbench, text: str) -> None:
    events = [
        event("idu=1", 3, "fname", new="a", event_time=text),
        event("idu=2", 3, "born", new=text),
        event("idu=3", 3, "born", new="2026-05-01 13:45:10"),
    ]
    bench.write("log.csv", log_file(events))
    bench.write(
        "job.toml",
        '[[sources]]\nsnapshots = ["log.csv"]\n[tables.usr]\ncolumns = { born = "timestamp" }\n',
    )
    bench.replay("log.csv", "-c", "job.toml")
    assert {reject.position: reject.reason for reject in bench.rejects()} == {
        "1": "event-time",
        "2": "value",
    }
    assert bench.objects() == {"idu=3,table=usr": {"born": ("1777643110",)}}


def test_the_documented_forms_are_read(bench: Workbench) -> None:
    events = [event(f"idu={n}", 3, "born", new=text) for n, text in enumerate(READ)]
    bench.write("log.csv", log_file(events))
    bench.write(
        "job.toml",
        '[[sources]]\nsnapshots = ["log.csv"]\n[tables.usr]\ncolumns = { born = "timestamp" }\n',
    )
    bench.replay("log.csv", "-c", "job.toml")
    seconds = [bench.objects()[f"idu={n},table=usr"]["born"] for n in range(len(READ))]
    assert seconds == [(text,) for text in READ.values()]
