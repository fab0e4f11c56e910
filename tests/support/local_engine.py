"""The local engine in tests: for all runs of a test, or with failures on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from publisher.engine.contract import Engine
from publisher.engine.local.engine import LocalEngine
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.tasks import Work
from publisher.errors import PublisherError
from publisher.ledger.lane_result import LaneResult


class ScriptedEngine(LocalEngine):
    """Raises ``failures`` first, each in place of a plan (``None``: plans)."""

    def __init__(self, *failures: PublisherError | None) -> None:
        super().__init__()
        self.failures = list(failures)
        self.lanes: list[int] = []
        """Lanes of each run that was planned."""

    def plan(self, work: Work, **named: Any) -> list[LaneResult]:
        """See ``Engine``."""
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.lanes.append(work.lanes)
        return super().plan(work, **named)


class EngineSwitch:
    """Decides which engine the runs of a test start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def use(self, make_engine: Callable[[], Engine] = LocalEngine) -> None:
        """Makes later runs start the engines that ``make_engine`` returns."""
        self._monkeypatch.setattr("publisher.engine.start.AutoEngine", lambda _: make_engine())

    def use_spark(self) -> None:
        """Makes later runs start Spark, as they do for large input."""
        self._monkeypatch.setattr("publisher.engine.start.AutoEngine", SparkEngine)
