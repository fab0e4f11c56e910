"""The log of a following publisher."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime

from publisher.errors import FatalError, UnreachableError
from publisher.observing.contract import Observers
from publisher.observing.log_lines import LogLines
from tests.support.poll_recorder import poll


def log(*, as_json: bool = False) -> tuple[io.StringIO, LogLines]:
    stream = io.StringIO()
    clock = datetime(2026, 11, 21, 16, 0, 0, 999_999, tzinfo=UTC)
    return stream, LogLines(stream, as_json=as_json, clock=lambda: clock)


def test_a_poll_is_one_line() -> None:
    stream, lines = log()
    lines.on_poll(poll())
    assert stream.getvalue() == (
        "2026-11-21T16:00:00Z people-000017 read 1,200 published 1,150 superseded 30 ignored 15 "
        "rejected 5 documents 400 (300 modify, 100 add) lag 1.2 s in 0.8 s\n"
    )


def test_a_poll_without_effect() -> None:
    stream, lines = log()
    outcomes = {"published": 0, "superseded": 0, "ignored": 0, "held": 2, "rejected": 0}
    held = poll(read=2, outcomes=outcomes, documents=0, operations={})
    lines.on_poll(replace(held, oldest=None))
    assert stream.getvalue().endswith(" read 2 published 0 held 2 documents 0 in 0.8 s\n")


def test_the_notes_of_a_poll_follow_it() -> None:
    noted = poll(notes=("late: 2 records", "empty: a\nb.csv"))
    stream, lines = log()
    lines.on_poll(noted)
    assert [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()[1:]] == [
        "people-000017 note: late: 2 records",
        r"people-000017 note: empty: a\nb.csv",
    ]
    stream, lines = log(as_json=True)
    lines.on_poll(noted)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["notes"] == ["late: 2 records", "empty: a\nb.csv"]


def test_the_same_as_json() -> None:
    stream, lines = log(as_json=True)
    lines.on_poll(poll())
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["time"] == "2026-11-21T16:00:00Z"
    assert entry["event"] == "poll"
    assert entry["run"] == "people-000017"
    assert sum(entry["outcomes"].values()) == entry["read"] == 1200
    assert entry["outcomes"]["held"] == 0
    assert entry["reasons"]["rejected"] == {"table-key": 2, "event-time": 3}
    assert entry["operations"] == {"add": 100, "modify": 300}
    assert entry["statuses"] == {"E": 5, "S": 1180, "W": 15}
    assert (entry["lag"], entry["seconds"], entry["waiting"]) == (1.23, 0.81, 1200)
    assert (entry["transactions"], entry["retries"]) == (8, 1)


def test_all_that_happens_between() -> None:
    text, lines = log()
    data, objects = log(as_json=True)
    both = Observers((lines, objects))
    both.on_start("people", "kafka://broker:9092/xds", ["run people-000016 was sent first"])
    both.on_idle(0, None)
    both.on_failure(UnreachableError("the broker is away: see that it runs"), 2.0)
    both.on_failure(FatalError("the repair failed"), None)
    both.on_stop("stop requested")
    assert [line.split(" ", 1)[1] for line in text.getvalue().splitlines()] == [
        "people publishes continuously to kafka://broker:9092/xds",
        "run people-000016 was sent first",
        "the broker is away: see that it runs; retrying in 2 s",
        "the repair failed",
        "ended: stop requested",
    ]
    found = [json.loads(line) for line in data.getvalue().splitlines()]
    assert [entry["event"] for entry in found] == ["begun", "failed", "failed", "ended"]
    assert found[0]["notes"] == ["run people-000016 was sent first"]
    assert (found[1]["exit_code"], found[1]["again_in"]) == (5, 2.0)


def test_nothing_drives_a_terminal_or_breaks_a_line() -> None:
    for as_json in (False, True):
        stream, lines = log(as_json=as_json)
        lines.on_failure(UnreachableError("a\nb\x1b[2J\u2028"), 1.0)
        assert stream.getvalue().count("\n") == 1
        assert stream.getvalue().rstrip("\n").isprintable()
