"""Finds the published documents of a job: part files of its runs, or the partitions of its topics."""

# ruff: noqa: PLC0415 - the Kafka client is loaded only where it is needed

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from publisher.consumer.errors import ConsumerError
from publisher.consumer.files import part_files
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.topic_template import PLACEHOLDERS
from publisher.errors import FatalError
from publisher.verify.documents import DocumentPart, FilePart, TopicPart

_FIELD = re.compile(r"\\\{(" + "|".join(sorted(PLACEHOLDERS)) + r")\\\}")
_WHOLE_FILE = 1 << 62
_DOCUMENT_BYTES = 500
"""Typical size of a document."""
_RANGES = 8
"""Number of ranges of offsets into which partitions are divided, so that all cores read."""


@dataclass(frozen=True, slots=True)
class PublishedDocuments:
    """All documents that a consumer can read now."""

    parts: tuple[DocumentPart, ...]
    has_expired: bool = False
    """True if the first documents are gone."""
    hidden: tuple[str, ...] = ()
    """The partitions with an open transaction, which hides later documents from consumers."""

    @property
    def ends(self) -> dict[str, int]:
        """The end of each part; the part files of a run are complete."""
        ends: dict[str, int] = {}
        for part in self.parts:
            end = part.end if isinstance(part, TopicPart) else _WHOLE_FILE
            ends[part.name] = max(end, ends.get(part.name, 0))
        return ends

    @property
    def bytes(self) -> int:
        """The approximate size of all documents."""
        return sum(
            (part.end - part.start) * _DOCUMENT_BYTES
            if isinstance(part, TopicPart)
            else part.path.stat().st_size
            for part in self.parts
        )

    def after(self, ends: dict[str, int]) -> Iterator[DocumentPart]:
        """Yields the parts that lie after earlier ends."""
        for part in self.parts:
            start = ends.get(part.name)
            if start is None:
                yield part
            elif isinstance(part, TopicPart) and part.end > start:
                start = max(start, part.start)
                yield TopicPart(part.options, part.topic, part.partition, start, part.end)


def find_files(directory: Path, *, has_first_run: bool) -> PublishedDocuments:
    """Lists the part files of the complete runs of a job."""
    try:
        paths = part_files(directory)
    except ConsumerError:
        return PublishedDocuments((), not has_first_run)
    return PublishedDocuments(tuple(map(FilePart, paths)), not has_first_run)


def find_topics(options: KafkaOptions, *, is_new: bool = False) -> PublishedDocuments:
    """Finds the committed records of all topics of a sink; ``is_new`` says that the job has no run yet.

    Raises:
        UnreachableError: The brokers do not answer.
        FatalError: There is no topic.
    """
    from confluent_kafka import TopicPartition

    from publisher.dispatch.kafka.client import KafkaClients
    from publisher.dispatch.kafka.topic_admin import KafkaTopics, hidden_text

    clients = KafkaClients(options)
    topics = KafkaTopics.of(clients)
    pattern = re.compile(_FIELD.sub("[A-Za-z0-9._-]+", re.escape(options.topic)))
    names = [name for name in sorted(topics.partitions) if pattern.fullmatch(name)]
    names = [n for n in names if n != options.dead_letter_topic and not n.startswith("__")]
    if not names and is_new and options.create_topics:
        return PublishedDocuments(())
    if not names:
        raise FatalError(f"{clients.name} has no topic {options.topic}: publish first")
    compacted = any(
        "compact" in c.get("cleanup.policy", "") for c in topics.configs(names).values()
    )
    parts: list[DocumentPart] = []
    has_expired = compacted
    ends = topics.ends(names)
    hidden = tuple(hidden_text(place, *both) for place, both in ends.items() if both[0] < both[1])
    consumer = clients.consumer()
    try:
        for name in names:
            for number in range(topics.partitions[name]):
                with clients.errors(f"asking for the ends of {name}"):
                    place = TopicPartition(name, number)
                    low, _ = consumer.get_watermark_offsets(place, timeout=options.timeout)
                has_expired = has_expired or low > 0
                parts += _ranges(TopicPart(options, name, number, low, ends[place][0]))
    finally:
        consumer.close()
    return PublishedDocuments(tuple(parts), has_expired, hidden)


def _ranges(part: TopicPart) -> Iterator[TopicPart]:
    """Divides a large partition into ranges of offsets."""
    step = max(100_000, -(-(part.end - part.start) // _RANGES))
    for start in range(part.start, max(part.end, part.start + 1), step):
        end = min(part.end, start + step)
        yield TopicPart(part.options, part.topic, part.partition, start, end)
