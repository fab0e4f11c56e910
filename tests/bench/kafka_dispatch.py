"""``bench kafka-dispatch``: documents of a ledger to a broker, exactly once, beside bare producers."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from publisher.config.settings import Settings
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.records import LaneDocuments
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.engine.spark.engine import SparkEngine
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.runs.lane_sending import LaneSending
from publisher.runs.replay import replay
from publisher.runs.run import build_report
from tests.bench import bare_producer
from tests.bench.data import Log, event_log
from tests.bench.program import job_file, settings_of, workspace
from tests.bench.report import Report
from tests.bench.topic import check, read_topic
from tests.services.kafka import KafkaCluster, cluster

EVENTS = 1_800_000
RATIO = 0.6
PARTITIONS = 8
HEAP = "1g"
WARMING = 2
"""Rounds before the clock runs: a broker that has just started compiles for some seconds."""
MB = 1_000_000
OURS, BARE, TAKING_OVER = "program", "bare producers", "program: taking the lanes over"


@dataclass(frozen=True, slots=True)
class Planned:
    """A ledger whose documents are to be sent."""

    ledger_run: LedgerRun
    manifest: Manifest

    @property
    def documents(self) -> int:
        return sum(result.documents for result in self.manifest.results)

    @property
    def lanes(self) -> list[LaneDocuments]:
        """The documents of each lane."""
        return [
            LaneDocuments(
                rows=rows,
                sources=tuple(source.name for source in self.manifest.sources),
                template=TopicTemplate("one"),
                id_prefixes=tuple(s.origin.length(s.name) for s in self.manifest.sources),
            )
            for rows in self.ledger_run.lanes(self.manifest)
        ]


def run(*, runs: int = 3, events: int | None = None, **_: int) -> Report:
    """Planned once; then both in turn, each time to a new topic."""
    report = Report("kafka-dispatch")
    with cluster(options=[f"-Xmx{HEAP}", "-XX:+UseSerialGC"]) as brokers, workspace() as work:
        settings = settings_of(job_file(work))
        planned = _plan(settings, event_log(Log(events or EVENTS)), work / "out")
        with SparkEngine(settings.spark) as engine:
            _in_turn(report, planned, brokers, engine, runs)
    return report


def _plan(settings: Settings, log: Path, to: Path) -> Planned:
    found = replay(settings, [log], str(to))
    ledger_run = LedgerRun(Path(found.ledger))
    manifest = ledger_run.manifest()
    assert manifest is not None
    return Planned(ledger_run, manifest)


def _in_turn(
    report: Report, planned: Planned, brokers: KafkaCluster, engine: SparkEngine, runs: int
) -> None:
    taken: dict[str, list[float]] = {TAKING_OVER: [], OURS: [], BARE: []}
    processes = os.cpu_count() or 1
    for _ in range(WARMING):  # starts the session, and compiles what the broker does
        _send(planned, brokers, engine)
        _sent_bare(planned, brokers, processes)
    size = 0
    for _ in range(runs):
        taking_over, seconds = _send(planned, brokers, engine)
        taken[TAKING_OVER].append(taking_over)
        taken[OURS].append(seconds)
        seconds, size = _sent_bare(planned, brokers, processes)
        taken[BARE].append(seconds)
    report.add("bare producers: processes", processes, "")
    _add(report, planned, size, taken)


def _send(planned: Planned, brokers: KafkaCluster, engine: SparkEngine) -> tuple[float, float]:
    """Sends the ledger to a new topic; gives the seconds of taking its lanes over and of sending."""
    topics = brokers.topics
    topic = topics.make(PARTITIONS)
    manifest, ledger_run = planned.manifest, planned.ledger_run
    dispatcher = KafkaDispatcher(
        KafkaOptions(brokers.bootstrap, topic),
        job=manifest.job,
        owner=manifest.run,
        lanes=manifest.lanes,
        run_lanes=LaneSending(engine),
    )
    start = time.perf_counter()
    dispatcher.prepare(manifest.run)
    prepared = time.perf_counter()
    dispatcher.dispatch(
        ledger_run, manifest, build_report(manifest, ledger_run, "published", dispatcher)
    )
    end = time.perf_counter()
    check(read_topic(brokers.bootstrap, topic).records, planned.documents)
    topics.drop()
    return prepared - start, end - prepared


def _sent_bare(planned: Planned, brokers: KafkaCluster, processes: int) -> tuple[float, int]:
    """Sends the same by bare producers; gives the seconds and the bytes that the topic then has."""
    topics = brokers.topics
    options = KafkaOptions(brokers.bootstrap, topics.make(PARTITIONS))
    seconds = bare_producer.send(planned.lanes, options, processes)
    found = read_topic(brokers.bootstrap, options.topic, headers=True)
    check(found.records, planned.documents)
    topics.drop()
    return seconds, found.bytes


def _add(report: Report, planned: Planned, size: int, taken: dict[str, list[float]]) -> None:
    documents = planned.documents
    report.add("documents", documents, "")
    report.add("keys, values and headers", size / MB, "MB")
    best = {name: report.add_seconds(name, seconds) for name, seconds in taken.items()}
    for name in (OURS, BARE):
        report.add(f"{name}: documents a second", documents / best[name], "")
        report.add(f"{name}: a second", size / best[name] / MB, "MB")
    report.add("program / bare producers", best[BARE] / best[OURS], "", at_least=RATIO)
