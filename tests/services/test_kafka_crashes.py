"""Killed, paused and cut off in the middle of a transaction: every document is there once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from publisher.dispatch.kafka import lane_sender
from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
from publisher.errors import UnreachableError
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from tests.services.kafka import KafkaCluster
from tests.services.kafka_sender import options
from tests.services.topics import Topics
from tests.support.ledgers import PlannedDocument, commit_run, documents, report
from tests.support.programs import start_program


@contextmanager
def halted_sender(
    bootstrap: str, topic: str, ledger_run: LedgerRun, halt: int
) -> Iterator[subprocess.Popen[str]]:
    """A process that has sent the documents of a transaction and not committed it."""
    words = [bootstrap, topic, str(ledger_run.root), str(halt)]
    module = "tests.services.kafka_sender"
    pipe = subprocess.PIPE
    with start_program(words, module=module, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "halted\n"
        yield process
        process.kill()


def send(bootstrap: str, topic: str, ledger_run: LedgerRun, manifest: Manifest) -> None:
    sink = KafkaDispatcher(options(bootstrap, topic), job=topic, owner=topic, lanes=1)
    sink.prepare(manifest.run)
    sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))
    assert sink.has_run(manifest)


def values(topics: Topics, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in topics.read(topic)]


def texts(planned: list[PlannedDocument]) -> list[str]:
    return [document.text for document in planned]


def test_killed_in_a_transaction_and_started_again(kafka: Topics, tmp_path: Path) -> None:
    planned = documents(3_500)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    topic = kafka.make()
    with halted_sender(kafka.bootstrap, topic, ledger_run, 2) as process:
        process.kill()
        process.wait()
    assert len(kafka.read(topic, "read_committed", wait=False)) == 1_000
    send(kafka.bootstrap, topic, ledger_run, manifest)
    assert values(kafka, topic) == texts(planned)
    # else the kill hit nothing
    assert len(kafka.read(topic, "read_uncommitted")) == 4_500


def test_an_older_sender_that_wakes_up_is_fenced(kafka: Topics, tmp_path: Path) -> None:
    planned = documents(3_500)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    topic = kafka.make()
    with halted_sender(kafka.bootstrap, topic, ledger_run, 2) as older:
        send(kafka.bootstrap, topic, ledger_run, manifest)
        message, _ = older.communicate("go on\n", timeout=60)
        assert "a newer instance of the job has taken over" in message
        assert older.returncode == 6
    assert values(kafka, topic) == texts(planned)
    assert len(kafka.read(topic, "read_uncommitted")) == 4_500


@pytest.mark.parametrize("committed_first", [False, True])
def test_a_commit_of_unknown_result_is_settled_by_the_token(
    kafka: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    committed_first: bool,
) -> None:
    planned = documents(3_500)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    topic = kafka.make()
    commit, calls = lane_sender.commit, []

    def fail_second_commit(producer: Producer, timeout: float) -> None:
        calls.append(producer)
        if len(calls) != 2:
            commit(producer, timeout)
            return
        if committed_first:
            commit(producer, timeout)
        else:
            producer.flush(timeout)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(lane_sender, "commit", fail_second_commit)
    send(kafka.bootstrap, topic, ledger_run, manifest)
    assert len(calls) == (4 if committed_first else 5)
    assert values(kafka, topic) == texts(planned)


def test_a_broker_that_goes_and_comes_back(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    planned = documents(3_500)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    topic = own_kafka.topics.make()
    with halted_sender(own_kafka.bootstrap, topic, ledger_run, 2) as sender:
        own_kafka.kill()
        assert sender.stdin is not None
        sender.stdin.write("go on\n")
        sender.stdin.flush()
        time.sleep(1)
        own_kafka.start()
        message, _ = sender.communicate(timeout=120)
        assert message == "sent\n" or "try again later" in message
    send(own_kafka.bootstrap, topic, ledger_run, manifest)
    assert values(own_kafka.topics, topic) == texts(planned)


def test_a_broker_that_stays_away_is_unreachable(own_kafka: KafkaCluster, tmp_path: Path) -> None:
    planned = documents(10)
    ledger_run, manifest = commit_run(tmp_path / "ledger", [planned])
    topic = own_kafka.topics.make()
    quick = replace(options(own_kafka.bootstrap, topic), timeout=3)
    sink = KafkaDispatcher(quick, job=topic, owner=topic, lanes=1)
    sink.prepare(manifest.run)
    own_kafka.stop()
    with pytest.raises(UnreachableError, match="try again later"):
        sink.dispatch(ledger_run, manifest, report(ledger_run, manifest))
