"""Broker and database go away under load while a log is followed: it resumes, the copy is equal."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from publisher.triggers import Style
from tests.chaos.process import Started
from tests.services import servers
from tests.services.databases import Place
from tests.services.followed_logs import COLUMNS, JOB, wait_until_read
from tests.services.kafka import KafkaCluster
from tests.services.logged_tables import LOG, Logged
from tests.services.mirror import Mirror

AWAY = 4.0
"""Seconds; longer than the publisher waits for an answer."""
QUICK = {
    "[dispatch]": "timeout = 2",
    "[database]": "retries = 1\nbackoff = 0.1",
}
"""The publisher soon says that somebody is away."""


class Load(threading.Thread):
    """Some transactions a second on a table until told to stop; survives a restart."""

    def __init__(self, logged: Logged, rng: random.Random) -> None:
        super().__init__(name="load", daemon=True)
        self._logged, self._rng = logged, rng
        self._end = threading.Event()
        self.failures = 0

    def run(self) -> None:
        while not self._end.wait(0.1):
            try:
                self._logged.work(self._rng, 5)
            except sa.exc.OperationalError:
                self.failures += 1
                self._ask_for_keys()

    def stop(self) -> None:
        self._end.set()
        self.join(60)
        assert not self.is_alive()

    def _ask_for_keys(self) -> None:
        """A commit may have been done whose answer was lost."""
        while not self._end.wait(0.2):
            try:
                with self._logged.engine.connect() as connection:
                    statement = sa.text(f"SELECT part, number FROM {self._logged.table}")
                    rows = connection.execute(statement).all()
            except sa.exc.OperationalError:
                continue
            self._logged.keys = [(part, number) for part, number in rows]
            return


@contextmanager
def load_table(logged: Logged) -> Iterator[Load]:
    load = Load(logged, random.Random(7))
    load.start()
    try:
        yield load
    finally:
        load.stop()


@pytest.fixture
def server() -> Iterator[servers.Server]:
    try:
        with servers.postgresql() as started:
            yield started
    except servers.MissingServerError as missing:
        servers.skip_unproved(f"resuming after PostgreSQL was away ({missing})")


@pytest.mark.long
def test_restarted_under_load_nothing_is_lost_or_doubled(
    server: servers.Server, own_kafka: KafkaCluster, tmp_path: Path
) -> None:
    place = Place("postgresql", server.url)
    logged = Logged(place, "people", Style.PER_FIELD, COLUMNS)
    mirror = Mirror(place, "people", strict=True)
    topics = own_kafka.topics
    topic = topics.make(partitions=3)
    job = write_job(tmp_path / "people.toml", place, own_kafka, topic)

    def progress() -> None:
        """Waits until more has come to the topic."""
        before = sum(topics.ends(topic).values())
        started.wait_until(lambda: sum(topics.ends(topic).values()) > before + 50)

    with Started(["publish", "--follow", "-c", str(job)]) as started:
        with load_table(logged) as load:
            progress()
            for outage in (0.5, AWAY):
                own_kafka.kill()
                time.sleep(outage)
                own_kafka.start()
                progress()
            assert load.failures == 0
            for outage in (0.0, AWAY):
                server.stop()
                time.sleep(outage)
                server.start()
                progress()
        assert load.failures
        wait_until_read(place, started.process)
        started.process.terminate()
        code, message = started.wait_for_end()
    assert code == 0, message
    assert message.count("retrying in") >= 2, message  # else no outage was noticed
    assert rows_by_status(place) == {"S"}
    assert mirror.apply(topics.read(topic)) > 200
    assert mirror.differences("people") == []


def write_job(path: Path, place: Place, brokers: KafkaCluster, topic: str) -> Path:
    names = {"log": LOG, "url": place.url, "bootstrap": brokers.bootstrap, "topic": topic}
    text = JOB.format(**names, engine="local")
    for header, settings in QUICK.items():
        text = text.replace(header, f"{header}\n{settings}")
    path.write_text(text)
    return path


def rows_by_status(place: Place) -> set[str]:
    return {status for (status,) in place.query(f"SELECT DISTINCT status FROM {LOG}")}
