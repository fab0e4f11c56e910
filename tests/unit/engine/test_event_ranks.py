"""Ranks of events: places among the distinct usable record ids, whatever the splits and their order."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publisher.errors import InternalError
from publisher.formats.columns.record_batches import Place, batch
from publisher.formats.event_ranks import LaneRanks, with_ids
from publisher.ledger.conservation import outcome_counts
from publisher.model import sorted_ids
from publisher.model.change import IDS, Change, Position
from publisher.model.sorted_ids import IdGatherer, open_ids
from publisher.planning.polls import PollOptions
from tests.support import plan_oracle
from tests.support.event_log_files import Row, event, write
from tests.support.plan_cases import TABLES, PlanCase, cases, rows_of
from tests.support.task_runs import lines, plan_all, read_all, results_of, work_of


def records(ids: Sequence[int], split: int) -> pa.RecordBatch:
    return batch(len(ids), high=np.array(ids, np.int64), split=split, part="")


def ranks(folder: Path, splits: Sequence[Sequence[Sequence[int]]], ids: Sequence[int]) -> list[int]:
    """Ranks of ids, given the batches of ids of each split."""
    lane = LaneRanks(folder, range(len(splits)))
    for number, batches in enumerate(splits):
        place = Place(0, number, "log", 2)
        *_, notes = with_ids((records(one, number) for one in batches), place, folder)
        assert notes.column("outcome").to_pylist() == [IDS, IDS]
        assert notes.column("lane").to_pylist() == [0, 1]
        lane.add_notes(notes.slice(1))
    lane.check()
    found: list[int] = lane.rank(records(ids, 0)).column("rank").to_pylist()
    return found


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that leave memory after seven."""
    monkeypatch.setattr(sorted_ids, "IDS_AT_ONCE", 7)


some_ids = st.one_of(
    st.integers(1, 60), st.integers(1, 2**63 - 1), st.integers(2**63 - 9, 2**63 - 1)
)
batches = st.lists(st.lists(some_ids, max_size=12), max_size=5)


@pytest.mark.usefixtures("small_portions")
@settings(max_examples=150)
@given(splits=st.lists(batches, min_size=1, max_size=12), in_order=st.booleans())
def test_a_rank_is_the_place_among_the_distinct_ids_of_all_splits(
    splits: list[list[list[int]]], *, in_order: bool
) -> None:
    if in_order:  # as a table that is read by ranges of ids
        ids = iter(sorted(number for batches in splits for one in batches for number in one))
        splits = [[[next(ids) for _ in one] for one in batches] for batches in splits]
    distinct = sorted({number for batches in splits for one in batches for number in one})
    with tempfile.TemporaryDirectory() as name:
        assert ranks(Path(name), splits, distinct) == list(range(1, len(distinct) + 1))


@pytest.mark.usefixtures("small_portions")
def test_splits_in_any_order_leave_their_files_and_the_merged_one(tmp_path: Path) -> None:
    chance = random.Random(1)
    splits = [[chance.sample(range(1, 500), 40)] for _ in range(14)]
    ids = sorted({number for ((*one,),) in splits for number in one})
    assert ranks(tmp_path, splits, ids) == list(range(1, len(ids) + 1))
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 15
    assert [name.startswith("merged-") for name in sorted(names)].count(True) == 1
    assert not [name for name in names if "run" in name or "." in name]


def test_few_ids_without_gaps_are_not_written(tmp_path: Path) -> None:
    greatest = 2**63 - 1
    assert ranks(tmp_path / "apart", [[[4, 5], [6]], [[greatest]]], [5, greatest]) == [2, 4]
    assert not (tmp_path / "apart").exists()
    overlapping = [[[greatest - 1, greatest]], [[greatest]], [[1, 2, 3]]]
    assert ranks(tmp_path, overlapping, [3, greatest]) == [3, 5]
    assert [path.name.partition("-")[0] for path in tmp_path.iterdir()] == ["merged"]


