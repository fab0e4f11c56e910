"""Heartbeats: records that say that the publisher is there when there is nothing to publish."""

from __future__ import annotations

from datetime import UTC, datetime

from publisher.dispatch.kafka.client import KafkaClients, Message
from publisher.dispatch.kafka.options import KafkaOptions

OPERATION = "heartbeat"
"""The header ``operation`` of a heartbeat."""


def heartbeat(options: KafkaOptions, job: str, document: str) -> None:
    """Sends ``document``, which has no operations, without a key to the topic.

    Its event id is the job and the time: heartbeats are no part of a run, and of no transaction.

    Raises:
        UnreachableError: The brokers do not answer.
        FatalError: They refuse it.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    headers = (
        ("event-id", f"{job}:{OPERATION}:{now}".encode()),
        ("operation", OPERATION.encode()),
    )
    message = Message(document.encode(), headers=headers)
    KafkaClients(options).deliver("sending a heartbeat", options.topic, [message])
