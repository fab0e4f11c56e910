"""Runs in these tests take Spark however small their input is."""

from __future__ import annotations

import pytest

from tests.support.local_engine import EngineSwitch


@pytest.fixture(autouse=True)
def spark_engine(monkeypatch: pytest.MonkeyPatch) -> EngineSwitch:
    """The Spark engine for all runs of a test; the test may switch to another one."""
    switch = EngineSwitch(monkeypatch)
    switch.use_spark()
    return switch
