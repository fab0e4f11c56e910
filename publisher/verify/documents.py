"""Reads published documents without parsing them: parts of topics, and part files of runs."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

import pyarrow as pa

from publisher.errors import FatalError, UnreachableError
from publisher.xds.framing import BROKEN_FILE, Framed, documents
from publisher.xds.json_form import is_json

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from publisher.dispatch.kafka.options import KafkaOptions

_ASSOCIATION = re.compile(rb"<association[^>]*>([^<]*)</association>")
_JSON_ASSOCIATION = re.compile(rb'"(?:old_|new_)?association":("(?:[^"\\]|\\.)*")')
_ENTITIES = {"&quot;": '"', "&apos;": "'", "&#10;": "\n", "&#13;": "\r", "&#9;": "\t"}
_AT_ONCE = 2_000
_NO_VALUE = "the record has no value: documents are never tombstones"


STORED_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("association", pa.string()),
        ("data", pa.binary()),
        ("event_id", pa.string()),
        ("key_from", pa.string()),
        ("key_to", pa.string()),
        ("problem", pa.string()),
    ]
)
"""Documents as they are stored, with the headers of their records that consumers use.

``number`` is the offset or the line; ``association`` is that under which a document is stored, or empty for
a heartbeat; ``problem`` explains why it is no document, and is null if that is not known before it is parsed.
"""
_HEADERS = {"event-id": "event_id", "key-from": "key_from", "key-to": "key_to"}
"""Columns of headers."""


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

    def read(self) -> Iterator[pa.RecordBatch]:
        """Reads the documents as ``STORED_SCHEMA``.  Raises ``FatalError`` if the file cannot be read."""
        framed = self._read_frames()
        while several := [*islice(framed, _AT_ONCE)]:
            yield _build_batch(
                number=[each.line for each in several],
                association=[_key_of(each.data) for each in several],
                data=[each.data for each in several],
                problem=[each.problem for each in several],
            )

    def _read_frames(self) -> Iterator[Framed]:
        try:
            yield from documents(self.path)
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

    def read(self) -> Iterator[pa.RecordBatch]:
        """Reads the documents as ``STORED_SCHEMA``.

        Raises:
            UnreachableError: The brokers do not answer.
            FatalError: The brokers refuse to show the topic.
        """
        from confluent_kafka import Message  # noqa: PLC0415 -- only for topics

        for messages in self._messages():
            # map calls these methods from C, several times as fast as a loop
            values = [*map(Message.value, messages)]
            headers: list[dict[str, Any]] = [
                dict(each or ()) for each in map(Message.headers, messages)
            ]
            yield _build_batch(
                number=[*map(Message.offset, messages)],
                association=_texts([each or b"" for each in map(Message.key, messages)]),
                data=[value or b"" for value in values],
                **{
                    column: _texts([*map(dict.get, headers, repeat(name))])
                    for name, column in _HEADERS.items()
                },
                problem=[_NO_VALUE if value is None else None for value in values],
            )

    def _messages(self) -> Iterator[list[Message]]:
        from confluent_kafka import TopicPartition  # noqa: PLC0415 -- only for topics

        from publisher.dispatch.kafka.client import KafkaClients  # noqa: PLC0415

        if self.start >= self.end:
            return
        clients = KafkaClients(self.options)
        consumer = clients.consumer()
        try:
            consumer.assign([TopicPartition(self.topic, self.partition, self.start)])
            with clients.errors(f"reading {self.name}"):
                yield from self._consume(consumer)
        finally:
            consumer.close()

    def _consume(self, consumer: Consumer) -> Iterator[list[Message]]:
        from confluent_kafka import KafkaError, KafkaException, Message  # noqa: PLC0415

        from publisher.dispatch.kafka.client import READ_SECONDS  # noqa: PLC0415

        patience = self.options.timeout
        deadline = time.monotonic() + patience
        position = self.start
        while position < self.end:
            messages = consumer.consume(_AT_ONCE, READ_SECONDS)
            if messages:
                deadline = time.monotonic() + patience
                error = messages[-1].error()
                position = (messages[-1].offset() or 0) + (error is None)
            for error in filter(None, [*map(Message.error, messages)]):
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                    raise KafkaException(error)
                messages = [message for message in messages if message.error() is None]
            if position > self.end:
                messages = [message for message in messages if (message.offset() or 0) < self.end]
            if messages:
                yield messages
            if position < self.end and time.monotonic() > deadline:
                raise UnreachableError(
                    f"{self.name} cannot be read up to offset {self.end}: check the brokers, then try again"
                )


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """A copy of records of a topic in a file of the Arrow stream format."""

    name: str
    """The name in places of documents."""
    path: Path

    @property
    def is_topic(self) -> bool:
        """True if documents are records of a topic."""
        return True

    def read(self) -> Iterator[pa.RecordBatch]:
        """Reads the documents as ``STORED_SCHEMA``."""
        with pa.OSFile(str(self.path)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


DocumentPart = FilePart | TopicPart | CopiedPart


def copy_part(part: TopicPart, folder: Path) -> CopiedPart:
    """Copies the records of a part to a file, compressed.  Raises as ``TopicPart.read``."""
    # other attempts of the task may write at the same time
    path = folder / f"{part.partition}-{part.start}-{secrets.token_hex(8)}.arrow"
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(str(path), STORED_SCHEMA, options=options) as writer:
        for rows in part.read():
            writer.write_batch(rows)
    return CopiedPart(part.name, path)


def _build_batch(**columns: list[Any] | pa.Array) -> pa.RecordBatch:
    """Builds a batch of ``STORED_SCHEMA``; missing columns are null."""
    count = len(columns["number"])
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in STORED_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


def _texts(values: list[bytes | None]) -> pa.Array:
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        texts = [None if each is None else each.decode("utf-8", "replace") for each in values]
        return pa.array(texts, pa.string())


def headers_of(document: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yields the headers of a document of ``STORED_SCHEMA``."""
    for name, column in _HEADERS.items():
        if document[column] is not None:
            yield name, document[column].encode()


def _key_of(data: bytes) -> str:
    """Returns the association in a document's first operation; empty for a heartbeat."""
    if is_json(data):
        return next(names_of(data), "")
    match = _ASSOCIATION.search(data)
    return "" if match is None else _association(match)


def names_of(data: bytes) -> Iterator[str]:
    """Yields the associations in a document's operations."""
    if is_json(data):
        return (json.loads(match[1]) for match in _JSON_ASSOCIATION.finditer(data))
    return map(_association, _ASSOCIATION.finditer(data))


def _association(match: re.Match[bytes]) -> str:
    text = match[1].decode("utf-8", "replace")
    return unescape(text, _ENTITIES) if "&" in text else text