def test_ascending_ids_are_gathered_in_flat_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_ids, "IDS_AT_ONCE", 1 << 14)
    ids = np.arange(1, 1_500_001, dtype=np.int64) * 3
    tracemalloc.start()
    try:
        gatherer = IdGatherer(tmp_path, "0")
        for start in range(0, len(ids), 5_000):
            gatherer.add(ids[start : start + 5_000])
        file = gatherer.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert file is not None
    assert np.array_equal(open_ids(tmp_path / file.name), ids)
    assert peak < ids.nbytes / 6


def test_late_ids_are_sorted_into_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_ids, "IDS_AT_ONCE", 1 << 10)
    ids = np.random.default_rng(0).permutation(np.arange(1, 50_001, dtype=np.int64) * 3)
    gatherer = IdGatherer(tmp_path, "0")
    for start in range(0, len(ids), 500):
        gatherer.add(ids[start : start + 500])
    file = gatherer.close()
    assert file is not None
    assert (file.size, file.first, file.last) == (50_000, 3, 150_000)
    assert np.array_equal(open_ids(tmp_path / file.name), np.sort(ids))


def test_an_id_that_was_not_gathered_and_a_split_without_note_fail_the_lane(tmp_path: Path) -> None:
    for known in ([5, 6, 7], [5, 7, 9]):
        for strange in (4, 8, 10):
            with pytest.raises(InternalError, match=f"record_id {strange} was not gathered"):
                ranks(tmp_path, [[known]], [strange])
    with pytest.raises(InternalError, match="split 1, 2 were not counted"):
        LaneRanks(tmp_path, range(1, 3)).check()


def plan_documents(
    rows: Sequence[Row], folder: Path, options: PollOptions, *, files: int
) -> list[str]:
    """The documents of rows that are scattered over files; current rows are in a database."""
    folder.mkdir()
    paths = [write(folder / f"{n}.csv", list(rows[n::files])) for n in range(files)]
    database = folder / "rows.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table usr (idu integer primary key, fname text)")
        connection.execute("insert into usr values (1, 'now')")
    connection.close()
    work = work_of(paths, splits=files, polls=options, database=f"sqlite:///{database}")
    results = plan_all(work, read_all(work), folder)
    assert sum(outcome_counts(results_of(results)).values()) == len(rows)
    return lines(results)


def update_event(record_id: int, event_type: int = 3, **more: object) -> Row:
    return event(record_id, event_type=event_type, **{"new_value": f"v{record_id}", **more})


