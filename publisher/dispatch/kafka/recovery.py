"""Recovery of a job whose ledger was lost: reads the records of its topics."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from publisher.dispatch.kafka.client import READ_SECONDS
from publisher.dispatch.kafka.topic_admin import KafkaTopics, hidden_text
from publisher.errors import FatalError, UnreachableError
from publisher.ledger.manifest import Manifest
from publisher.ledger.records import PositionText
from publisher.ledger.recovery import RecoveredDocuments, read_recovery
from publisher.ledger.runs import LedgerRun
from publisher.ledger.waiting_records import WaitingIds, find_documents, last_segment

_AT_ONCE = 10_000
_RECORD_IDS = "record-ids"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The sources of a job to recover.

    ``texts`` has for each source the function that formats a position as a record id; ``None`` if record
    ids differ between runs."""

    texts: Mapping[str, PositionText | None]

    def mark(
        self, topics: KafkaTopics, names: Collection[str], ledger_run: LedgerRun, manifest: Manifest
    ) -> None:
        """Finds the documents that the topics may have already and records them in the ledger, unless an
        earlier start has done so.

        Raises:
            FatalError: A topic has lost records.
            UnreachableError: The brokers do not answer.
        """
        if read_recovery(ledger_run, manifest) is not None:
            return
        texts = [self.texts[source.name] for source in manifest.sources]
        rows = ledger_run.lanes(manifest)
        waiting = WaitingIds.gather(rows, texts)
        find_records(topics, names, waiting)
        lanes = {lane.lane: find_documents(lane, texts, waiting) for lane in rows}
        RecoveredDocuments(manifest.plan, lanes).write(ledger_run)


def refuse_incomplete(topics: KafkaTopics, names: Collection[str]) -> None:
    """Refuses topics that have lost records.

    Raises:
        FatalError: Records have expired, or the topic is compacted.
    """
    existing = sorted(set(names) & topics.partitions.keys())
    for name, config in topics.configs(existing).items():
        if "compact" in config.get("cleanup.policy", ""):
            raise FatalError(
                f"topic {name} is compacted and does not show all published records: {_REMEDY}"
            )
    consumer = topics.clients.consumer()
    try:
        for name in existing:
            for number in range(topics.partitions[name]):
                low, _ = _watermarks(topics, consumer, TopicPartition(name, number))
                if low > 0:
                    raise FatalError(
                        f"topic {name} has lost its records below offset {low} of partition {number}, "
                        f"and does not show all published records: {_REMEDY}"
                    )
    finally:
        consumer.close()


_REMEDY = (
    "restore the ledger directory; or set another name in [job], which sends all waiting records: "
    "documents that the topic already has are then duplicated"
)


def find_records(topics: KafkaTopics, names: Collection[str], waiting: WaitingIds) -> None:
    """Marks the waiting ids that occur in the header ``record-ids`` of committed records.

    Raises:
        FatalError: A topic has lost records.
        UnreachableError: The brokers do not answer, or a transaction stays open.
    """
    refuse_incomplete(topics, names)
    existing = sorted(set(names) & topics.partitions.keys())
    ends = topics.ends(existing)
    for place, (committed, end) in ends.items():
        if committed < end:
            raise UnreachableError(
                f"{topics.clients.name}: {hidden_text(place, committed, end)}: documents behind it would be "
                "sent again; end the program that began it, or wait until it times out, then try again"
            )
    consumer = topics.clients.consumer()
    try:
        remaining = {(p.topic, p.partition): end for p, (end, _) in ends.items() if end}
        consumer.assign([TopicPartition(topic, number, 0) for topic, number in remaining])
        with topics.clients.errors("reading the published records"):
            _read(topics, consumer, remaining, waiting)
    finally:
        consumer.close()


def _read(
    topics: KafkaTopics,
    consumer: Consumer,
    remaining: dict[tuple[str, int], int],
    waiting: WaitingIds,
) -> None:
    patience = topics.clients.options.timeout
    deadline = time.monotonic() + patience
    while remaining:
        ids: list[str] = []
        for message in consumer.consume(_AT_ONCE, READ_SECONDS):
            place, offset = _place(message)
            if message.error() is None:
                deadline = time.monotonic() + patience
                offset += 1
                ids += _ids(message)
            if place in remaining and offset >= remaining[place]:
                del remaining[place]
        waiting.mark(ids)
        if remaining and time.monotonic() > deadline:
            raise UnreachableError(
                f"{topics.clients.name}: {min(remaining)[0]} cannot be read to its end within "
                f"{patience} s: a transaction of another program is open: try again later"
            )


def _place(message: Message) -> tuple[tuple[str, int], int]:
    """Topic and partition, and the offset of a record or of the partition's end.

    Raises ``KafkaException`` for other errors."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return (topic, partition), offset


def _ids(message: Message) -> list[str]:
    headers = cast("Sequence[tuple[str, bytes | None]]", message.headers() or ())
    return [
        last_segment(part)
        for name, value in headers
        if name == _RECORD_IDS
        for part in (value or b"").decode("utf-8", "replace").split(",")
    ]


def _watermarks(topics: KafkaTopics, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    with topics.clients.errors(f"asking for the ends of {place.topic}"):
        low, high = consumer.get_watermark_offsets(place, timeout=topics.clients.options.timeout)
    return low, high
