"""Fixtures and settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.nodeid import NodeId
from hypothesis import HealthCheck, settings

from publisher.redaction import show_values

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

SHARED = {"spark": "spark", "one_node": "brokers", "kafka_cluster": "brokers"}
"""Fixtures that take seconds of processor time to make, and the group of the tests that use them."""
LONG = (
    "spark",
    "services/test_chaos.py",
    "services/test_instances.py",
    "brokers",
    "services/test_recover.py",
    "services/test_triggers.py",
    "services/test_trigger_safety.py",
    "hostile/test_linkexpress.py",
    "hostile/test_bombs.py",
    "services/test_acknowledge.py",
    "change_table/test_contract.py",
    "services/test_verify.py",
    "values/test_values.py",
    "spark/test_session.py",
    "spark/test_cluster.py",
    "services/test_follow.py",
    "hostile/test_linkexpress_framing.py",
    "dispatch_queue/test_contract.py",
    "planning/test_minimal.py",
    "services/test_followed_classes.py",
    "spark/test_crash.py",
    "runs/test_verify.py",
    "services/test_consumer.py",
    "services/test_kafka_dispatch.py",
    "services/test_lost_ledgers.py",
)
"""Groups of more than 20 seconds."""


def pytest_report_header() -> str:
    """Says how to repeat the run: nothing may depend on the order of hashes."""
    return f"PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED', 'random')}"


def pytest_configure() -> None:
    """Lets tests interrupt the programs that they start, even if the suite runs in the background.

    A shell without job control starts programs in the background with SIGINT ignored, and programs that
    these start inherit it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects the tests without searches for garbage, and keeps later searches off what was collected.

    Thousands of tests are a million objects: their searches were a quarter of the collection, and each
    later search of all objects took 0.3 s.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Groups tests that one worker runs, and puts the groups that take longest first.

    A run of everything leaves out tests with the mark ``long``, which ``./run test -m long`` runs.
    """
    if [Path(arg).name for arg in config.args] == ["tests"] and not config.option.markexpr:
        items[:] = [item for item in items if item.get_closest_marker("long") is None]
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = _group_of(item)
        item.add_marker(pytest.mark.xdist_group(name))
        if hasattr(item.config, "workerinput"):
            _show_group(item, name)
        groups.setdefault(name, []).append(item)
    items[:] = chain.from_iterable(groups[name] for name in _order(groups))


def _show_group(item: pytest.Item, name: str) -> None:
    """Adds the group to the id by which a worker's tests are scheduled.

    pytest-xdist 3.8 sets an attribute that pytest 9.2 no longer reads, and then schedules each test alone
    (https://github.com/pytest-dev/pytest-xdist/issues/1386).
    """
    item._id = NodeId.parse(f"{item.nodeid}@{name}")


def _group_of(item: pytest.Item) -> str:
    """The tests of a file; those that use an expensive fixture are a group for all files."""
    given = item.get_closest_marker("xdist_group")
    if given is not None:
        return str(given.args[0])
    names = getattr(item, "fixturenames", ())
    shared = (group for name, group in SHARED.items() if name in names)
    return next(shared, f"{item.path.parent.name}/{item.path.name}")


def _order(groups: Iterable[str]) -> list[str]:
    """Long groups, then in turn one that waits for servers and one that only computes."""
    rest = sorted(groups, key=lambda name: LONG.index(name) if name in LONG else len(LONG))
    long = [name for name in rest if name in LONG]
    waiting = [name for name in rest[len(long) :] if name.startswith(("services/", "spark/"))]
    computing = [name for name in rest[len(long) :] if name not in waiting]
    turns = zip_longest(waiting, computing)
    return long + [name for turn in turns for name in turn if name is not None]


@pytest.fixture(autouse=True)
def show_messages() -> None:
    """Shows messages that quote values, which a masked run of an earlier test hides in its process."""
    show_values()


@pytest.fixture(scope="session", autouse=True)
def forked_programs() -> Iterator[None]:
    """Lets a server fork the programs that tests start with ``start_program``."""
    from tests.support.programs import fork_programs  # keeps quick tests quick

    with fork_programs():
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session of the program's own for all tests that need Spark: two cores, one JVM."""
    from publisher.engine.spark.options import SparkOptions  # keeps quick tests quick
    from publisher.engine.spark.session import spark_session

    # the program's jobs set the number of partitions; 200 empty ones of a query in a test cost a second
    options = SparkOptions(master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    with spark_session(options) as session:
        yield session


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """A Kafka broker for all tests of all workers, with a place for their topics."""
    from tests.services.kafka import shared_topics  # keeps quick tests quick

    base = tmp_path_factory.getbasetemp()
    in_worker = "PYTEST_XDIST_WORKER" in os.environ
    yield from shared_topics((base.parent if in_worker else base) / "kafka")


@pytest.fixture
def local_engine(monkeypatch: pytest.MonkeyPatch) -> EngineSwitch:
    """The engine without Spark, for all runs of a test; the test may switch to a variant of it."""
    from tests.support.local_engine import EngineSwitch  # keeps quick tests quick

    switch = EngineSwitch(monkeypatch)
    switch.use()
    return switch
