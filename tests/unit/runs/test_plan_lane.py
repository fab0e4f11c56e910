"""An error in a lane gives up its files and ends its threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from publisher.errors import UnreachableError
from publisher.formats.record_packing import KEYS, unpack
from publisher.formats.work import Work
from publisher.ledger.lane_writer import LaneSpace, LaneWriter
from publisher.planning.lane import LanePlanner
from publisher.planning.polls import PollOptions
from publisher.planning.query_back import Answers, NoDatabase
from publisher.runs.plan_lane import LanePlan, plan_lane
from tests.support.event_log_files import event, write
from tests.support.task_runs import read_all, work_of

LANES = 3


@pytest.fixture
def work(tmp_path: Path) -> Work:
    rows = [event(at + 1, table_key=f"idu={at}", event_type=6) for at in range(900)]
    path = write(tmp_path / "log.jsonl", rows)
    return work_of([path], lanes=LANES, polls=PollOptions(10, 0))


@pytest.fixture
def reading_threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the threads that read rows; a lane has many chunks."""
    names: set[str] = set()
    read = NoDatabase.read

    def note(self: NoDatabase, *arguments: Any) -> Answers:
        names.add(threading.current_thread().name)
        return read(self, *arguments)

    monkeypatch.setattr(NoDatabase, "read", note)
    monkeypatch.setattr(LanePlanner, "fields_at_once", 20)
    return names


def plan(work: Work, folder: Path) -> None:
    """Plans all lanes."""
    pieces = read_all(work).sort_by([("lane", "ascending"), *((key, "ascending") for key in KEYS)])
    for lane in range(LANES):
        records = unpack(pieces.filter(pa.compute.equal(pieces["lane"], lane)).to_batches())
        plan_lane(work, LaneSpace(folder / "staging", folder / "documents"), lane, records)


@pytest.mark.parametrize("step", ["add", "close"])
@pytest.mark.parametrize("fails_at", range(LANES))
def test_an_error_gives_up_the_lane(
    work: Work,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    fails_at: int,
    reading_threads: set[str],
) -> None:
    opened: list[LanePlan] = []
    given_up: list[LaneWriter] = []
    abandon, create, method = LaneWriter.abandon, LanePlan.__init__, getattr(LanePlan, step)

    def note_plan(self: LanePlan, *arguments: Any) -> None:
        opened.append(self)
        create(self, *arguments)

    def fail(self: LanePlan, *arguments: object, **options: object) -> object:
        result = method(self, *arguments, **options)
        if opened.index(self) == fails_at:
            raise UnreachableError("gone")
        return result

    def note(self: LaneWriter) -> None:
        given_up.append(self)
        abandon(self)

    monkeypatch.setattr(LanePlan, "__init__", note_plan)
    monkeypatch.setattr(LanePlan, step, fail)
    monkeypatch.setattr(LaneWriter, "abandon", note)
    with pytest.raises(UnreachableError):
        plan(work, tmp_path)
    assert len(opened) == fails_at + 1
    assert len(given_up) == 1
    assert any(name.startswith("look-up") for name in reading_threads)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("look-up")]
