"""An engine without Spark: the tasks of a run, one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa
import pytest

from publisher.activity.counts import Activity
from publisher.activity.work import Samples
from publisher.console import Progress
from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.engine.contract import Engine
from publisher.engine.shuffle_pieces import KEYS, unpack
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.survey import SurveyWork
from publisher.engine.tasks import Work, plan_lane
from publisher.errors import PublisherError
from publisher.journal.lane_writer import LaneResult
from publisher.sources.contract import ShuffleWork
from publisher.sources.local_tasks import shuffle_here
from tests.support.task_runs import read_all


class LocalEngine:
    """Plans and sends what it is given; ``failures`` are raised first, each in place of a plan."""

    def __init__(self, *failures: PublisherError | None) -> None:
        self.seconds = 0.0
        self.transactions = self.retries = 0
        self.failures = list(failures)
        self.lanes: list[int] = []
        """Lanes of each run that was planned."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends nothing."""

    def warm_up(self) -> None:
        """There is nothing to start."""

    def plan(
        self,
        work: Work,
        *,
        staging: Path,
        documents: Path,
        progress: Progress | None = None,
    ) -> list[LaneResult]:
        """See ``Engine``."""
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        pieces = read_all(work)
        self.lanes.append(work.lanes)
        results = []
        for lane in range(work.lanes):
            mine = pieces.filter([number == lane for number in pieces["lane"].to_pylist()])
            mine = mine.sort_by([(key, "ascending") for key in KEYS])
            records = unpack(mine.to_batches())
            results.append(
                plan_lane(
                    work, records, lane=lane, staging=staging, documents=documents, attempt="a"
                )
            )
        return results

    def survey(self, work: SurveyWork) -> list[pa.RecordBatch]:
        """See ``Engine``."""
        return [facts for _, facts in work.facts(range(len(work.items)))]

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``Engine``."""
        return shuffle_here(work)

    def send(self, lanes: Sequence[LaneSendTask]) -> list[LaneSendReport]:
        """See ``Engine``."""
        return [lane.send() for lane in lanes]

    def count_activity(self, samples: Samples) -> Activity:
        """Counts nothing: Spark's columns do it."""
        raise NotImplementedError


class EngineSwitch:
    """Decides which engine the runs of a test start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def use(self, make_engine: Callable[[], Engine] = LocalEngine) -> None:
        """Makes later runs start the engines that ``make_engine`` returns."""
        self._monkeypatch.setattr("publisher.engine.start.SparkEngine", lambda _: make_engine())

    def use_spark(self) -> None:
        """Makes later runs start Spark, as they do without this switch."""
        self._monkeypatch.setattr("publisher.engine.start.SparkEngine", SparkEngine)
