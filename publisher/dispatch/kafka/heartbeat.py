"""Heartbeats: records that show a working publisher while it has nothing to publish."""

from __future__ import annotations

from datetime import UTC, datetime

from publisher.dispatch.kafka.client import KafkaClients, KafkaMessage
from publisher.dispatch.kafka.options import KafkaOptions

OPERATION = "heartbeat"
"""The header ``operation`` of a heartbeat."""


def send_heartbeat(options: KafkaOptions, job: str, document: str) -> None:
    """Sends ``document``, which has no operations, to the topic without a key.

    Its event id is the job and the time: heartbeats belong to no run and no transaction.

    Raises:
        UnreachableError: The brokers do not answer.
        FatalError: The brokers refuse the record.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    headers = (
        ("event-id", f"{job}:{OPERATION}:{now}".encode()),
        ("operation", OPERATION.encode()),
    )
    message = KafkaMessage(document.encode(), headers=headers)
    KafkaClients(options).deliver("sending a heartbeat", options.topic, [message])
