"""A record that is lost or counted twice, wherever it happens, fails the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from publisher.errors import InternalError
from publisher.formats.record_packing import PIECE_SCHEMA, pack
from publisher.formats.work import Work, read_split
from publisher.ledger.conservation import check_conservation, outcome_counts, reason_counts
from publisher.ledger.lane_result import Count, LaneResult
from publisher.model.arrays import Int64Array
from publisher.model.change import TALLY, Outcome
from publisher.planning.lane import LanePlanner, PlanResult
from tests.support.event_log_files import Row, event, write
from tests.support.task_runs import plan_all, read_all, results_of, work_of

PUBLISHED = Outcome.PUBLISHED


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Two splits, three lanes, some records of every outcome that needs no database."""
    rows: list[Row] = [event(at, table_key=f"idu={at % 5}") for at in range(1, 21)]
    rows += [
        event(21, status="S"),
        event(22, event_type=9),
        event(23, old_value=None, new_value=None, table_key="idu=9"),
    ]
    rows += [event(20, table_key="idu=0"), event(25, event_type=6, table_key="idu=77")]
    half = len(rows) // 2
    paths = [write(tmp_path / "1.csv", rows[:half]), write(tmp_path / "2.jsonl", rows[half:])]
    return work_of(paths, lanes=3)


SPLITS = [[0, 1]]


def test_every_record_of_an_undisturbed_run_is_counted_once(work: Work, tmp_path: Path) -> None:
    results = results_of(plan_all(work, read_all(work), tmp_path))
    assert check_conservation(results, SPLITS) == 25
    assert outcome_counts(results) == {
        "published": 20,
        "superseded": 0,
        "ignored": 3,
        "held": 0,
        "rejected": 2,
    }
    assert reason_counts(results) == {
        "ignored": {"duplicate": 1, "nothing-to-publish": 1, "status": 1},
        "rejected": {"event-type": 1, "no-database": 1},
    }


def without_first_change(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    dropped = False
    for batch in batches:
        rows = [row for row, outcome in enumerate(batch["outcome"].to_pylist()) if outcome != TALLY]
        if rows and not dropped:
            yield from (batch.slice(0, rows[0]), batch.slice(rows[0] + 1))
            dropped = True
        else:
            yield batch
    assert dropped


def test_a_record_that_reading_drops_after_it_was_framed_fails_the_run(
    work: Work, tmp_path: Path
) -> None:
    pieces = [*pack(read_split(work, 0)), *pack(without_first_change(read_split(work, 1)))]
    lanes = plan_all(work, pa.Table.from_batches(pieces, PIECE_SCHEMA), tmp_path)
    with pytest.raises(InternalError, match="25 records were read, 24 have an outcome"):
        check_conservation(results_of(lanes), SPLITS)


def test_a_piece_that_the_shuffle_drops_fails_the_run(work: Work, tmp_path: Path) -> None:
    pieces = read_all(work)
    for dropped in range(pieces.num_rows):
        kept = pa.array([row for row in range(pieces.num_rows) if row != dropped])
        with pytest.raises(InternalError, match=r"outcome|not counted"):
            check_conservation(
                results_of(plan_all(work, pieces.take(kept), tmp_path / str(dropped))), SPLITS
            )


def test_a_piece_that_the_shuffle_doubles_fails_the_run(work: Work, tmp_path: Path) -> None:
    pieces = read_all(work)
    for double in range(pieces.num_rows):
        rows = pa.array([*range(pieces.num_rows), double])
        with pytest.raises(InternalError, match=r"outcome|counted twice"):
            check_conservation(
                results_of(plan_all(work, pieces.take(rows), tmp_path / str(double))), SPLITS
            )


@pytest.mark.parametrize("what", ["documents", "outcomes"])
def test_a_change_that_planning_forgets_fails_its_lane(
    what: str, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = LanePlanner.finish

    def forget_some(self: LanePlanner) -> Iterator[PlanResult]:
        for planned in finish(self):
            setattr(planned, what, getattr(planned, what)[1:])
            yield planned

    monkeypatch.setattr(LanePlanner, "finish", forget_some)
    with pytest.raises(InternalError, match="no decision"):
        plan_all(work, read_all(work), tmp_path)


def test_a_change_that_never_reaches_planning_fails_its_lane(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = LanePlanner.add

    def ignore_some(
        self: LanePlanner, rows: Int64Array, batch: pa.RecordBatch
    ) -> Iterator[PlanResult]:
        return add(self, rows[1:], batch.slice(1))

    monkeypatch.setattr(LanePlanner, "add", ignore_some)
    with pytest.raises(InternalError, match="no decision"):
        plan_all(work, read_all(work), tmp_path)


@pytest.mark.parametrize("what", ["documents", "outcomes"])
def test_a_change_that_is_decided_twice_fails_its_lane(
    what: str, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = LanePlanner.finish

    def double(self: LanePlanner) -> Iterator[PlanResult]:
        for planned in finish(self):
            setattr(planned, what, getattr(planned, what) * 2)
            yield planned

    monkeypatch.setattr(LanePlanner, "finish", double)
    with pytest.raises(InternalError, match="decided twice"):
        plan_all(work, read_all(work), tmp_path)


def result(lane: int, counts: tuple[Count, ...], *tallies: tuple[int, int]) -> LaneResult:
    return LaneResult(lane, 0, 0, (), counts, tallies, "")


def count_published(records: int, source: int = 0) -> Count:
    return Count(source, PUBLISHED, None, records)


def test_counts_that_add_up_give_the_number_of_records() -> None:
    results = [
        result(0, (count_published(2), Count(0, Outcome.IGNORED, "status", 1)), (1, 4)),
        result(1, (count_published(3),), (0, 2)),
    ]
    assert check_conservation(results, SPLITS) == 6
    assert check_conservation([], []) == 0


def test_a_tally_that_is_higher_than_the_outcomes_fails() -> None:
    with pytest.raises(InternalError, match="7 records were read, 6 have an outcome"):
        check_conservation([result(0, (count_published(6),), (0, 3), (1, 4))], SPLITS)


def test_a_tally_that_is_lower_than_the_outcomes_fails() -> None:
    with pytest.raises(InternalError, match="5 records were read, 6 have an outcome"):
        check_conservation([result(0, (count_published(6),), (0, 3), (1, 2))], SPLITS)


def test_a_split_that_did_not_report_fails_though_it_may_have_been_empty() -> None:
    with pytest.raises(InternalError, match=r"splits \[1\] of source 0"):
        check_conservation([result(0, (count_published(3),), (0, 3))], SPLITS)


def test_a_split_that_reported_twice_fails_though_the_sum_may_be_right() -> None:
    results = [result(0, (count_published(3),), (0, 3)), result(1, (), (0, 0), (1, 0))]
    with pytest.raises(InternalError, match="split 0 was counted twice"):
        check_conservation(results, SPLITS)


def test_a_split_that_is_none_of_the_run_fails() -> None:
    with pytest.raises(InternalError, match=r"\[2\]"):
        check_conservation([result(0, (count_published(3),), (0, 3), (1, 0), (2, 0))], SPLITS)


def test_one_source_does_not_make_up_for_another() -> None:
    results = [result(0, (count_published(3), count_published(3, source=1)), (0, 2), (1, 4))]
    with pytest.raises(InternalError, match="source 0"):
        check_conservation(results, [[0], [1]])
    assert check_conservation([replace(results[0], tallies=((0, 3), (1, 3)))], [[0], [1]]) == 6
