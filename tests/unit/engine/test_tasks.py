"""Runs from files to staged files: the cut of the input, lanes and the shuffle's order change nothing."""

from __future__ import annotations

import json
import random
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.formats.work import Work
from publisher.ledger.conservation import check_conservation, outcome_counts
from publisher.ledger.lane_writer import PlannedLane
from publisher.ledger.tables import RECORDS
from publisher.model.change import Outcome
from tests.support.event_log_files import Row, event, write
from tests.support.plan_cases import COLUMNS, OBJECTS, TABLES, PlanCase, cases, rows_of
from tests.support.task_runs import lines, plan_all, read_all, results_of, work_of

DocumentTexts = dict[str, list[str]]


def database_of(case: PlanCase, path: Path) -> str | None:
    if case.rules.current is None:
        return None
    with sqlite3.connect(path) as connection:
        for table in TABLES:
            columns = ", ".join(f"{name} text" for name in COLUMNS)
            connection.execute(
                f"create table {table.name} ({table.key[0]} integer primary key, {columns})"
            )
        for obj in OBJECTS:
            row = case.rules.current[obj]
            if isinstance(row, dict):
                values = [int(obj.key.split("=")[1]), *(row.get(name) for name in COLUMNS)]
                marks = ", ".join("?" * len(values))
                connection.execute(f"insert into {obj.table} values ({marks})", values)
    connection.close()
    return f"sqlite:///{path}"


def plan_texts(lanes: Sequence[PlannedLane]) -> tuple[DocumentTexts, list[str]]:
    """Documents by association, and all decisions with their positions, in one order."""
    documents = defaultdict(list)
    for line in lines(lanes):
        (name,) = set(re.findall("<association>(.*?)</association>", line))
        documents[name].append(line)
    decisions = []
    for lane in lanes:
        entries = lane.rows.read(RECORDS).to_pylist()
        for entry in entries:
            by = entries[entry["by"]]["high"] if entry["by"] >= 0 else None
            same = [entry[name] for name in ("high", "key", "event_type", "outcome", "reason")]
            decisions.append(json.dumps([*same, by, entry["detail"]]))
    return documents, sorted(decisions)


def run(work: Work, folder: Path, chance: random.Random) -> list[PlannedLane]:
    lanes = plan_all(work, read_all(work, chance), folder)
    read = check_conservation(results_of(lanes), [range(len(work.splits()))])
    assert sum(outcome_counts(results_of(lanes)).values()) == read
    return lanes


@settings(max_examples=12)
@given(cases(), st.randoms(use_true_random=False), st.integers(1, 4), st.integers(2, 5))
def test_files_lanes_and_shuffle_change_nothing_for_an_object(
    case: PlanCase, chance: random.Random, files: int, lanes: int
) -> None:
    rows, setup = rows_of(case.changes), case.setup
    scattered: list[list[Row]] = [[] for _ in range(files)]
    for row in rows:
        chance.choice(scattered).append(row)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = database_of(case, folder / "db.sqlite")
        found = []
        for number, (parts, lane_count) in enumerate(((([rows]), 1), (scattered, lanes))):
            place = folder / str(number)
            place.mkdir()
            paths = []
            for at, part in enumerate(parts):
                suffix = chance.choice(["csv", "jsonl", "parquet"])
                paths.append(write(place / f"{at}.{suffix}", part))
            work = work_of(
                paths,
                lanes=lane_count,
                splits=chance.randint(1, 4),
                polls=setup.polls,
                filters=setup.filters,
                documents=setup.documents,
                tables=TABLES,
                database=database,
            )
            planned = run(work, place, chance)
            assert sum(outcome_counts(results_of(planned)).values()) == len(rows)
            found.append(plan_texts(planned))
    assert found[0] == found[1]


def test_a_lane_is_the_same_from_run_to_run(tmp_path: Path) -> None:
    rows = [event(at, table_key=f"idu={at % 7}") for at in range(1, 60)]
    path = write(tmp_path / "log.csv", rows)
    planned = []
    for attempt in range(2):
        work = work_of([path], lanes=3, splits=4)
        lanes = run(work, tmp_path / str(attempt), random.Random(attempt))
        planned.append([[lane.result.digest, *lane.rows.texts()] for lane in lanes])
        assert outcome_counts(results_of(lanes))[Outcome.PUBLISHED.label] == len(rows)
    assert planned[0] == planned[1]
    assert len(planned[0]) == 3


def test_a_lane_without_records_is_planned_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", [event(1)])
    lanes = run(work_of([path], lanes=5), tmp_path / "run", random.Random(0))
    assert [lane.result.lane for lane in lanes] == [0, 1, 2, 3, 4]
    assert sum(lane.rows.read(RECORDS).num_rows for lane in lanes) == 1
