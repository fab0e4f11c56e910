"""Locations of rejected settings, as people count and name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.config.job_file import load
from publisher.errors import SettingsError

LINKEXPRESS = """
[[sources]]
format = "event-log"
snapshots = ["a", 3]

[[sources]]
name = "extracts"
format = "linkexpress"
unit = "group"
extract = "diff"
nulls = true

[[sources.tables]]
name = "usr"
xid = 1
items = ["idu INTEGER"]
key = ["idu"]

[[sources.tables]]
name = "dep"
xid = 2
items = ["idd INTEGER", "x BYTEA"]
key = ["idd"]

[[sources.tables]]
name = "loc"
xid = "3"
items = ["idl INTEGER", 4]
key = ["none"]

[[sources.tables]]
items = ["ide INTEGER"]
key = ["none"]
"""
QUEUE = """
[source]
format = "dispatch-queue"

[[source.tables]]
number = 7
name = "usr"
columns = ["id INTEGER"]
key = ["id"]

[[source.tables]]
number = 8
name = "dep"
columns = ["id INTEGER", "id INTEGER"]
key = ["id"]

[[source.tables]]
number = 9
columns = ["id INTEGER"]
key = ["no"]
"""
TRIGGERLESS = """
[source]
format = "triggerless"
tables = ["usr", 2]
"""


ABSENT = "is not among the columns or appears twice; name columns of the primary key"


def problems(text: str, tmp_path: Path) -> list[str]:
    (tmp_path / "job.toml").write_text(text, "utf-8")
    with pytest.raises(SettingsError) as caught:
        load(tmp_path / "job.toml")
    return caught.value.lines


def test_tables_of_arrays_are_counted_from_1_and_named(tmp_path: Path) -> None:
    found = problems(LINKEXPRESS, tmp_path)
    expected = [
        '[[sources]] snapshots 2: should be text in quotes, as "A", not 3 (line 4)',
        "[[sources]] 2 tables 2 (dep) items: x: 'BYTEA' is not a type",
        '[[sources]] 2 tables 3 (loc) xid: should be a whole number, not "3" (line 27)',
        '[[sources]] 2 tables 3 (loc) items 2: should be text in quotes, as "A", not 4 (line 28)',
        "[[sources]] 2 tables 4 name: is required (line 31)",
        "[[sources]] 2 tables 4 key: none is not among the items or appears twice",
    ]
    for problem, line in zip(found, expected, strict=True):
        assert problem.startswith(line), problem
    assert found[1].endswith("(line 22)")


def test_a_table_without_a_name_is_counted(tmp_path: Path) -> None:
    found = problems(QUEUE, tmp_path)
    assert found[0].startswith("[source] null_mode: is required for the images of table 7")
    assert found[1:] == [
        "[source] tables 2 (dep) columns: id appears twice; give each column its own name (line 14)",
        f"[source] tables 3 key: no {ABSENT} (line 20)",
    ]


def test_an_array_of_names_is_counted_from_1(tmp_path: Path) -> None:
    assert problems(TRIGGERLESS, tmp_path) == [
        '[source] tables 2: should be text in quotes, as "A", not 2 (line 4)'
    ]
