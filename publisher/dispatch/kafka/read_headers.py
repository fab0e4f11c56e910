"""Reads the headers of one record of a topic."""

from __future__ import annotations

import time
from contextlib import closing
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from publisher.dispatch.kafka.client import READ_SECONDS, KafkaClients
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.errors import UnreachableError, UsageError


def read_headers(options: KafkaOptions, topic: str, partition: int, offset: int) -> dict[str, str]:
    """Reads the headers of the committed record at an offset, as text.

    Raises:
        UsageError: There is no record at the offset.
        UnreachableError: The brokers do not answer.
    """
    clients = KafkaClients(options)
    place = TopicPartition(topic, partition, offset)
    with closing(clients.consumer()) as consumer, clients.errors("reading records"):
        if _assign(consumer, place, options.timeout):
            message = _next_message(clients, consumer)
            if message is not None and message.offset() == offset:
                headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
                return {name: (value or b"").decode("utf-8", "replace") for name, value in headers}
    raise UsageError(
        f"{topic}:{partition}:{offset} has no record: it is a mark of a transaction, belongs to an "
        "aborted transaction, has expired, or does not exist yet"
    )


def _assign(consumer: Consumer, place: TopicPartition, timeout: float) -> bool:
    """Assigns a place to a consumer; returns whether its partition has the offset."""
    try:
        low, high = consumer.get_watermark_offsets(place, timeout=timeout)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
            raise UsageError(
                f"topic {place.topic} has no partition {place.partition}: correct the place"
            ) from None
        raise
    if not low <= place.offset < high:
        return False
    consumer.assign([place])
    return True


def _next_message(clients: KafkaClients, consumer: Consumer) -> Message | None:
    """Reads the next committed record; ``None`` at the end of the partition."""
    deadline = time.monotonic() + clients.options.timeout
    while time.monotonic() < deadline:
        message = consumer.poll(READ_SECONDS)
        if message is None:
            continue
        error = message.error()
        if error is None:
            return message
        if error.code() == KafkaError._PARTITION_EOF:
            return None
        raise KafkaException(error)
    raise UnreachableError(
        f"{clients.name}: no record within {clients.options.timeout} s: try again later"
    )
