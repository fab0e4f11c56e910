"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.services.topics import Topics
    from tests.support.local_engine import EngineSwitch

pytest.register_assert_rewrite("tests.support")  # their assertions show values, too
settings.register_profile(
    "here",
    deadline=None,  # two cores, and other work beside the tests
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("here")


def pytest_report_header() -> str:
    """Says how to repeat the run: nothing may depend on the order of hashes."""
    return f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', 'random')}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with few and long tests come first, so that all workers end together."""
    items.sort(key=lambda item: item.path.parent.name not in ("services", "spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session of the program's own for all tests that need Spark: two cores, one JVM."""
    from publisher.engine.spark.options import SparkOptions  # keeps quick tests quick
    from publisher.engine.spark.session import spark_session

    with spark_session(SparkOptions(master="local[2]")) as session:
        yield session


@pytest.fixture(scope="session")
def kafka() -> Iterator[Topics]:
    """A Kafka broker for all tests, with a place for their topics."""
    from tests.services.kafka import shared_topics  # keeps quick tests quick

    yield from shared_topics()


@pytest.fixture
def local_engine(monkeypatch: pytest.MonkeyPatch) -> EngineSwitch:
    """The engine without Spark, for all runs of a test; the test may switch to a variant of it."""
    from tests.support.local_engine import EngineSwitch  # keeps quick tests quick

    switch = EngineSwitch(monkeypatch)
    switch.use()
    return switch
