"""Reads documents from Kafka topics.  The only module of the consumer that needs confluent-kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Any, Self, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from publisher.consumer.delivery import Delivery, Headers, from_record
from publisher.consumer.errors import Origin, TopicError, replaced_topic
from publisher.consumer.parse import DEFAULT_LIMITS, Limits

_BATCH = 500
_NO_ID = "A" * 22
"""The id that is zero."""
_FIXED = MappingProxyType(
    {
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        # an offset that is gone is an error: to skip records silently would lose changes
        "auto.offset.reset": "error",
    }
)


class TopicReader:
    """Reads the partitions of topics, committed records only, in the order of each partition.

    It joins no consumer group, because the two copies of a key change are in different partitions, and one
    ``Inbox`` must get both.  Offsets are not stored in Kafka either: store ``Inbox.snapshot()`` with the
    results, and pass ``Inbox.resume_at()`` as ``start`` after a restart.

    Partitions that are added later are read by the next reader.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *topics: str,
        partitions: Collection[int] = (),
        start: Mapping[str, int | str] = MappingProxyType({}),
        limits: Limits = DEFAULT_LIMITS,
        connect_seconds: float = 30.0,
    ) -> None:
        """Connects and finds the partitions; ``settings`` are those of librdkafka.

        ``partitions`` selects some, for several processes that share topics without changes of keys.

        Raises:
            TopicError: The brokers do not answer, or a topic does not exist.
        """
        self._limits = limits
        # of each partition of which something is known
        self._next = {part: n for part, n in start.items() if isinstance(n, int)}
        self._ids: dict[str, str] = {}
        group = {"group.id": "xds-consumer"}  # librdkafka demands one; nothing is committed
        self._consumer = Consumer({**group, **settings, **_FIXED})
        try:
            self._ids = _topic_ids(settings, topics, connect_seconds)
            for topic, id_ in self._ids.items():
                if id_ and (known := str(start.get(topic, id_))) != id_:
                    raise replaced_topic(topic, known, id_)
            self._partitions = [
                Partition(topic, number, self._next.get(_part(topic, number), OFFSET_BEGINNING))
                for topic in topics
                for number in self._numbers(topic, connect_seconds)
                if not partitions or number in partitions
            ]
            self._consumer.assign(self._partitions)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._consumer.close()

    def deliveries(self, *, follow: bool = True, ends: bool = False) -> Iterator[Delivery]:
        """Yields the documents of all partitions as they arrive.

        With ``ends``, a delivery ``at_end`` follows the last document of a partition that has marks of
        transactions behind it.  A reader that starts behind them does not fail if retention has removed them.

        Without ``follow`` it ends when the ends of all partitions have been reached.

        Raises:
            DocumentError: A record is not one of the publisher.
            TopicError: A topic cannot be read any more.
        """
        unfinished = {_part(each.topic, each.partition) for each in self._partitions}
        while follow or unfinished:
            for message in self._receive():
                origin, error = _origin(message), message.error()
                if error is None:
                    unfinished.add(origin.part)
                    self._next[origin.part] = origin.number + 1
                    yield self._delivery(message, origin)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 -- the client's name
                    unfinished.discard(origin.part)
                    if ends:
                        yield from self._marks(origin)
                else:
                    raise _topic_error(origin.part, error)

    def _receive(self) -> list[Message]:
        """Returns the messages that have arrived, after waiting for the first one.

        A request for several would wait until it has all of them, or for its whole time.
        """
        first = self._consumer.consume(1, 1.0)
        return first + self._consumer.consume(_BATCH, 0) if first else first

    def _delivery(self, message: Message, origin: Origin) -> Delivery:
        headers = cast("Headers", message.headers() or ())
        found = from_record(message.value(), message.key(), headers, origin, self._limits)
        return replace(found, topic_id=self._ids[str(message.topic())])

    def _marks(self, end: Origin) -> Iterator[Delivery]:
        """Yields the last mark before the end of a partition that has marks behind its last record."""
        if end.number > self._next.get(end.part, 0):
            self._next[end.part] = end.number
            id_ = self._ids[end.part.rpartition("/")[0]]
            yield Delivery((), Origin(end.part, end.number - 1), at_end=True, topic_id=id_)

    def _numbers(self, topic: str, seconds: float) -> Sequence[int]:
        try:
            found = self._consumer.list_topics(topic, timeout=seconds).topics[topic]
        except KafkaException as error:
            raise _topic_error(topic, error.args[0]) from error
        if found.error is not None:
            raise _topic_error(topic, found.error)
        return sorted(found.partitions)


def _topic_ids(
    settings: Mapping[str, Any], topics: Sequence[str], seconds: float
) -> dict[str, str]:
    """Returns the ids of topics by name; empty if the brokers give none, as before Kafka 2.8."""
    # settings of consumers would be warned about
    admin = AdminClient({**settings, "log_level": 0})
    futures = admin.describe_topics(TopicCollection([*topics]), request_timeout=seconds)
    ids: dict[str, str] = {}
    for topic in topics:
        try:
            id_ = str(futures[topic].result().topic_id)
        except KafkaException as error:
            raise _topic_error(topic, error.args[0]) from error
        ids[topic] = "" if id_ == _NO_ID else id_
    return ids


def _origin(message: Message) -> Origin:
    return Origin(_part(message.topic(), message.partition()), int(message.offset() or 0))


def _part(topic: str | None, partition: int | None) -> str:
    return f"{topic}/{partition}"


def _topic_error(place: str, error: KafkaError) -> TopicError:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
        return TopicError(
            place,
            f"the records at the stored offset are gone ({error.str()}): the topic was created again, or "
            "retention has removed them; start with an empty state, or from a copy of all objects",
        )
    return TopicError(place, f"{error.str()}: check the brokers, the topic and its read permission")
