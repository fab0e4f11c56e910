"""The brokers of the tests are real: what the proofs of the program stand on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.services.kafka import KafkaCluster
from tests.services.topics import Isolation, Topics


def producer(bootstrap: str, identity: str | None = None, *, patience: int = 30_000) -> Producer:
    """``patience`` in milliseconds is with topics that are not there."""
    transactional = {} if identity is None else {"transactional.id": identity}
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "log_level": 0,
            **transactional,
            "topic.metadata.propagation.max.ms": patience,
        }
    )


def send(sender: Producer, topic: str, values: Iterable[bytes]) -> None:
    for value in values:
        sender.produce(topic, value)
    assert sender.flush(60) == 0


def values(topics: Topics, topic: str, isolation: Isolation = "read_committed") -> list[bytes]:
    return [record.value or b"" for record in topics.read(topic, isolation)]


def test_record_comes_back_whole(kafka: Topics) -> None:
    topic = kafka.make(partitions=3)
    sender = producer(kafka.bootstrap)
    headers: list[tuple[str, str | bytes | None]] = [("name", b"\xff"), ("name", None)]
    sender.produce(
        topic, b"value", b"key", partition=2, timestamp=1_700_000_000_123, headers=headers
    )
    sender.produce(topic, None, partition=0)
    assert sender.flush(60) == 0
    empty, full = kafka.read(topic)
    assert (empty.partition, empty.key, empty.headers, empty.value) == (0, None, (), None)
    assert (full.partition, full.offset, full.timestamp) == (2, 0, 1_700_000_000_123)
    assert (full.key, full.value) == (b"key", b"value")
    assert full.headers == (("name", b"\xff"), ("name", None))


def test_topics_are_not_made_by_accident(own_kafka: KafkaCluster) -> None:
    sender = producer(own_kafka.bootstrap, patience=0)
    failed: list[KafkaError | None] = []
    sender.produce("never-made", b"value", on_delivery=lambda error, _: failed.append(error))
    sender.flush(60)
    assert [error and error.code() for error in failed] == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    with pytest.raises(KafkaException):
        own_kafka.topics.read("never-made")


def test_aborted_records_are_hidden_from_read_committed(kafka: Topics) -> None:
    topic = kafka.make()
    sender = producer(kafka.bootstrap, topic)
    sender.init_transactions(60)
    for value, decide in (
        (b"first", sender.commit_transaction),
        (b"aborted", sender.abort_transaction),
        (b"last", sender.commit_transaction),
    ):
        sender.begin_transaction()
        send(sender, topic, [value])
        decide(60)
    assert values(kafka, topic) == [b"first", b"last"]
    assert values(kafka, topic, "read_uncommitted") == [b"first", b"aborted", b"last"]


def test_reader_waits_for_an_open_transaction_only_when_asked(kafka: Topics) -> None:
    topic = kafka.make(partitions=2)
    sender = producer(kafka.bootstrap, topic)
    sender.init_transactions(60)
    sender.begin_transaction()
    send(sender, topic, [b"open"])
    assert kafka.read(topic, wait=False) == []
    with pytest.raises(TimeoutError, match="open"):
        kafka.read(topic, seconds=0.2)
    commit = threading.Timer(0.3, sender.commit_transaction, [60])
    commit.start()
    assert values(kafka, topic) == [b"open"]
    commit.join()


def test_later_producer_fences_the_earlier_one(kafka: Topics) -> None:
    topic = kafka.make()
    earlier, later = (producer(kafka.bootstrap, topic) for _ in range(2))
    earlier.init_transactions(60)
    earlier.begin_transaction()
    send(earlier, topic, [b"earlier"])
    later.init_transactions(60)
    later.begin_transaction()
    send(later, topic, [b"later"])
    later.commit_transaction(60)
    with pytest.raises(KafkaException) as raised:
        earlier.commit_transaction(60)
    assert raised.value.args[0].code() in {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
    assert values(kafka, topic) == [b"later"]
    assert values(kafka, topic, "read_uncommitted") == [b"earlier", b"later"]


def test_console_consumer_reads_it(kafka: Topics) -> None:
    topic = kafka.make()
    sender = producer(kafka.bootstrap)
    sender.produce(topic, "<nds>Ä</nds>", "idu=1", headers=[("a", b"1"), ("b", b"2")])
    sender.produce(topic, "<nds/>")
    assert sender.flush(60) == 0
    assert kafka.console(topic, 2) == ["a:1,b:2\tidu=1\t<nds>Ä</nds>", "NO_HEADERS\tnull\t<nds/>"]
    assert kafka.console(kafka.make(), 1, seconds=0.5) == []


def test_topic_of_many_records_is_read_whole(kafka: Topics) -> None:
    topic = kafka.make(partitions=4)
    sender = producer(kafka.bootstrap)
    sent = [b"%d" % number for number in range(50_000)]
    send(sender, topic, sent)
    found = kafka.read(topic)
    assert sorted(sent) == sorted(record.value or b"" for record in found)
    assert kafka.ends(topic) == {
        number: sum(record.partition == number for record in found) for number in range(4)
    }


def test_data_survive_the_end_of_the_broker(own_kafka: KafkaCluster) -> None:
    topics = own_kafka.topics
    topic = topics.make(partitions=2)
    sent: list[bytes] = []
    sender = producer(own_kafka.bootstrap)
    for end in (own_kafka.kill, own_kafka.stop):
        sent += [b"%d" % (len(sent) + number) for number in range(1000)]
        send(sender, topic, sent[-1000:])
        end()
        assert not own_kafka.nodes[0].running()
        assert not own_kafka.nodes[0].answers()
        own_kafka.start()
        assert sorted(values(topics, topic)) == sorted(sent)


def test_paused_broker_keeps_clients_waiting(own_kafka: KafkaCluster) -> None:
    topic = own_kafka.topics.make()
    sender = producer(own_kafka.bootstrap)
    send(sender, topic, [b"before"])
    own_kafka.pause()
    sender.produce(topic, b"during")
    assert sender.flush(0.5) == 1
    assert not own_kafka.nodes[0].answers()
    own_kafka.resume()
    assert sender.flush(60) == 0
    assert values(own_kafka.topics, topic) == [b"before", b"during"]


def test_three_nodes_survive_the_end_of_one(kafka_cluster: KafkaCluster) -> None:
    topics = kafka_cluster.topics
    topic = topics.make(partitions=3)  # each node leads one
    sent: list[bytes] = []
    sender = producer(kafka_cluster.bootstrap, topic)
    sender.init_transactions(60)
    for number in range(6):
        sender.begin_transaction()
        if number == 3:
            kafka_cluster.nodes[0].kill()
        sent += [b"%d-%d" % (number, record) for record in range(100)]
        send(sender, topic, sent[-100:])
        sender.commit_transaction(60)
    assert not kafka_cluster.nodes[0].running()
    assert {record.partition for record in topics.read(topic)} == {0, 1, 2}
    assert sorted(values(topics, topic)) == sorted(sent)


def test_broker_ends_with_the_process_that_started_it(
    one_node: KafkaCluster, tmp_path: Path
) -> None:
    script = """
from tests.services.kafka import cluster
with cluster() as started:
    print(started.nodes[0].process.pid, flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as starter:
        assert starter.stdout is not None
        command = Path("/proc", starter.stdout.readline().decode().strip(), "cmdline")
        assert b"kafka.Kafka" in command.read_bytes()
        starter.kill()
    deadline = time.monotonic() + 10
    while command.exists() and command.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
