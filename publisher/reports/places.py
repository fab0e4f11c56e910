"""The places of documents in topics and files, as users name them and as journals record them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from publisher.dispatch.kafka.partitioners import partitions_of
from publisher.dispatch.kafka.topic_template import SCHEME, KafkaTarget, TopicTemplate
from publisher.dispatch.refusals import DispatchRecord
from publisher.dispatch.sent_ranges import SentRange, ranges_of
from publisher.errors import UsageError
from publisher.journal.lane_reader import PublishedDocument
from publisher.model.change import Object

_TOPIC_PLACE = re.compile(r"([A-Za-z0-9._-]+):(\d{1,9}):(\d{1,18})")
_FILE_PLACE = re.compile(r"(.+):(\d{1,18})", re.DOTALL)
_PART = re.compile(r"part-(\d{5,})\.xds")


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """The place of a record in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """The form of the command line."""
        return f"{self.topic}:{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class FilePlace:
    """The line of a part file, counted from 1."""

    file: Path
    line: int

    @property
    def lane(self) -> int:
        """The lane whose documents the file holds.  Raises ``UsageError`` for other files."""
        match = _PART.fullmatch(self.file.name)
        if match is None:
            raise UsageError(f"{self.file} is not a part file: name a file such as part-00000.xds")
        return int(match[1])


def parse_place(text: str) -> TopicPlace | FilePlace:
    """Parses ``TOPIC:PARTITION:OFFSET`` or ``FILE:LINE``.

    Raises:
        UsageError: The text is neither.
    """
    file = _FILE_PLACE.fullmatch(text)
    topic = _TOPIC_PLACE.fullmatch(text)
    if file is not None and (topic is None or Path(file[1]).exists()):
        return FilePlace(Path(file[1]), int(file[2]))
    if topic is not None:
        return TopicPlace(topic[1], int(topic[2]), int(topic[3]))
    raise UsageError(
        f"{text!r} is not the place of a document: write TOPIC:PARTITION:OFFSET or FILE:LINE"
    )


def offsets_of(
    records: Sequence[DispatchRecord],
    lane: int,
    document: PublishedDocument,
    source: str,
    obj: Object,
) -> Iterator[SentRange]:
    """Yields the ranges that have a document, in the order of the sinks: one for each of its records.

    A sink of several partitions has one range for each partition, of which only that of the key counts."""
    for record in records:
        ranges = ranges_of(record.transactions, lane, document.number)
        for key in filter(None, (document.association, document.new_association)):
            place = _partition(record, key, source, obj)
            yield from (r for r in ranges if place in (None, (r.topic, r.partition)))


def _partition(
    record: DispatchRecord, key: str, source: str, obj: Object
) -> tuple[str, int] | None:
    """Topic and partition of a key, computed with the settings of the sink; ``None`` if unknown."""
    if not record.partitions:
        return None
    topic = TopicTemplate(target_of(record.target).topic).topic(source, obj.schema, obj.table)
    count = record.partitions.get(topic)
    if count is None:
        return None
    number = _partition_of(key, record.partitioner, count)
    return None if number < 0 else (topic, number)


@lru_cache(maxsize=1_000)  # an object has many documents
def _partition_of(key: str, partitioner: str, count: int) -> int:
    return int(partitions_of([key.encode()], partitioner, count)[0])


def target_of(text: str) -> KafkaTarget:
    """Restores brokers and topic of a sink from its name, which is not checked."""
    return KafkaTarget(*text.removeprefix(SCHEME).rpartition("/")[::2])
