"""Rows are read in a thread before they are needed, and are used only if they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from publisher.engine import lane_tasks
from publisher.engine.shuffle_pieces import unpack
from publisher.errors import UnreachableError
from publisher.model.change import Object
from publisher.model.change_batches import objects_of
from publisher.planning.columnar.rows import ChangeColumns, Flags
from publisher.planning.columnar.rows_ahead import BatchRead, RowsAhead
from publisher.planning.planner import Planner
from publisher.planning.query_back import Answers, CurrentRow, CurrentRows, RefusedLookup
from publisher.planning.row_readers import PresentRows
from tests.support.event_log_files import event, write
from tests.support.task_runs import read_all, work_of

WAIT = 60
"""Seconds after which a look-up that does not begin fails a test."""


class Rows:
    """A look-up of rows with odd keys; others do not exist.  Remembers which objects were asked for."""

    def __init__(self, lengths: Sequence[int] = ()) -> None:
        """``lengths`` are the characters that are added to the values in each call."""
        self.lengths = iter(lengths)
        self.asked: list[list[Object]] = []
        self.begun = threading.Semaphore(0)
        self._calls: list[threading.Event] = []

    def read(self, objects: pa.RecordBatch) -> Answers:
        asked = objects_of(objects)
        ended = threading.Event()
        self.asked.append(asked)
        self._calls.append(ended)
        self.begun.release()
        ended.set()
        return self._answers(asked)

    def _answers(self, asked: Sequence[Object]) -> Answers:
        odd = {n: obj.key for n, obj in enumerate(asked) if int(obj.key[4:]) % 2}
        others: dict[int, RefusedLookup | None] = {
            n: None for n in range(len(asked)) if n not in odd
        }
        added = "x" * next(self.lengths, 0)
        rows = {n: CurrentRow(("idu",), (key[4:] + added,)) for n, key in odd.items()}
        return Answers([CurrentRows.of(rows)] if rows else [], others)

    def answers(self, *_: object) -> dict[Object, RefusedLookup | None]:
        raise AssertionError("rows are read by the column")


def changes(tmp_path: Path, first: int, end: int) -> ChangeColumns:
    """Query-backs of the objects with these numbers, in this order."""
    rows = [event(at + 1, table_key=f"idu={at}", event_type=6) for at in range(first, end)]
    work = work_of([write(tmp_path / f"{first}.jsonl", rows)])
    batch = pa.Table.from_batches(unpack(read_all(work).to_batches()))
    batch = batch.filter(batch["outcome"].is_null()).sort_by("rank")
    ranks = pa.array(range(first, end), pa.int64())
    batch = batch.set_column(batch.schema.get_field_index("rank"), "rank", ranks)
    return ChangeColumns.of(batch.combine_chunks().to_batches()[0])


def flags(rows: ChangeColumns, *unwanted: int) -> Flags:
    wanted = np.ones(len(rows.rank), np.bool_)
    wanted[list(unwanted)] = False
    return wanted


def answers_of(reads: Iterator[BatchRead]) -> list[tuple[int, bool]]:
    """The rows that have answers, and whether they exist."""
    found: list[tuple[int, bool]] = []
    for read in reads:
        places = [place for rows in read.answers.rows for place in rows.places.tolist()]
        of_part = [(place, True) for place in places]
        of_part += [(place, False) for place in read.answers.others]
        found += [(int(read.rows[place]), exists) for place, exists in sorted(of_part)]
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowsAhead, "first_rows", 1)
    monkeypatch.setattr(RowsAhead, "rows_at_once", 3)
    monkeypatch.setattr(RowsAhead, "short_rows_at_once", 3)


@pytest.mark.usefixtures("small")
def test_the_next_part_is_read_while_one_is_used(tmp_path: Path) -> None:
    rows, lookup, ends = changes(tmp_path, 0, 8), Rows(), list[int]()
    with closing(RowsAhead(PresentRows(lookup))) as ahead:
        parts = ahead.parts(rows, flags(rows), lambda: ends.append(len(lookup.asked)))
        for size, begun in ((1, 2), (3, 1), (3, 1), (1, 0)):
            assert len(next(parts).rows) == size
            assert all(lookup.begun.acquire(timeout=WAIT) for _ in range(begun))
        assert ends == [4]
        assert next(parts, None) is None
    assert [len(asked) for asked in lookup.asked] == [1, 3, 3, 1]


@pytest.mark.usefixtures("small")
def test_more_rows_are_read_at_once_after_short_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowsAhead, "first_rows", 2)
    monkeypatch.setattr(RowsAhead, "short_rows_at_once", 6)
    monkeypatch.setattr(RowsAhead, "bytes_at_once", 1000)  # half of the rows exist
    rows, lookup = changes(tmp_path, 0, 20), Rows((0, 300, 0))
    with closing(RowsAhead(PresentRows(lookup))) as ahead:
        parts = ahead.parts(rows, flags(rows), lambda: None)
        assert answers_of(parts) == [(n, n % 2 == 1) for n in range(20)]
    assert [len(asked) for asked in lookup.asked] == [2, 6, 3, 6, 3]


@pytest.mark.usefixtures("small")
def test_an_answer_to_a_question_waits_for_all_rows_that_are_read(tmp_path: Path) -> None:
    rows, lookup = changes(tmp_path, 0, 20), Rows()
    with closing(RowsAhead(PresentRows(lookup))) as ahead:
        parts = ahead.parts(rows, flags(rows), lambda: None)
        next(parts)
        with pytest.raises(AssertionError, match="rows are read by the column"):
            ahead.answers([])
        assert all(call.is_set() for call in lookup._calls)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("unwanted", [(), (0,), (1,), (0, 1, 2), (3,), range(8)])
def test_answers_for_rows_that_turn_out_to_be_superfluous_are_dropped(
    tmp_path: Path, unwanted: tuple[int, ...]
) -> None:
    rows, lookup = changes(tmp_path, 0, 8), Rows()
    with closing(RowsAhead(PresentRows(lookup))) as ahead:
        ahead.begin(rows, flags(rows))
        parts = ahead.parts(rows, flags(rows, *unwanted), lambda: None)
        assert answers_of(parts) == [(n, n % 2 == 1) for n in range(8) if n not in unwanted]
    asked = [obj.key for part in lookup.asked for obj in part]
    assert len(asked) == len(set(asked))  # none is read twice


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("unwanted", [(), (0,), (4,), (1, 2, 3), (3, 4, 5), range(3), range(6)])
@pytest.mark.parametrize(("length", "sizes"), [(0, [3, 3]), (5_000, [3])])
def test_short_rows_are_read_further_ahead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    length: int,
    sizes: list[int],
    unwanted: Sequence[int],
) -> None:
    monkeypatch.setattr(RowsAhead, "bytes_at_once", 1_000)
    rows, lookup = changes(tmp_path, 1, 13), Rows([length] * 20)
    with closing(RowsAhead(PresentRows(lookup))) as ahead:
        ahead.begin(rows, flags(rows))
        assert [lookup.begun.acquire(timeout=WAIT) for _ in sizes] == [True for _ in sizes]
        wait([begun.read for begun in ahead._reading])
        assert [len(asked) for asked in lookup.asked] == sizes
        parts = ahead.parts(rows, flags(rows, *unwanted), lambda: None)
        assert [n for n, _ in answers_of(parts)] == [n for n in range(12) if n not in unwanted]


@pytest.mark.usefixtures("small")
def test_rows_of_other_changes_that_were_begun_are_read_anew(tmp_path: Path) -> None:
    before, rows, lookup = changes(tmp_path, 0, 8), changes(tmp_path, 20, 25), Rows()
    with closing(RowsAhead(PresentRows(lookup))) as ahead:
        ahead.begin(before, flags(before))
        ahead.begin(rows, flags(rows))  # one batch at a time
        parts = ahead.parts(rows, flags(rows), lambda: None)
        assert answers_of(parts) == [(n, n % 2 == 1) for n in range(5)]
        ahead.begin(before, flags(before, 0))
        parts = ahead.parts(before, flags(before), lambda: None)
        assert answers_of(parts) == [(n, n % 2 == 1) for n in range(8)]


def test_a_failed_lane_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [event(at + 1, table_key=f"idu={at}", event_type=6) for at in range(400)]
    work = work_of([write(tmp_path / "log.jsonl", rows)])
    batches = list(unpack(read_all(work).to_batches()))
    threads: list[list[str]] = []

    def fail(_: Planner) -> None:
        threads.append([thread.name for thread in threading.enumerate()])
        raise UnreachableError("gone")

    monkeypatch.setattr(Planner, "finish", fail)
    with pytest.raises(UnreachableError):
        lane_tasks.plan_lane(
            work, batches, lane=0, staging=tmp_path / "s", documents=tmp_path / "d", attempt="try"
        )
    assert [name for name in threads[0] if name.startswith("look-up")]
    assert not [t.name for t in threading.enumerate() if t.name.startswith("look-up")]
