"""The places of documents in topics and files, as users name them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from publisher.dispatch.kafka.topic_template import SCHEME, KafkaTarget
from publisher.errors import UsageError

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


def target_of(text: str) -> KafkaTarget:
    """Restores brokers and topic of a sink from its name, which is not checked."""
    return KafkaTarget(*text.removeprefix(SCHEME).rpartition("/")[::2])
