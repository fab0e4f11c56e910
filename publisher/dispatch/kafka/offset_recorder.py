"""Learns the offsets of a transaction from the delivery reports of a few of its records.

The records of one producer are in order within a partition.  So the first record of a transaction in each
partition, and the last one of each batch, limit the offsets of all others.  The partitions are computed;
if a report shows another partition, the offsets of the transaction remain unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from confluent_kafka import KafkaError, Message

from publisher.dispatch.kafka.partitioners import UNKNOWN, Numbers, partitions_of
from publisher.dispatch.kafka.records import Batch
from publisher.dispatch.sent_ranges import SentRange, SentTransaction

_ALL_REPORTED = 32
"""Maximum number of records in a batch of which all are reported."""

OnDelivery = Callable[[KafkaError | None, Message], None]


class _Partition(NamedTuple):
    topic: str
    number: int


def collect_failure(failed: list[KafkaError], error: KafkaError | None) -> None:
    """Collects a failed delivery; an exception here would not stop the sender."""
    if error is not None and error.code() not in (
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
    ):
        failed.append(error)


class OffsetRecorder:
    """Chooses records whose delivery is reported, and collects their offsets and errors."""

    def __init__(
        self, partitioner: str, partitions: Mapping[str, int], failed: list[KafkaError]
    ) -> None:
        """``partitions`` has the number of partitions of each topic; ``failed`` collects errors."""
        self._partitioner = partitioner
        self._partitions = partitions
        self._failed = failed
        self._begun: dict[str, set[int]] = {}
        """Partitions whose first record in the transaction is chosen, by topic."""
        self._ranges: dict[_Partition, tuple[int, int]] = {}
        self._unreported = 0
        self._is_known = True

    def choose(self, batch: Batch) -> Sequence[OnDelivery | None]:
        """Returns the callback of each record of a batch; ``None`` for records without a report."""
        count, keys = len(batch.records), [*map(itemgetter(0), batch.records)]
        callbacks: list[OnDelivery | None] = [None] * count
        names = dict.fromkeys(batch.topics)
        for topic in names:
            places = np.arange(count)
            if len(names) > 1:
                places = np.flatnonzero([each == topic for each in batch.topics])
                keys = [batch.records[place][0] for place in places.tolist()]
            for place, partition in self._choose_of_topic(topic, places, keys):
                callbacks[place] = partial(self._on_delivery, partition)
                self._unreported += 1
        return callbacks

    def _choose_of_topic(
        self, topic: str, places: Numbers, keys: Sequence[bytes | None]
    ) -> Iterator[tuple[int, _Partition | None]]:
        """Chooses records of one topic: the last of each partition, and the first if none was chosen.

        Yields their places and computed partitions."""
        count = self._partitions.get(topic)
        if len(places) <= _ALL_REPORTED or count is None:
            yield from ((place, None) for place in places.tolist())
            return
        numbers = partitions_of(keys, self._partitioner, count)
        yield from ((place, None) for place in places[numbers == UNKNOWN].tolist())
        # the last assignment to a partition remains
        first, last = np.full((2, count + 1), -1)
        first[numbers[::-1]], last[numbers] = places[::-1], places
        begun = self._begun.setdefault(topic, set())
        for number in np.flatnonzero(last[:count] >= 0).tolist():
            partition = _Partition(topic, number)
            yield int(last[number]), partition
            if number not in begun and first[number] != last[number]:
                yield int(first[number]), partition
            begun.add(number)

    def _on_delivery(
        self, computed: _Partition | None, error: KafkaError | None, message: Message
    ) -> None:
        """Collects the report of a record, see ``collect_failure``."""
        if error is not None:
            collect_failure(self._failed, error)
            return
        topic, number, offset = message.topic(), message.partition(), message.offset()
        if topic is None or number is None or offset is None:
            return
        partition = _Partition(topic, number)
        self._unreported -= 1
        self._is_known = self._is_known and computed in (None, partition)
        first, last = self._ranges.get(partition, (offset, offset))
        self._ranges[partition] = min(first, offset), max(last, offset)

    def take(self, lane: int | str, first: int, end: int) -> SentTransaction:
        """Returns the offsets of the documents of a committed transaction, and begins the next one."""
        ranges: list[SentRange] = []
        if self._is_known and not self._unreported:
            ranges = [SentRange(*place, *limits) for place, limits in sorted(self._ranges.items())]
        self._begun, self._ranges = {}, {}
        self._unreported, self._is_known = 0, True
        return SentTransaction(lane, first, end, tuple(ranges))
