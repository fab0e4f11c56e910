"""The records of a topic, counted as a consumer of committed transactions sees them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Held:
    """Records of a topic, and bytes of their keys, values and headers."""

    records: int
    bytes: int


def read_topic(
    bootstrap: str,
    topic: str,
    *,
    headers: bool = False,
    parse: Callable[[bytes], object] | None = None,
) -> Held:
    """Reads a topic whole; headers count only where asked for.  Raises ``TimeoutError``."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",  # must be there; nothing is committed
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        known = consumer.list_topics(topic, timeout=PATIENCE).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in known])
        return _read(consumer, set(known), headers=headers, parse=parse)
    finally:
        consumer.close()


def _read(
    consumer: Consumer,
    open_: set[int],
    *,
    headers: bool,
    parse: Callable[[bytes], object] | None,
) -> Held:
    records = size = 0
    deadline = time.monotonic() + PATIENCE
    while open_:
        for message in consumer.consume(10_000, 0.1):
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                open_.discard(message.partition())
                continue
            records += 1
            size += len(message.key() or b"") + len(message.value() or b"")
            if parse is not None:
                parse(message.value() or b"")
            if headers:
                size += sum(len(name) + len(value or b"") for name, value in headers_of(message))
            deadline = time.monotonic() + PATIENCE
        if time.monotonic() > deadline:
            raise TimeoutError(f"the ends of partitions {open_} cannot be read")
    return Held(records, size)


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """The headers of a record."""
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])


def check(found: int, sent: int) -> None:
    """Fails unless as many records can be read as were sent."""
    if found != sent:
        raise RuntimeError(f"{found} records can be read of {sent} that were sent")
