"""Progress is read from topics of a real broker."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import TokenPlace, read_tokens
from publisher.errors import UnreachableError
from tests.services.topics import Topics


def test_a_topic_that_was_made_this_moment_is_read(kafka: Topics) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    clients = KafkaClients(KafkaOptions(bootstrap=kafka.bootstrap, timeout=30))
    for _ in range(8):  # most of them have no leader yet when they are asked for
        name = f"tokens-{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, 30, 1)])[name].result(30)
        kafka.made.append(name)
        assert read_tokens(clients, TokenPlace(name, "job", "sink"), range(30)) == {}


def test_a_partition_that_does_not_come_is_worth_another_try(kafka: Topics) -> None:
    topic = kafka.make(1)
    clients = KafkaClients(KafkaOptions(bootstrap=kafka.bootstrap, timeout=1))
    place = TokenPlace(topic, "job", "sink")
    with pytest.raises(UnreachableError, match=f"partition 5 of {topic} .* try again later"):
        read_tokens(clients, place, [5])
