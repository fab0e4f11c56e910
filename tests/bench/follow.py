"""``bench follow``: from the commit of a row to a consumer, while the publisher follows the log.

The program and a bare loop (``bare_follow``) take turns with the same servers, at two rates.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.bench.log_table import SOURCE, TABLE, make_table, statuses
from tests.bench.processes import cpu_seconds
from tests.bench.program import TABLE as KNOWN
from tests.bench.program import workspace
from tests.bench.report import Report
from tests.bench.steady_writer import PER_TRANSACTION
from tests.bench.topic import headers_of
from tests.services.kafka import KafkaCluster, cluster
from tests.services.servers import Server, postgresql

EVENTS = {1_000: 120_000, 10: 600}
"""Events that are measured, by events a second."""
BARE_EVENTS = {1_000: 30_000, 10: 600}
WARM_UP = {1_000: 3_000, 10: 60}
"""Events before those that are measured: the publisher starts with the first."""
BOUNDS = {50: 0.12, 95: 0.25}
"""Seconds from commit to consumer, by percentile."""
RATIO = 2.5
"""Greatest part of the bare loop's seconds."""
POLLING_BOUND = 0.35
"""Seconds of p95 without notifications, at ``polling_interval = 0``."""
IDLE_SECONDS = 20
IDLE_CORE, IDLE_POLLING_CORE = 0.02, 0.10
"""Greatest part of a core of an idle publisher, with and without notifications."""
PARTITIONS = 8
PATIENCE = 120.0

JOB = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"
"""
POLLING = """
[follow]
polling_interval = 0
"""


class LatencyReader:
    """A consumer of committed transactions in a thread; ``seen`` has the time at which each record of
    the log came, in seconds since 1970."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: dict[int, float] = {}
        self.doubled = 0
        self._end = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",  # must be there; nothing is committed
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self._consumer.close()

    def wait(self, records: int, follower: subprocess.Popen[bytes]) -> None:
        """Until so many records were seen.  Raises ``RuntimeError`` where they do not come."""
        deadline = time.monotonic() + PATIENCE
        while len(self.seen) < records:
            if follower.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{len(self.seen)} of {records} records came")
            time.sleep(0.05)

    def _read(self) -> None:
        while not self._end.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            now = time.time()
            if message.error() is not None:
                raise KafkaException(message.error())
            for name, value in headers_of(message):
                if name == "record-ids" and value is not None:
                    self._note(value, now)

    def _note(self, ids: bytes, now: float) -> None:
        for record in map(int, ids.split(b",")):
            self.doubled += record in self.seen
            self.seen[record] = now


@dataclass(frozen=True, slots=True)
class Round:
    """What a round has measured."""

    delays: np.ndarray
    """Seconds from commit to consumer of each event."""
    rate: float
    """Events a second that were written."""
    doubled: int
    idle: float
    """Part of a core that the follower used afterwards, without events."""

    def seconds(self, percent: int) -> float:
        return float(np.percentile(self.delays, percent))


@dataclass(frozen=True, slots=True)
class Follower:
    """A program that follows the log; ``start`` runs it with a topic of its own."""

    name: str
    start: Callable[[str], AbstractContextManager[subprocess.Popen[bytes]]]
    notifies: bool = False


def run(*, events: int | None = None, **_: int) -> Report:
    """The program and the bare loop in turn, at each rate; then the program without notifications."""
    report = Report("follow")
    with (
        postgresql() as server,
        cluster(options=["-Xmx1g", "-XX:+UseSerialGC"]) as brokers,
        workspace() as work,
    ):

        def measure(follower: Follower, rate: int, count: int) -> Round:
            return _measure(follower, server, brokers, rate, min(count, events or count))

        program = Follower(
            "publish --follow",
            lambda topic: _publisher(_job(work, server, brokers, topic, "")),
            notifies=True,
        )
        polling = Follower(
            "publish --follow",
            lambda topic: _publisher(_job(work, server, brokers, topic, POLLING)),
        )
        bare = Follower("bare loop", lambda topic: _bare_loop(work, server, brokers, topic))
        for rate, count in EVENTS.items():
            floor = measure(bare, rate, BARE_EVENTS[rate])
            ours = measure(program, rate, count)
            _report_round(report, rate, ours, floor)
        report.add("idle, notified", ours.idle, "cores", bound=IDLE_CORE)
        without = measure(polling, 10, EVENTS[10])
        report.add("polling, 10 events/s: p95", without.seconds(95), "s", bound=POLLING_BOUND)
        report.add("idle, polling", without.idle, "cores", bound=IDLE_POLLING_CORE)
        report.require("each record came once", without.doubled == 0)
    return report


