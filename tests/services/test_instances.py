"""Two instances of a job: the newer one works, the older one stops, whatever it was doing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from publisher.engine.contract import EngineName
from tests.chaos.known_log import KnownLog, judge_documents, texts
from tests.chaos.marks import TRANSACTION, WRITTEN, Marks
from tests.chaos.process import LAUNCHER, Started
from tests.chaos.scenarios import KafkaJob
from tests.services.databases import Place
from tests.services.followed_logs import scrape_metrics
from tests.services.servers import free_port
from tests.services.topics import Topics
from tests.support.programs import PROGRAM

NEWER = "a newer instance of the job works in"
SECONDS = 300
EVENTS = 1_500
MORE = 100
HALTED: Sequence[tuple[str, EngineName]] = (
    ("plan", "local"),
    (TRANSACTION, "spark"),  # in a worker, which the driver cannot call back
    ("acknowledge", "local"),
    (WRITTEN, "local"),
)
"""Phases in which an instance is halted, and the engine of each instance."""


@dataclass
class Scene:
    """A job that follows a known log, and its topic."""

    log: KnownLog
    topics: Topics
    topic: str
    job: Path
    marks: Marks
    rng: random.Random

    @contextmanager
    def following(self, module: str = PROGRAM, engine: EngineName = "local") -> Iterator[Started]:
        words = ["publish", "--follow", "--engine", engine, "-c", str(self.job)]
        with Started(words, module=module, marks=self.marks.path) as started:
            yield started

    def wait(self, reached: Callable[[], bool], *alive: Started) -> None:
        deadline = time.monotonic() + SECONDS
        while not reached():
            for started in alive:
                assert started.process.poll() is None, started.wait_for_end()
            assert time.monotonic() < deadline
            self.marks.take(0.1)

    def is_all_read(self) -> bool:
        return not self.log.statuses().get("N")

    def is_all_done(self) -> bool:
        """True if all rows are read and no process is in a phase."""
        return not self.marks.open and self.is_all_read()  # fewer questions to the database

    @contextmanager
    def all_new_while_paused(self, newer: Started) -> Iterator[None]:
        """All rows are new; what somebody acknowledges, or ``newer`` does meanwhile, shows after."""
        newer.pause()
        self.log.execute("UPDATE known_log SET status = 'N'")
        yield
        assert set(self.log.statuses()) == {"N"}
        self.log.execute("UPDATE known_log SET status = 'S'")
        newer.resume()

    def halted(self) -> int:
        """Connections of the program that are in a transaction and do nothing."""
        question = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        return int(self.log.ask(question)[0][0])

    def assert_right(self) -> None:
        found = judge_documents(texts(self.topics.read(self.topic)), self.log.counts)
        assert found.is_right, found


@pytest.fixture
def scene(postgres: Place, kafka: Topics, tmp_path: Path) -> Iterator[Scene]:
    rest = "\n[follow]\npolling_interval = 0.1\n\n[run]\nlanes = 2\n"
    job = KafkaJob.make(postgres.url, "known_log", kafka, tmp_path, rest)
    with Marks(tmp_path / "marks") as marks:
        yield Scene(job.log, kafka, job.topic, job.path, marks, random.Random(1))


def test_the_newest_one_works_and_older_ones_stop(scene: Scene) -> None:
    """One after the other is halted, each in another phase, and wakes up when the next has its work."""
    with ExitStack() as stack:
        scene.log.add(scene.rng, EVENTS)
        older = stack.enter_context(scene.following(LAUNCHER, HALTED[0][1]))
        for number, (phase, _) in enumerate(HALTED):
            scene.wait(partial(scene.marks.is_open, phase), older)
            older.pause()
            if phase == WRITTEN:
                assert scene.halted() == 1  # it holds its rows
            scene.marks.clear()
            _, engine = HALTED[(number + 1) % len(HALTED)]
            newer = stack.enter_context(scene.following(LAUNCHER, engine))
            scene.log.add(scene.rng, MORE)
            scene.wait(scene.is_all_done, newer)
            scene.assert_right()
            with scene.all_new_while_paused(newer):
                older.resume()
                assert_replaced(older)
            scene.assert_right()
            scene.log.add(scene.rng, EVENTS)
            older = newer
        # both are alive
        scene.wait(scene.is_all_done, older)
        newer = stack.enter_context(scene.following())

        def stopped() -> bool:
            scene.log.add(scene.rng, MORE)
            return older.process.poll() is not None

        scene.wait(stopped, newer)
        assert_replaced(older)
        scene.wait(scene.is_all_read, newer)
        newer.process.terminate()
        assert newer.wait_for_end(SECONDS)[0] == 0
    assert set(scene.log.statuses()) == {"S"}
    scene.assert_right()


def test_instances_with_one_metrics_port_take_over_from_each_other(scene: Scene) -> None:
    """The second works without the port until the first, which is halted, dies; a third replaces it."""
    port = free_port()
    scene.job.write_text(f"{scene.job.read_text()}\n[metrics]\nport = {port}\n")
    in_use = f"[metrics] port: {port} of 127.0.0.1 is in use, by an older instance of the job"
    now_served = f"[metrics] port: {port} of 127.0.0.1 serves the metrics now"

    def serves(epoch: int) -> bool:
        return scrape_metrics(port)["xds_publisher_epoch",] == epoch

    with ExitStack() as stack:
        scene.log.add(scene.rng, MORE)
        first = stack.enter_context(scene.following())
        scene.wait(scene.is_all_read, first)
        assert serves(1)
        first.pause()
        scene.log.add(scene.rng, MORE)
        second = stack.enter_context(scene.following())
        scene.wait(scene.is_all_read, second)
        assert in_use in second.messages()
        assert now_served not in second.messages()
        first.kill()
        scene.wait(lambda: now_served in second.messages(), second)
        assert serves(2)
        third = stack.enter_context(scene.following())
        scene.wait(lambda: in_use in third.messages(), third)

        def stopped() -> bool:
            scene.log.add(scene.rng, MORE)
            return second.process.poll() is not None

        scene.wait(stopped, third)
        assert_replaced(second)
        scene.wait(lambda: now_served in third.messages(), third)
        assert serves(3)
        scene.wait(scene.is_all_read, third)
        third.process.terminate()
        assert third.wait_for_end(SECONDS)[0] == 0
    assert set(scene.log.statuses()) == {"S"}
    scene.assert_right()


def assert_replaced(older: Started) -> None:
    code, message = older.wait_for_end(SECONDS)
    assert (code, NEWER in message) == (6, True), message
