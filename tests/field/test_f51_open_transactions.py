"""What stands behind an open transaction is not lost, and not there yet.

Readers of committed records waited for ever at the first offset of an open transaction, or called the
records behind it missing. The last stable offset is not the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from publisher.consumer import Inbox
from publisher.consumer.topics import TopicReader
from tests.field.kafka_jobs import log_values, make_log, write_job
from tests.services.topics import Topics
from tests.support.workbench import Workbench

pytestmark = pytest.mark.long


@contextmanager
def open_transaction(bootstrap: str, topic: str) -> Iterator[None]:
    """Another program's transaction with one record, which is aborted at the end."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"other-{topic}", "log_level": 0}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"not ours", key=b"k", partition=0)
    producer.flush(60)
    try:
        yield
    finally:
        producer.abort_transaction(60)


def test_records_behind_an_open_transaction_are_unsettled(bench: Workbench, kafka: Topics) -> None:
    topic = kafka.make(1)
    place = make_log(bench.folder)
    values = dict.fromkeys(range(6), "a")
    place.execute(*(f"INSERT INTO usr VALUES ({n}, 'b')" for n in values))
    job = write_job(bench, kafka.bootstrap, topic)
    log_values(place, values)
    bench.publish(job=job)
    with open_transaction(kafka.bootstrap, topic):
        log_values(place, dict.fromkeys(values, "b"), first=100)
        bench.publish(job=job)
        done = bench.verify(job=job)
        assert "unsettled" in done.out
        assert "missing" not in done.out.replace("not missing", "")
        assert "to publish: nothing" in bench.verify("--repair", "--dry-run", job=job).out
    assert bench.verify(job=job).code == 0


def test_a_recovery_is_refused_meanwhile(bench: Workbench, kafka: Topics) -> None:
    topic = kafka.make(1)
    place = make_log(bench.folder)
    job = write_job(bench, kafka.bootstrap, topic)
    log_values(place, dict.fromkeys(range(6), "a"))
    bench.publish(job=job)
    place.execute("UPDATE log SET status = 'N'")  # a crash before the statuses were written
    (bench.folder / ".xds-publisher").rename(bench.folder / "lost")
    with open_transaction(kafka.bootstrap, topic):
        done = bench.run("recover", "-c", job, codes=[1, 3, 5])
        assert topic in done.err
        assert "offset" in done.err
    bench.run("recover", "-c", job, codes=[0, 4])
    with TopicReader({"bootstrap.servers": kafka.bootstrap}, topic) as reader:
        arrived = list(Inbox().in_order(reader.deliveries(follow=False)))
    assert len(arrived) == 6  # what was sent again has the same event ids
