"""``bench kafka-whole``: an event log in PostgreSQL to a broker, whole process, beside Debezium."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench import debezium
from tests.bench.data import Log, event_log
from tests.bench.log_table import SOURCE, TABLE, fill_table, statuses
from tests.bench.program import TABLE as KNOWN
from tests.bench.program import workspace
from tests.bench.report import Report
from tests.bench.topic import check, read_topic
from tests.services.kafka import KafkaCluster, cluster
from tests.services.servers import Server, postgresql

EVENTS = 1_800_000
PER_OBJECT = 3
PARTITIONS = 8
HEAP = "1g"
WITHOUT, WITH = "program, no status", "program, status written"
OTHER, TUNED = "Debezium as shipped", "Debezium tuned"
BOUNDS = {
    (WITHOUT, OTHER): 0.28,
    (WITHOUT, TUNED): 0.45,
    (WITH, OTHER): 0.4,
    (WITH, TUNED): 0.6,
}
"""Greatest ratios of the times of the program and of Debezium."""

JOB = """
[dispatch]
to = "kafka"
bootstrap = "{bootstrap}"
topic = "{topic}"

[acknowledge]
write_status = {write_status}
"""


@dataclass(frozen=True, slots=True)
class BenchPlace:
    """The servers of both programs, the log that they read, and a directory."""

    server: Server
    brokers: KafkaCluster
    log: Path
    events: int
    work: Path


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """All in turn on the same table, filled again each time, to new topics of the same broker."""
    count = events or EVENTS
    log = event_log(Log(count, PER_OBJECT))
    report = Report("kafka-whole")
    taken: dict[str, list[float]] = {WITHOUT: [], OTHER: [], WITH: [], TUNED: []}
    with (
        postgresql(wal_level="logical", max_wal_size="16GB") as server,
        cluster(options=[f"-Xmx{HEAP}", "-XX:+UseSerialGC"]) as brokers,
        workspace() as work,
    ):
        place = BenchPlace(server, brokers, log, count, work)
        for turn in range(runs):
            taken[WITHOUT].append(_publish(place, f"bench-{turn}-n", write_status=False))
            taken[OTHER].append(_snapshot(place, f"debezium-{turn}", tuned=False))
            taken[WITH].append(_publish(place, f"bench-{turn}-s", write_status=True))
            taken[TUNED].append(_snapshot(place, f"debezium-{turn}-t", tuned=True))
    _add(report, count, taken)
    return report


def _add(report: Report, events: int, taken: dict[str, list[float]]) -> None:
    report.add("events", events, "")
    best = {name: report.add_seconds(name, seconds) for name, seconds in taken.items()}
    for name, seconds in best.items():
        report.add(f"{name}: events a second, with start", events / seconds, "")
    for (program, other), bound in BOUNDS.items():
        report.add(f"{program} / {other}", best[program] / best[other], "", bound=bound)


def _publish(place: BenchPlace, name: str, *, write_status: bool) -> float:
    """Seconds of a publish from start to exit; fails unless all can be read once."""
    fill_table(place.server, place.log)
    topics = place.brokers.topics
    topic = topics.make(PARTITIONS)
    job = place.work / f"{name}.toml"
    source = SOURCE.format(table=TABLE, url=place.server.url)
    written = JOB.format(
        bootstrap=place.brokers.bootstrap, topic=topic, write_status=str(write_status).lower()
    )
    job.write_text(source + KNOWN + written)
    start = time.perf_counter()
    command = [sys.executable, "-m", "publisher.cli", "publish", "-c", str(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"publish ended with {done.returncode}: {done.stderr[-2000:]}")
    check(read_topic(place.brokers.bootstrap, topic).records, place.events // PER_OBJECT)
    expected = {"S" if write_status else "N": place.events}
    if (found := statuses(place.server)) != expected:
        raise RuntimeError(f"rows by status are {found} instead of {expected}")
    topics.drop()
    return seconds


def _snapshot(place: BenchPlace, name: str, *, tuned: bool) -> float:
    """Seconds from the start of Connect until all rows can be read."""
    fill_table(place.server, place.log)
    bootstrap = place.brokers.bootstrap
    topic, command = debezium.snapshot(
        place.server, f"public.{TABLE}", bootstrap, name, PARTITIONS, place.work, tuned=tuned
    )
    output = place.work / f"{name}.log"
    seconds = debezium.seconds_to_read(command, bootstrap, topic, PARTITIONS, place.events, output)
    topics = place.brokers.topics
    topics.made.append(topic)
    topics.drop()
    return seconds
