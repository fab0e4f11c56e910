"""``bench follow``: from the commit of a row to a consumer, while the publisher follows the log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.bench.log_table import SOURCE, TABLE, make_table, statuses
from tests.bench.program import TABLE as KNOWN
from tests.bench.program import workspace
from tests.bench.report import Report
from tests.bench.steady_writer import PER_TRANSACTION
from tests.bench.topic import headers_of
from tests.services.kafka import KafkaCluster, cluster
from tests.services.servers import Server, postgresql

RATE = 1_000
"""Events a second."""
EVENTS = 120_000
WARM_UP = 3_000
"""Events before those that are measured: the publisher starts with the first."""
SECONDS = 2.0
PARTITIONS = 8
PATIENCE = 120.0

JOB = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"

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

    def wait(self, records: int, publisher: subprocess.Popen[bytes], log: Path) -> None:
        """Until so many records were seen.  Raises ``RuntimeError`` where they do not come."""
        deadline = time.monotonic() + PATIENCE
        while len(self.seen) < records:
            if publisher.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"{len(self.seen)} of {records} records came: {log.read_text()[-2000:]}"
                )
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


def run(*, events: int | None = None, **_: int) -> Report:
    """One round to start with, one that is measured."""
    count = events or EVENTS
    report = Report("follow")
    with (
        postgresql() as server,
        cluster(options=["-Xmx1g", "-XX:+UseSerialGC"]) as brokers,
        workspace() as work,
    ):
        make_table(server)
        topic = brokers.topics.make(PARTITIONS)
        job = _job(work, server, brokers, topic)
        reader = LatencyReader(brokers.bootstrap, topic)
        try:
            with _publisher(job) as publisher, _writer(server) as writer:
                log = job.with_suffix(".log")
                _round(writer, WARM_UP)
                reader.wait(WARM_UP, publisher, log)
                took, commits = _round(writer, count)
                reader.wait(WARM_UP + len(commits), publisher, log)
        finally:
            reader.close()
        left = statuses(server)
    delays = np.array([reader.seen[record] - moment for record, moment in commits.items()])
    report.add("events", count, "")
    report.add("events a second", len(commits) / took, "", at_least=0.95 * RATE)
    for percent, bound in ((50, None), (95, SECONDS), (99, None)):
        value = float(np.percentile(delays, percent))
        report.add(f"from commit to consumer: p{percent}", value, "s", bound=bound)
    report.add("from commit to consumer: longest", float(delays.max()), "s")
    report.require("each record came once", reader.doubled == 0)
    report.require("all rows are S", set(left) == {"S"})
    return report


def _job(work: Path, server: Server, brokers: KafkaCluster, topic: str) -> Path:
    path = work / "follow.toml"
    sink = JOB.format(bootstrap=brokers.bootstrap, topic=topic)
    path.write_text(SOURCE.format(table=TABLE, url=server.url) + KNOWN + sink)
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
    finally:
        process.kill()
        process.wait()


@contextmanager
def _writer(server: Server) -> Iterator[subprocess.Popen[str]]:
    url = server.url.replace("+psycopg", "")
    command = [sys.executable, "-m", "tests.bench.steady_writer", url, str(RATE)]
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