@pytest.fixture(params=[1, 3])
def files(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_a_gap_in_record_ids_ends_no_poll(tmp_path: Path, files: int) -> None:
    rows = [update_event(9_000), update_event(10_200, 8)]
    documents = plan_documents(rows, tmp_path / "a", PollOptions(), files=min(files, 2))
    assert len(documents) == 1
    assert ">now<" in documents[0]


def test_polls_are_counted_in_events(tmp_path: Path, files: int) -> None:
    rows = [update_event(7 * n * n + 5, 3 if n < 4 else 8) for n in range(1, 7)]
    sizes = {}
    for size in range(1, 7):
        options = PollOptions(poll_size=size, poll_slack=0)
        sizes[size] = len(plan_documents(rows, tmp_path / str(size), options, files=files))
    # types 3 3 3 8 8 8: those of a poll are one document, an 8 supersedes the others
    assert sizes == {1: 6, 2: 3, 3: 2, 4: 2, 5: 2, 6: 1}


def test_the_slack_is_a_distance_in_events(tmp_path: Path, files: int) -> None:
    others = [update_event(n, table_key="idu=9") for n in (3_000, 4_000, 5_000)]
    rows = [
        update_event(1_000),
        update_event(2_000, table_key="idu=9"),
        *others,
        update_event(6_000, 8),
    ]
    for slack, documents in ((4, 3), (5, 2)):
        options = PollOptions(poll_size=3, poll_slack=slack)
        mine = [
            line
            for line in plan_documents(rows, tmp_path / str(slack), options, files=files)
            if "idu=1," in line
        ]
        assert len(mine) == documents - 1


def test_rejected_and_excluded_rows_with_an_id_count_as_events_and_processed_rows_do_not(
    tmp_path: Path, files: int
) -> None:
    between = [update_event(20, event_type=9), update_event(30, table_name="mysql.user")]
    rows = [update_event(10), *between, update_event(40, 8)]
    cut = PollOptions(poll_size=3, poll_slack=0)
    assert len(plan_documents(rows, tmp_path / "rejects", cut, files=files)) == 2
    rows = [update_event(10), *(row | {"status": "S"} for row in between), update_event(40, 8)]
    assert len(plan_documents(rows, tmp_path / "processed", cut, files=files)) == 1
    nameless = [row | {"record_id": None} for row in between]
    rows = [update_event(10), *nameless, update_event(10), update_event(40, 8)]
    cut = PollOptions(poll_size=2, poll_slack=0)
    assert len(plan_documents(rows, tmp_path / "twice", cut, files=files)) == 1


def without_false_twins(changes: Sequence[Change]) -> list[Change]:
    """Without other records of the same position: which one is true is not part of the rules."""
    first: dict[Position, Change] = {}
    for change in changes:
        first.setdefault(change.position, change)
    return [c for c in changes if c._replace(row=0) == first[c.position]._replace(row=0)]


def is_readable(change: Change) -> bool:
    """Whether the reader accepts the record: Base64 that is wrong rejects it before there are polls, so
    that it counts for ranks only."""
    images = [change.new] + ([change.old] if change.event_type == 2 else [])
    return change.event_type > 3 or not any(
        (column, value) == ("p", "?")
        for image in images
        for column, value in zip(change.columns, image or (), strict=False)
    )


def move_changes(changes: Sequence[Change], ids: Sequence[int]) -> list[Change]:
    """The changes at other record ids, of a table without schema."""
    return [
        change._replace(
            position=change.position._replace(high=ids[change.position.high - 1]),
            object=change.object._replace(schema=None),
        )
        for change in changes
    ]


@settings(max_examples=50, deadline=None)
@given(
    cases(),
    st.randoms(use_true_random=False),
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.integers(1, 9), min_size=96, max_size=96),
)
def test_files_give_what_the_rules_give_by_hand(
    case: PlanCase, chance: random.Random, files: int, lanes: int, gaps: list[int]
) -> None:
    """Ids with gaps, scattered over files that overlap, against ranks counted by hand."""
    rules = replace(case.rules, current=None, now=None)
    setup = replace(case, rules=rules).setup
    changes = move_changes(without_false_twins(case.changes), np.cumsum(gaps).tolist())
    known = {change.position.high for change in changes}
    free = [number for number in range(1, max(known, default=1)) if number not in known]
    rejects, processed = free[::3], free[1::3]
    rows = rows_of(changes)
    rows += [event(number, event_type=9) for number in rejects]
    rows += [event(number, status="S") for number in processed]
    chance.shuffle(rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: list[list[Row]] = [[] for _ in range(files)]
        for row in rows:
            chance.choice(parts).append(row)
        kinds = [chance.choice(["csv", "parquet"]) for _ in parts]
        work = work_of(
            [write(folder / f"{n}.{kinds[n]}", part) for n, part in enumerate(parts)],
            lanes=lanes,
            splits=chance.randint(1, 4),
            polls=setup.polls,
            filters=setup.filters,
            documents=setup.documents,
            tables=TABLES,
        )
        documents = sorted(lines(plan_all(work, read_all(work, chance), folder)))
    ranked = plan_oracle.rank_changes(changes, [*known, *rejects])
    expected = plan_oracle.plan(filter(is_readable, ranked), rules, frozenset())
    assert documents == sorted(text for _, _, text, _ in expected.documents)
