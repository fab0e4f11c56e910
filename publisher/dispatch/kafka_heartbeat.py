"""Heartbeats: records that say that the publisher is there when there is nothing to publish."""

from __future__ import annotations

from datetime import UTC, datetime

from confluent_kafka import KafkaError

from publisher.dispatch.kafka_client import KafkaClients
from publisher.dispatch.kafka_options import KafkaOptions
from publisher.errors import UnreachableError

OPERATION = "heartbeat"
"""The header ``operation`` of a heartbeat."""


def heartbeat(options: KafkaOptions, job: str, document: str) -> None:
    """Sends ``document``, which has no operations, without a key to the topic.

    Its event id is the job and the time: heartbeats are no part of a run, and of no transaction.

    Raises:
        UnreachableError: The brokers do not take it.
    """
    clients = KafkaClients(options)
    failed: list[KafkaError] = []
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    producer = clients.producer(
        {"on_delivery": lambda error, _: failed.append(error) if error is not None else None}
    )
    with clients.errors("sending a heartbeat"):
        producer.produce(
            options.topic,
            value=document.encode(),
            headers=[
                ("event-id", f"{job}:{OPERATION}:{now}".encode()),
                ("operation", OPERATION.encode()),
            ],
        )
        left = producer.flush(options.timeout)
    if left or failed:
        raise UnreachableError(
            f"a heartbeat was not delivered to topic {options.topic}: see whether its brokers answer"
        )
