"""Hints that samples give to the triggerless mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from publisher.formats.table_queue.calls import Call, to_micros
from publisher.formats.table_queue.hints import Hints, TouchedTable, read_hints
from publisher.formats.table_queue.json_calls import json_line
from tests.support.table_queue_files import OPTIONS, call, element, text_file

OWNED = replace(OPTIONS, owners={5: "HR"})


def hints(path: Path, calls: Sequence[Call | str], since: int | None = None) -> Hints:
    lines = [each if isinstance(each, str) else json_line(each) for each in calls]
    return read_hints([text_file(path / "a.jsonl", lines)], OWNED, since)


def test_only_tables_with_the_flag_are_touched(tmp_path: Path) -> None:
    found = hints(
        tmp_path,
        [
            call(3, element("$$$USR", 1, 1)),
            call(4, element("PERSON", 5, 1)),
            call(5, element("DEPT", 5, 0)),
            call(6, element("PERSON", 6, 7)),
            call(7, element("$$$CHARSET", 1, 1)),
            call(8),
        ],
    )
    assert found.tables == {TouchedTable(5, "HR", "PERSON"), TouchedTable(6, None, "PERSON")}
    assert (found.calls, found.problems) == (6, 0)
    assert found.until == to_micros(call(8).time)


def test_only_calls_later_than_since_count(tmp_path: Path) -> None:
    calls = [call(4, element(name, 5, 1), sweep=n) for n, name in enumerate("ABC", 1)]
    since = to_micros(calls[1].time)
    found = hints(tmp_path, calls, since)
    assert {table.name for table in found.tables} == {"C"}
    assert found.calls == 1
    again = hints(tmp_path, calls, found.until)
    assert (again.tables, again.until, again.calls) == (frozenset(), found.until, 0)


def test_unusable_calls_are_counted(tmp_path: Path) -> None:
    found = hints(tmp_path, ["no JSON", call(4, b"short"), call(5, element("A", 5, 1))])
    assert (found.calls, found.problems, len(found.tables)) == (3, 2, 1)


def test_an_unusable_piece_has_the_time_of_the_next_call(tmp_path: Path) -> None:
    calls: list[Call | str] = [
        call(4, element("A"), sweep=1),
        "broken",
        call(4, element("A"), sweep=2),
        "half a li",
    ]
    assert hints(tmp_path, calls).problems == 1
    assert hints(tmp_path, calls, to_micros(call(4, sweep=1).time)).problems == 1
    assert hints(tmp_path, calls, to_micros(call(4, sweep=2).time)).problems == 0
    calls.append(call(4, element("A"), sweep=3))
    assert hints(tmp_path, calls, to_micros(call(4, sweep=2).time)).problems == 1


def test_there_may_be_no_samples_yet(tmp_path: Path) -> None:
    assert read_hints([tmp_path], OWNED) == Hints(frozenset(), None, 0, 0)


def test_bare_records_count_always(tmp_path: Path) -> None:
    path = tmp_path / "one.raw"
    path.write_bytes(b"".join(element(name, 5, 1) for name in ("$A", "$B", "$C", "PERSON")))
    found = read_hints([path], OWNED, since=1)
    assert found.tables == {TouchedTable(5, "HR", "PERSON")}
    assert found.until == 1
