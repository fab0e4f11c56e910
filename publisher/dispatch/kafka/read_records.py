"""Reads records of topics: the one at an offset, or all of a topic."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from publisher.dispatch.kafka.client import READ_SECONDS, KafkaClients
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.errors import UnreachableError, UsageError

_BATCH = 1_000
_TO_THE_END = (1 << 63) - 1


class _Range(NamedTuple):
    """The first and the last offset to read of a partition."""

    topic: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """The value of a record, and its headers as text."""

    value: bytes | None
    headers: Mapping[str, str]


def read_record_at(options: KafkaOptions, topic: str, partition: int, offset: int) -> ReadRecord:
    """Reads the committed record at an offset.

    Raises:
        UsageError: There is no record at the offset.
        UnreachableError: The brokers do not answer.
    """
    wanted = _Range(topic, partition, offset, offset)
    for message in _messages(KafkaClients(options), [wanted]):
        return ReadRecord(message.value(), _headers(message))
    raise UsageError(
        f"{topic}:{partition}:{offset} has no record: it is a mark of a transaction, belongs to an "
        "aborted transaction, has expired, or does not exist yet"
    )


def _whole_topics(clients: KafkaClients, topics: Iterable[str]) -> Iterator[_Range]:
    admin = clients.admin()
    with clients.errors("asking for its topics"):
        cluster = clients.cluster(admin)
    for topic in topics:
        found = cluster.topics.get(topic)
        if found is None or found.error is not None:
            raise UsageError(
                f"{clients.name} has no topic {topic}: check the address in [dispatch]"
            )
        yield from (_Range(topic, number, 0, _TO_THE_END) for number in found.partitions)


def _messages(clients: KafkaClients, ranges: Iterable[_Range]) -> Iterator[Message]:
    """Reads the committed records within ranges, up to the present ends of the partitions."""
    limits = {(r.topic, r.partition): r for r in ranges}
    with closing(clients.consumer()) as consumer, clients.errors("reading records"):
        waiting = _assign(consumer, limits.values(), clients.options.timeout)
        deadline = time.monotonic() + clients.options.timeout
        while waiting:
            for message in consumer.consume(_BATCH, READ_SECONDS):
                deadline = time.monotonic() + clients.options.timeout
                place = str(message.topic()), int(message.partition() or 0)
                error, offset = message.error(), int(message.offset() or 0)
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if error is None and place in waiting and offset <= limits[place].last:
                    yield message
                if error is not None or offset >= limits[place].last:
                    waiting.discard(place)
            if time.monotonic() > deadline:
                raise UnreachableError(
                    f"{clients.name}: no record within {clients.options.timeout} s: try again later"
                )


def _assign(consumer: Consumer, ranges: Iterable[_Range], timeout: float) -> set[tuple[str, int]]:
    """Assigns the ranges that have records; returns their partitions."""
    places = []
    for wanted in ranges:
        partition = TopicPartition(wanted.topic, wanted.partition)
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=timeout)
        except KafkaException as error:
            if error.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
                raise UsageError(
                    f"topic {wanted.topic} has no partition {wanted.partition}: correct the place"
                ) from None
            raise
        start = max(wanted.first, low)
        if start < high and start <= wanted.last:
            place = start if wanted.first or low else OFFSET_BEGINNING
            places.append(TopicPartition(wanted.topic, wanted.partition, place))
    if places:
        consumer.assign(places)
    return {(place.topic, place.partition) for place in places}


def _headers(message: Message) -> dict[str, str]:
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers}


def read_topic(options: KafkaOptions, topic: str) -> Iterator[ReadRecord]:
    """Reads all committed records of a topic, up to its present end.

    Raises:
        UsageError: The topic does not exist.
        UnreachableError: The brokers do not answer.
    """
    clients = KafkaClients(options)
    for message in _messages(clients, _whole_topics(clients, [topic])):
        yield ReadRecord(message.value(), _headers(message))