def _report_round(report: Report, rate: int, ours: Round, floor: Round) -> None:
    at = f"{rate:,} events/s"
    report.add(f"{at}: written", ours.rate, "events/s", at_least=0.95 * rate)
    for percent in (50, 95, 99):
        value, least = ours.seconds(percent), floor.seconds(percent)
        report.add(f"{at}: p{percent}", value, "s", bound=BOUNDS.get(percent))
        report.add(f"{at}: bare loop p{percent}", least, "s")
        if percent in BOUNDS:
            report.add(f"{at}: p{percent} by that of the bare loop", value / least, "", bound=RATIO)
    report.add(f"{at}: longest", float(ours.delays.max()), "s")
    report.require(f"{at}: each record came once", ours.doubled == 0)


def _measure(
    follower: Follower, server: Server, brokers: KafkaCluster, rate: int, events: int
) -> Round:
    """One round to start with, one that is measured, and a time without events."""
    make_table(server, notifies=follower.notifies)
    topic = brokers.topics.make(PARTITIONS)
    reader = LatencyReader(brokers.bootstrap, topic)
    warm_up = min(WARM_UP[rate], events)
    try:
        with follower.start(topic) as process, _writer(server, rate) as writer:
            _round(writer, warm_up)
            reader.wait(warm_up, process)
            took, commits = _round(writer, events)
            reader.wait(warm_up + len(commits), process)
            _wait_for_statuses(server)
            before = cpu_seconds(process.pid)
            time.sleep(IDLE_SECONDS)
            idle = (cpu_seconds(process.pid) - before) / IDLE_SECONDS
    finally:
        reader.close()
    delays = np.array([reader.seen[record] - moment for record, moment in commits.items()])
    return Round(delays, len(commits) / took, reader.doubled, idle)


def _wait_for_statuses(server: Server) -> None:
    deadline = time.monotonic() + PATIENCE
    while set(statuses(server)) != {"S"}:
        if time.monotonic() > deadline:
            raise RuntimeError(f"rows are left: {statuses(server)}")
        time.sleep(0.2)


def _job(work: Path, server: Server, brokers: KafkaCluster, topic: str, follow: str) -> Path:
    path = work / f"{topic}.toml"
    sink = JOB.format(bootstrap=brokers.bootstrap, topic=topic)
    source = SOURCE.format(table=TABLE, url=server.url)
    path.write_text(f'[job]\nname = "{topic}"\n{source}{KNOWN}{sink}{follow}')
    return path


@contextmanager
def _publisher(job: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Follows the log; is told to stop at the end, and fails unless it does so in good order."""
    command = [sys.executable, "-m", "publisher.cli", "publish", "--follow", "-c", str(job)]
    log = job.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE):
            raise RuntimeError(f"it ended with {process.returncode}: {log.read_text()[-2000:]}")
    except RuntimeError as error:
        raise RuntimeError(f"{error}: {log.read_text()[-2000:]}") from error
    finally:
        process.kill()
        process.wait()


@contextmanager
def _bare_loop(
    work: Path, server: Server, brokers: KafkaCluster, topic: str
) -> Iterator[subprocess.Popen[bytes]]:
    url = server.url.replace("+psycopg", "")
    command = [sys.executable, "-m", "tests.bench.bare_follow", url, brokers.bootstrap, topic]
    with (work / "bare.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def _writer(server: Server, rate: int) -> Iterator[subprocess.Popen[str]]:
    url = server.url.replace("+psycopg", "")
    command = [sys.executable, "-m", "tests.bench.steady_writer", url, str(rate)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _round(writer: subprocess.Popen[str], events: int) -> tuple[float, dict[int, float]]:
    """Has events written; gives the seconds that it took, and the time of commit by record id."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(f"{-(-events // PER_TRANSACTION)}\n")
    writer.stdin.flush()
    took, commits = json.loads(writer.stdout.readline())
    ids = {first + place: moment for first, moment in commits for place in range(PER_TRANSACTION)}
    return took, ids
