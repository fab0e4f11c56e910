"""A topic that was deleted and created again is another topic.

Clients kept stale metadata of a topic that was created again without an error; after partitions were
added, later records of a key lay elsewhere.
"""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from publisher.consumer import Inbox, TopicError
from publisher.consumer.topics import TopicReader
from tests.field.kafka_jobs import log_values, make_log, write_job
from tests.services.topics import Topics
from tests.support.workbench import Workbench


def make_again(kafka: Topics, topic: str, partitions: int) -> None:
    kafka.drop()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions)], operation_timeout=30)[topic].result(30)
    kafka.made.append(topic)


def fill(bootstrap: str, topic: str) -> None:
    """Sends as many records as no stored offset exceeds."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(100):
        producer.produce(topic, b"<nds/>", partition=0, key=b"idu=1,table=usr")
    producer.flush(60)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_consumer_refuses_to_skip_records(
    bench: Workbench, kafka: Topics, partitions: int
) -> None:
    topics = Topics(kafka.bootstrap)
    topic = topics.make(3)
    place = make_log(bench.folder)
    log_values(place, dict.fromkeys(range(20), "a"))
    job = write_job(bench, kafka.bootstrap, topic)
    bench.publish(job=job)
    settings = {"bootstrap.servers": kafka.bootstrap}
    inbox = Inbox()
    with TopicReader(settings, topic) as reader:
        assert len(list(inbox.in_order(reader.deliveries(follow=False)))) == 20
    snapshot = inbox.snapshot()
    make_again(topics, topic, partitions)
    log_values(place, dict.fromkeys(range(60), "b"), first=100)
    refused = bench.run("publish", "-c", job, codes=[1])
    assert topic in refused.err
    fill(kafka.bootstrap, topic)

    def resume() -> None:
        resumed = Inbox(snapshot=snapshot)
        with TopicReader(settings, topic, start=resumed.resume_at()) as reader:
            list(resumed.in_order(reader.deliveries(follow=False)))

    with pytest.raises(TopicError, match=topic):
        resume()
