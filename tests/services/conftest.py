"""Real servers for the tests of this directory.

``POSTGRES_URL`` and ``MARIADB_URL`` name servers to use instead; their databases should be empty.
``KAFKA_BOOTSTRAP`` names Kafka brokers to use instead, but for tests that stop brokers.
A server that cannot be had skips its tests, saying what stays unproved; with ``CI=true`` that is a
failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from publisher.database.connection_cache import keep_connections
from tests.services import servers
from tests.services.databases import Place, drop, sqlite_place
from tests.services.kafka import RESTARTED, KafkaCluster, brokers

RELATIONS = {
    "postgresql": """
        SELECT CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, relname::text FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v')""",
    "mariadb": """
        SELECT if(table_type = 'VIEW', 'VIEW', 'TABLE'), table_name FROM information_schema.tables
        WHERE table_schema = database() AND table_type IN ('BASE TABLE', 'VIEW')""",
}
"""Asks with one connection; SQLAlchemy's inspector takes three new ones."""


def _url(
    variable: str, server: Callable[[], AbstractContextManager[servers.Server]], unproved: str
) -> Iterator[str]:
    given = os.environ.get(variable)
    if given:
        yield given
        return
    try:
        with server() as started:
            yield started.url
    except servers.MissingServerError as missing:
        servers.skip_unproved(f"{unproved} ({missing}; or set {variable})")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of a PostgreSQL database."""
    yield from _url("POSTGRES_URL", servers.postgresql, "behaviour with PostgreSQL")


@pytest.fixture(scope="session")
def mariadb_url() -> Iterator[str]:
    """URL of a MariaDB database."""
    yield from _url("MARIADB_URL", servers.mariadb, "behaviour with MariaDB")


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A database without tables, one test for each kind."""
    if request.param == "sqlite":
        yield sqlite_place(tmp_path / "test.db")
        return
    yield from empty_place(request, request.param)


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A PostgreSQL database without tables."""
    yield from empty_place(request, "postgresql")


@pytest.fixture
def mariadb(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A MariaDB database without tables."""
    yield from empty_place(request, "mariadb")


def empty_place(request: pytest.FixtureRequest, kind: str) -> Iterator[Place]:
    """The server's database; what a test made in it is dropped."""
    place = Place(
        kind,
        request.getfixturevalue({"postgresql": "postgres_url", "mariadb": "mariadb_url"}[kind]),
    )
    before = relations(place)
    yield place
    drop(place, relations(place) - before)


def relations(place: Place) -> set[tuple[str, str]]:
    """Kind and name of the tables and views in the default schema."""
    return {(kind, name) for kind, name in place.query(RELATIONS[place.kind])}


@pytest.fixture
def reuse_connections() -> Iterator[None]:
    """Databases that a test opens one after the other use the same connections."""
    with keep_connections():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Ends the broker of ``own_kafka`` after the last test that uses it: at rest it is not idle."""
    broker = getattr(item, "funcargs", {}).get("one_node")
    result = yield
    if broker is not None and "one_node" not in getattr(nextitem, "fixturenames", ()):
        broker.kill()
    return result


@pytest.fixture(scope="session")
def one_node() -> Iterator[KafkaCluster]:
    """The broker of ``own_kafka``."""
    yield from brokers(1, RESTARTED)


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[KafkaCluster]:
    """The brokers of ``kafka_cluster``."""
    yield from brokers(3, RESTARTED)


@pytest.fixture
def own_kafka(one_node: KafkaCluster) -> KafkaCluster:
    """One broker that a test may kill, stop and pause; it runs when the test begins."""
    one_node.start()
    return one_node


@pytest.fixture
def kafka_cluster(three_nodes: KafkaCluster) -> KafkaCluster:
    """Three brokers that a test may kill, stop and pause; they run when the test begins."""
    three_nodes.start()
    return three_nodes
