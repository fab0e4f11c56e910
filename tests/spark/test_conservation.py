"""A record that is lost on purpose, in reading, in the shuffle or in planning, fails the whole run.

What the tasks call is replaced in the driver by functions that travel to them by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from publisher.config.settings import Settings
from publisher.errors import InternalError
from publisher.ledger.read import OF_REPLAY
from publisher.ledger.storage import query
from publisher.runs import run as spine
from publisher.runs.replay import replay
from tests.support import whole_log as log
from tests.support.event_log_files import event, write

pytestmark = pytest.mark.usefixtures("spark")

EVENTS = 40
Tasks = Callable[..., Any]


def losing_reader(read: Tasks) -> Tasks:
    def read_split(*arguments: object) -> Iterator[pa.RecordBatch]:
        for batch in read(*arguments):
            ids = batch["high"].to_pylist()
            yield batch.take(pa.array([i for i, at in enumerate(ids) if at != 17], pa.int64()))

    return read_split


def losing_shuffle(unpack: Tasks) -> Tasks:
    def unpack_changed(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in unpack(pieces):
            rows = [i for i, at in enumerate(batch["high"].to_pylist()) if at != 17]
            yield batch.take(pa.array(rows, pa.int64()))

    return unpack_changed


def doubling_shuffle(unpack: Tasks) -> Tasks:
    def unpack_changed(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in unpack(pieces):
            ids = batch["high"].to_pylist()
            twice = [i for i, at in enumerate(ids) for _ in range(1 + (at == 17))]
            yield batch.take(pa.array(twice, pa.int64()))

    return unpack_changed


def losing_plan(plan_lane: Tasks) -> Tasks:
    def plan_changed(*arguments: object, **named: object) -> object:
        import pyarrow.compute as pc

        from publisher.planning.lane import LanePlanner  # in the task

        finish = LanePlanner.finish

        def forgetting(self: Any) -> Iterator[Any]:
            for planned in finish(self):
                planned.documents = [
                    found.filter(pc.not_equal(found["high"], 17)) for found in planned.documents
                ]
                yield planned

        LanePlanner.finish = forgetting  # type: ignore[method-assign]
        try:
            return plan_lane(*arguments, **named)
        finally:
            LanePlanner.finish = finish  # type: ignore[method-assign]

    return plan_changed


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    rows = [event(at, table_key=f"idu={at}") for at in range(1, EVENTS + 1)]
    return write(tmp_path / "log.csv", rows)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return log.settings(tmp_path / "job.toml")


@pytest.mark.parametrize(
    ("name", "lose", "message"),
    [
        ("read_split", losing_reader, f"{EVENTS} records were read, {EVENTS - 1} have an outcome"),
        ("unpack", losing_shuffle, f"{EVENTS} records were read, {EVENTS - 1} have an outcome"),
        ("unpack", doubling_shuffle, f"{EVENTS} records were read, {EVENTS + 1} have an outcome"),
        ("plan_lane", losing_plan, "has no decision"),
    ],
    ids=["lost in reading", "lost in the shuffle", "doubled in the shuffle", "lost in planning"],
)
def test_a_record_that_is_lost_or_doubled_fails_the_run_and_nothing_is_published(
    name: str,
    lose: Callable[[Tasks], Tasks],
    message: str,
    snapshot: Path,
    settings: Settings,
    tmp_path: Path,
) -> None:
    target = tmp_path / "out"
    with pytest.MonkeyPatch.context() as monkeypatch:
        if name == "unpack":
            lossy = replace(spine.LANES, divide=None, unpack=lose(spine.LANES.unpack))
            monkeypatch.setattr(spine, "LANES", lossy)
        else:
            monkeypatch.setattr(spine, name, lose(getattr(spine, name)))
        with pytest.raises(InternalError, match=message):
            replay(settings, [snapshot], str(target))
    assert not list(target.glob("part-*"))
    assert not query(target / OF_REPLAY, "SELECT 1 FROM run")
    report = replay(settings, [snapshot], str(target))
    assert (report.state, report.read) == ("published", EVENTS)
    assert len(log.lines(target)) == EVENTS
