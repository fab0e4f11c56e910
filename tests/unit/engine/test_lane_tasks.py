"""Lanes overlap: rows of the next one are read while the files of one are completed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from publisher.engine.lane_tasks import LanePlan, plan_lanes
from publisher.engine.shuffle_pieces import KEYS, unpack
from publisher.engine.tasks import Work
from publisher.errors import UnreachableError
from publisher.journal.lane_writer import LaneFiles
from publisher.planning.query_back import Answers
from publisher.planning.row_readers import PresentRows
from tests.support.event_log_files import event, write
from tests.support.task_runs import read_all, work_of

LANES = 3
WAIT = 60
"""Seconds after which a look-up that does not begin fails a test."""


@pytest.fixture
def work(tmp_path: Path) -> Work:
    rows = [event(at + 1, table_key=f"idu={at}", event_type=6) for at in range(900)]
    return work_of([write(tmp_path / "log.jsonl", rows)], lanes=LANES)


@pytest.fixture
def lanes_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Is released once for each look-up; afterwards no thread is left."""
    begun, read = threading.Semaphore(0), PresentRows.read

    def note(self: PresentRows, objects: pa.RecordBatch) -> Answers:
        begun.release()
        return read(self, objects)

    monkeypatch.setattr(PresentRows, "read", note)
    yield begun
    assert not [t.name for t in threading.enumerate() if t.name.startswith("look-up")]


def plan(work: Work, folder: Path) -> list[int]:
    """Plans all lanes; returns the numbers of those that are finished."""
    pieces = read_all(work).sort_by([("lane", "ascending"), *((key, "ascending") for key in KEYS)])
    lanes = (
        (lane, unpack(pieces.filter(pa.compute.equal(pieces["lane"], lane)).to_batches()))
        for lane in range(LANES)
    )
    results = plan_lanes(
        work, lanes, staging=folder / "staging", documents=folder / "documents", attempt="try"
    )
    return [result.lane for result in results]


def test_rows_of_the_next_lane_are_read_before_the_files_of_one_are_complete(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lanes_read: threading.Semaphore
) -> None:
    close = LaneFiles.close
    completed: list[LaneFiles] = []

    def wait_for_next(self: LaneFiles, *arguments: int, **options: bool) -> object:
        if len(completed) + 1 < LANES:
            assert lanes_read.acquire(timeout=WAIT)  # of this lane, or an earlier one
            assert lanes_read.acquire(timeout=WAIT)
            lanes_read.release()
        completed.append(self)
        return close(self, *arguments, **options)

    monkeypatch.setattr(LaneFiles, "close", wait_for_next)
    assert plan(work, tmp_path) == list(range(LANES))


@pytest.mark.parametrize("step", ["begin", "add", "close"])
@pytest.mark.parametrize("fails_at", range(LANES))
@pytest.mark.usefixtures("lanes_read")
def test_an_error_gives_up_all_lanes_that_are_open(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fails_at: int
) -> None:
    opened: list[LanePlan] = []
    given_up: list[LaneFiles] = []
    abandon, create, method = LaneFiles.abandon, LanePlan.__init__, getattr(LanePlan, step)

    def note_plan(self: LanePlan, *arguments: Any) -> None:
        opened.append(self)
        create(self, *arguments)

    def fail(self: LanePlan, *arguments: object, **options: object) -> object:
        if opened.index(self) == fails_at:
            raise UnreachableError("gone")
        return method(self, *arguments, **options)

    def note(self: LaneFiles) -> None:
        given_up.append(self)
        abandon(self)

    monkeypatch.setattr(LanePlan, "__init__", note_plan)
    monkeypatch.setattr(LanePlan, step, fail)
    monkeypatch.setattr(LaneFiles, "abandon", note)
    with pytest.raises(UnreachableError):
        plan(work, tmp_path)
    is_next_open = step == "close" and fails_at + 1 < LANES
    is_last_open = step == "begin" and fails_at > 0
    assert len(given_up) == 1 + is_next_open + is_last_open
