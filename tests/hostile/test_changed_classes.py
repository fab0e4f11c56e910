"""Tables that change after their events were read: every event still has one outcome."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from publisher.database.options import DatabaseOptions
from publisher.model.keys import IdentifierCase
from tests.support.event_log_files import event, write
from tests.support.task_runs import lines, plan_all, planned_reader, read_all, work_of

SCHEMA = """
CREATE TABLE grp (idg INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE usr (a INTEGER, b INTEGER, fname TEXT, grp INTEGER REFERENCES grp, PRIMARY KEY (a, b));
CREATE TABLE phone (a INTEGER, b INTEGER, no TEXT, FOREIGN KEY (a, b) REFERENCES usr);
INSERT INTO grp VALUES (7, 'staff');
INSERT INTO usr VALUES (1, 1, 'Ann', 7), (1, 2, 'Bob', NULL);
INSERT INTO phone VALUES (1, 1, '555'), (1, 1, '556');
"""
REFUSED = """
DROP TABLE usr;
CREATE TABLE usr (a INTEGER, b INTEGER, fname TEXT, grp INTEGER, PRIMARY KEY (a, b),
                  FOREIGN KEY (grp, a) REFERENCES usr);
"""
TYPES = (1, 2, 3, 7, 8)
ONE_GONE = {"published": 6, "superseded": 10, "rejected": 10, "ignored": 2}
"""Outcomes without one attribute, on which ten events were logged."""


def events() -> list[dict[str, object]]:
    """All types of events on two users and their phones, then on a group."""
    rows: list[tuple[int, str, str, str | None]] = []
    for key in ("a=1+b=1", "a=1+b=2"):
        rows += [(kind, "phone", key, "no") for kind in TYPES]
        rows += [(kind, "usr", key, "fname") for kind in TYPES] + [(1, "usr", key, "grp")]
    rows += [(6, "usr", "a=1+b=1", None), (4, "usr", "a=1+b=2", None), (4, "usr", "a=1+b=3", None)]
    rows += [(kind, "grp", "idg=7", "name") for kind in (2, 3)] + [(6, "grp", "idg=8", None)]
    return [
        event(
            number,
            event_type=kind,
            table_name=table,
            table_key=key,
            column_name=column,
            new_value="1",
        )
        for number, (kind, table, key, column) in enumerate(rows, 1)
    ]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("", {"published": 6, "superseded": 19, "ignored": 3}),
        ("DROP TABLE usr", {"published": 4, "rejected": 23, "ignored": 1}),
        ("DROP TABLE phone", ONE_GONE),
        ("ALTER TABLE usr DROP COLUMN fname", ONE_GONE),
        ("ALTER TABLE phone RENAME COLUMN no TO number", ONE_GONE),
        (REFUSED, {"published": 2, "rejected": 25, "ignored": 1}),
    ],
)
@pytest.mark.parametrize("lanes", [1, 3])
def test_each_event_has_one_outcome_whatever_happens_to_its_table(
    statements: str, expected: dict[str, int], lanes: int, tmp_path: Path
) -> None:
    path = tmp_path / "hr.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
    work = work_of([write(tmp_path / "log.csv", events())], lanes=lanes)
    work = replace(
        work,
        sources=(replace(work.sources[0], identifier_case=IdentifierCase.DATABASE),),
        rules=replace(work.rules, database=DatabaseOptions(url=f"sqlite:///{path}")),
    )
    pieces = read_all(work)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)
    results = plan_all(work, pieces, tmp_path)
    decided = list(planned_reader(results, tmp_path).records())
    outcomes = Counter(record.outcome.label for record in decided)
    assert outcomes == expected
    assert len(decided) == len(events())
    group = [text for text in lines(results) if 'class-name="grp"' in text]
    assert len(group) == 1
