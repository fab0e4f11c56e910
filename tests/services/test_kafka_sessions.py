"""Runs that are sent one after the other by connections that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from publisher.dispatch.kafka import lane_sender
from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.session import KafkaSession
from publisher.dispatch.kafka.topic_admin import KafkaTopics
from publisher.dispatch.refusals import read_records
from publisher.ledger.runs import LedgerRun
from tests.services.dispatching import send_pickled
from tests.services.topics import Topics
from tests.support.ledgers import commit_run, documents, report

COUNT = 10
"""Documents of each run."""


@dataclass
class Job:
    """Sends run after run in one session, which a ``Job`` would keep."""

    kafka: Topics
    root: Path
    topic: str
    lanes: int = 1
    session: KafkaSession = field(default_factory=lambda: KafkaSession(keeps=True))
    elsewhere: bool = False
    """Sends as tasks on other machines do."""
    timeout: int = 30
    kafka_settings: Mapping[str, str] = field(default_factory=dict)
    runs: int = 0
    reports: list[LaneSendReport] = field(default_factory=list)

    def sink(self) -> KafkaDispatcher:
        options = KafkaOptions(
            bootstrap=self.kafka.bootstrap,
            topic=self.topic,
            timeout=self.timeout,
            create_topics=True,
            kafka=self.kafka_settings,
        )
        return KafkaDispatcher(
            options,
            job=self.topic,
            owner=self.topic,
            lanes=self.lanes,
            run_lanes=self._send,
            session=self.session,
        )

    def send(self, lanes: int = 1, size: int = 0) -> None:
        """Sends a new run."""
        first = 1 + self.runs * 100
        self.runs += 1
        planned = [documents(COUNT, first=first + lane * COUNT, size=size) for lane in range(lanes)]
        run = f"job-{self.runs:06d}"
        ledger_run, manifest = commit_run(self.root / run, planned, run=run)
        self.reports.clear()
        self.sink().dispatch(ledger_run, manifest, report(ledger_run, manifest))
        assert self.sink().has_run(manifest)

    def numbers(self) -> list[int]:
        """The numbers of the documents in the topic."""
        records = self.kafka.read(self.topic)
        return sorted(
            int((r.value or b"").split(b"<nds>")[1].split(b"<")[0].rstrip(b"x")) for r in records
        )

    def expected(self) -> list[int]:
        return [run * 100 + n for run in range(self.runs) for n in range(1, COUNT + 1)]

    def _send(self, tasks: Sequence[LaneSendTask]) -> list[LaneSendReport]:
        sent = send_pickled(tasks) if self.elsewhere else [task.send() for task in tasks]
        self.reports += sent
        return sent


@pytest.fixture
def job(kafka: Topics, tmp_path: Path) -> Iterator[Job]:
    job = Job(kafka, tmp_path, kafka.make(), lanes=3)
    job.sink().take_over()
    yield job
    job.session.forget()


def test_a_takeover_requests_known_topics_again_on_their_connection(
    kafka: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = KafkaTopics.of(KafkaClients(KafkaOptions(bootstrap=kafka.bootstrap, topic="-")))
    job = Job(kafka, tmp_path, kafka.make(), lanes=3)
    assert job.topic not in topics.partitions

    def refuse(_: KafkaClients) -> None:
        raise AssertionError("a further connection")

    monkeypatch.setattr(KafkaClients, "admin", refuse)
    job.sink().take_over(topics)
    monkeypatch.undo()
    job.send(lanes=3)
    assert len(job.numbers()) == 3 * COUNT
    job.session.forget()


def retries(job: Job) -> int:
    return sum(report.retries for report in job.reports)


@pytest.mark.parametrize(("keeps", "producers"), [(True, 1), (False, 4)])
def test_runs_share_a_producer_if_it_is_kept(
    job: Job, monkeypatch: pytest.MonkeyPatch, keeps: bool, producers: int
) -> None:
    job.session = KafkaSession(keeps=keeps)
    create, names = KafkaClients.producer, []

    def count(clients: KafkaClients, overrides: Mapping[str, Any]) -> Producer:
        if "transactional.id" in overrides:
            names.append(overrides["transactional.id"])
        return create(clients, overrides)

    monkeypatch.setattr(KafkaClients, "producer", count)
    for _ in range(4):
        job.send()
        assert retries(job) == 0
    assert len(names) == producers
    assert job.numbers() == job.expected()


def test_runs_here_and_in_tasks_on_other_machines_take_turns(job: Job) -> None:
    for elsewhere in (False, True, False, False, True, True, False):
        job.elsewhere = elsewhere
        job.send()
        assert retries(job) == 0
    assert job.numbers() == job.expected()


def test_more_lanes_than_before(job: Job) -> None:
    job.send()
    job.send(lanes=3)
    job.send()
    job.send(lanes=2)
    assert retries(job) == 0
    counts = [1, 3, 1, 2]
    assert job.numbers() == [
        run * 100 + n for run, lanes in enumerate(counts) for n in range(1, lanes * COUNT + 1)
    ]


def test_a_kept_producer_that_is_fenced_is_replaced(job: Job) -> None:
    job.send()
    other = Job(job.kafka, job.root, job.topic, lanes=3)
    other.sink().take_over()  # as an operator who copied the job may do
    job.send()
    assert retries(job) == 1
    assert job.numbers() == job.expected()


@pytest.mark.parametrize("committed", [True, False])
def test_a_kept_producer_whose_commit_has_an_unknown_result(
    job: Job, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    job.send()
    commit, failures = lane_sender.commit, [1]

    def fail_once(producer: Producer, timeout: float) -> None:
        if not failures:
            return commit(producer, timeout)
        failures.clear()
        if committed:
            commit(producer, timeout)
        else:
            producer.flush(timeout)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(lane_sender, "commit", fail_once)
    job.send()
    assert retries(job) == 1
    job.send()
    assert retries(job) == 0
    assert job.numbers() == job.expected()


def test_a_limit_that_was_lowered_after_the_last_run(job: Job) -> None:
    """The session knows the old limit; the brokers refuse the record, and it is asked for again."""
    job.send()
    job.kafka.alter(job.topic, max_message_bytes=2_000)
    job.send(size=3_000)
    (record,) = read_records(LedgerRun(job.root / "job-000002").texts())
    assert len(record.refusals) == COUNT
    assert job.numbers() == job.expected()[:COUNT]


def test_a_topic_that_was_deleted_after_the_last_run_is_made_again(job: Job) -> None:
    # by default the client looks for the topic for 30 s, and for its partitions until the timeout
    job.timeout = 5
    job.kafka_settings = {"topic.metadata.propagation.max.ms": "2000"}
    job.send()
    job.kafka.drop()
    job.send()
    job.kafka.made.append(job.topic)
    assert job.numbers() == job.expected()[COUNT:]
