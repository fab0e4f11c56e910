"""The local engine in tests: for all runs of a test, or with failures on demand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from publisher.engine.contract import Engine
from publisher.engine.local import LocalEngine
from publisher.engine.local_rows import LocalRows
from publisher.engine.spark.engine import SparkEngine
from publisher.errors import PublisherError


class ScriptedEngine(LocalEngine):
    """Raises ``failures`` first, each in place of a plan (``None``: plans)."""

    def __init__(self, *failures: PublisherError | None) -> None:
        super().__init__()
        self.failures = list(failures)
        self.lanes: list[int] = []
        """Lanes of each run that was planned."""

    def read(self, splits: Any, decode: Any, name: str) -> LocalRows:
        """See ``Engine``."""
        if plan := re.match(r"plan (\d+) lanes", name):
            failure = self.failures.pop(0) if self.failures else None
            if failure is not None:
                raise failure
            self.lanes.append(int(plan[1]))
        return super().read(splits, decode, name)


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
