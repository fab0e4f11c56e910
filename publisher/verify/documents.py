"""Reads published documents without parsing them: parts of topics, and part files of runs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast
from xml.sax.saxutils import unescape

from publisher.errors import FatalError, UnreachableError
from publisher.model.catalogue import Catalogue
from publisher.verify.associations import split_association
from publisher.xds.framing import BROKEN_FILE, documents
from publisher.xds.json_form import is_json

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from publisher.dispatch.kafka.options import KafkaOptions

_RENAMES = (b"<modify-association", b'"old_association"')
_ASSOCIATION = re.compile(rb"<association[^>]*>([^<]*)</association>")
_JSON_ASSOCIATION = re.compile(rb'"(?:old_|new_)?association":("(?:[^"\\]|\\.)*")')
_ENTITIES = {"&quot;": '"', "&apos;": "'", "&#10;": "\n", "&#13;": "\r", "&#9;": "\t"}
_AT_ONCE = 2_000


class StoredDocument(NamedTuple):
    """A document as it is stored, with the headers of its record that consumers use."""

    part: str
    number: int
    """Offset or line."""
    key: str
    """The association under which it is stored; empty for a heartbeat."""
    data: bytes
    event_id: str | None = None
    key_from: str | None = None
    key_to: str | None = None
    problem: str | None = None
    """Explains why it is no document; ``None`` if that is not known before it is parsed."""

    @property
    def renames(self) -> tuple[tuple[str, str], ...]:
        """The changes of keys that the document contains, as old and new association."""
        if not any(mark in self.data for mark in _RENAMES):
            return ()
        names = _names(self.data)
        return tuple((names[0], name) for name in names[1:])


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part file of a run."""

    path: Path

    @property
    def name(self) -> str:
        """The name in places of documents."""
        return str(self.path)

    @property
    def is_topic(self) -> bool:
        """True if documents are records of a topic."""
        return False

    def read(self) -> Iterator[StoredDocument]:
        """Reads the documents.  Raises ``FatalError`` if the file cannot be read."""
        try:
            for framed in documents(self.path):
                names = _names(framed.data)
                key = names[0] if names else ""
                problem = framed.problem
                yield StoredDocument(self.name, framed.line, key, framed.data, problem=problem)
        except BROKEN_FILE as error:
            raise FatalError(
                f"{self.path} cannot be read ({error}): copy the file again"
            ) from error


@dataclass(frozen=True, slots=True)
class TopicPart:
    """The committed records of a partition in a range of offsets, its end excluded."""

    options: KafkaOptions = field(repr=False)
    topic: str
    partition: int
    start: int
    end: int

    @property
    def name(self) -> str:
        """The name in places of documents."""
        return f"{self.topic}/{self.partition}"

    @property
    def is_topic(self) -> bool:
        """True if documents are records of a topic."""
        return True

    def read(self) -> Iterator[StoredDocument]:
        """Reads the documents.

        Raises:
            UnreachableError: The brokers do not answer.
            FatalError: The brokers refuse to show the topic.
        """
        from confluent_kafka import TopicPartition  # noqa: PLC0415 -- only for topics

        from publisher.dispatch.kafka.client import KafkaClients  # noqa: PLC0415

        if self.start >= self.end:
            return
        clients = KafkaClients(self.options)
        consumer = clients.consumer()
        try:
            consumer.assign([TopicPartition(self.topic, self.partition, self.start)])
            with clients.errors(f"reading {self.name}"):
                for message in self._messages(consumer):
                    yield self._document(message)
        finally:
            consumer.close()

    def _messages(self, consumer: Consumer) -> Iterator[Message]:
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

        patience = self.options.timeout
        deadline = time.monotonic() + patience
        position = self.start
        while position < self.end:
            for message in consumer.consume(_AT_ONCE, 0.5):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise KafkaException(error)
                deadline = time.monotonic() + patience
                position = (message.offset() or 0) + (error is None)
                if error is None and position <= self.end:
                    yield message
            if position < self.end and time.monotonic() > deadline:
                raise UnreachableError(
                    f"{self.name} cannot be read up to offset {self.end}: check the brokers, then try again"
                )

    def _document(self, message: Message) -> StoredDocument:
        headers = dict(cast("Sequence[tuple[str, bytes | None]]", message.headers() or ()))
        value = message.value()
        key = message.key()
        return StoredDocument(
            self.name,
            message.offset() or 0,
            (key or b"").decode("utf-8", "replace"),
            value or b"",
            _header(headers, "event-id"),
            _header(headers, "key-from"),
            _header(headers, "key-to"),
            "the record has no value: documents are never tombstones" if value is None else None,
        )


DocumentPart = FilePart | TopicPart


def _header(headers: Mapping[str, bytes | None], name: str) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("utf-8", "replace")


def _names(data: bytes) -> list[str]:
    """The associations in a document's operations."""
    if is_json(data):
        return [json.loads(match[1]) for match in _JSON_ASSOCIATION.finditer(data)]
    texts = [match[1].decode("utf-8", "replace") for match in _ASSOCIATION.finditer(data)]
    return [unescape(text, _ENTITIES) if "&" in text else text for text in texts]


@dataclass(frozen=True, slots=True)
class DocumentSurvey:
    """Facts about the documents of a part."""

    documents: int
    bytes: int
    suffixes: frozenset[str]
    """The endings of associations, which name tables."""
    renames: tuple[tuple[str, str], ...]


def survey_documents(part: DocumentPart, _catalogue: Catalogue) -> DocumentSurvey:
    """Surveys a part: its size, its tables and the keys that its documents change."""
    count, size = 0, 0
    suffixes: set[str] = set()
    renames: list[tuple[str, str]] = []
    for document in part.read():
        count += 1
        size += len(document.data)
        renames += document.renames
        parts = split_association(document.key)
        if parts is not None:
            suffixes.add(parts.suffix)
    return DocumentSurvey(count, size, frozenset(suffixes), tuple(renames))


def connect_keys(renames: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns the first association of each group that changes of keys connect."""
    first: dict[str, str] = {}

    def find(name: str) -> str:
        while (parent := first.setdefault(name, name)) != name:
            first[name] = first[parent]
            name = parent
        return name

    for old, new in renames:
        low, high = sorted((find(old), find(new)))
        first[high] = low
    return {name: find(name) for name in [*first]}
