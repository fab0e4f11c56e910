"""Progress tokens: the progress of each lane, stored in Kafka beside the documents.

A token is a record of a compacted topic.  Its key is the sink's owner, topic template and lane; its
partition is the lane: in a shared partition another lane's open transaction would hide a committed token.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from publisher.dispatch.kafka.client import LEADERLESS, KafkaClients, KafkaMessage
from publisher.errors import UnreachableError

_TRANSIENT = LEADERLESS | {KafkaError._UNKNOWN_PARTITION}
"""Errors that occur for a moment after a topic is created or moved."""

WHOLE = "whole"
"""Replaces the lane in the token of a run whose lanes are all sent."""
REJECTS_LANE = "rejects"
"""Replaces the number of the lane in tokens and transactional ids of rejected records."""
TOKEN_FORMAT = 3
_NUMBER = re.compile(r"-(\d{6,})$")


@dataclass(frozen=True, slots=True)
class Token:
    """The progress of a lane.

    ``identity`` is the identity of the run's ledger (see ``Manifest``), ``plan`` the digest of the run's
    documents; ``sent`` counts the finished documents, refused ones included."""

    identity: str
    run: str
    plan: str
    sent: int
    format: int | None = TOKEN_FORMAT
    """Format version; the other fields of another version are not read."""
    epochs: Mapping[str, int] = field(default_factory=dict)
    """The epoch of each source in event ids, for a recovery."""

    def to_bytes(self) -> bytes:
        """Encodes the token as the value of a record."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Token:
        """Decodes the value of a record; a record of another version or with other content becomes a
        token with only a format."""
        try:
            loaded = json.loads(data)
            version = loaded.get("format", 1)
            if version == TOKEN_FORMAT:
                epochs = {str(name): int(number) for name, number in loaded["epochs"].items()}
                whose = loaded["identity"], loaded["run"], loaded["plan"]
                return cls(*whose, loaded["sent"], epochs=epochs)
        except (ValueError, TypeError, KeyError, AttributeError):
            version = None
        return cls("", "", "", 0, version)

    def is_of(self, identity: str, run: str, plan: str) -> bool:
        """Returns whether the token counts documents of this plan of this run."""
        return (self.format, self.identity, self.run, self.plan) == (
            TOKEN_FORMAT,
            identity,
            run,
            plan,
        )

    def find_conflict(self, identity: str, run: str, plan: str) -> str | None:
        """Explains why a run must not be sent in addition to this token; ``None`` if it may."""
        problem = self.find_version_problem()
        if problem is not None:
            return problem
        if self.identity != identity:
            return f"the topic has run {self.run} of another ledger"
        if self.run == run and self.plan != plan:
            return f"run {run} was planned again, and the topic has a part of the first plan"
        if _number_of(self.run) > _number_of(run):
            return f"the topic has run {self.run}, which is newer than run {run}"
        return None

    def find_version_problem(self) -> str | None:
        """Reports a token of another version of the program; ``None`` for this version."""
        if self.format == TOKEN_FORMAT:
            return None
        if self.format is None:
            return "the topic has a record that is not a token of this program"
        return f"its tokens have format {self.format}, this program reads format {TOKEN_FORMAT}"


def _number_of(run: str) -> int:
    """The number of a job's run; 0 for replays, which have no number."""
    match = _NUMBER.search(run)
    return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """The topic and keys of a sink's tokens.  ``owner`` is the job, or a run without a job."""

    topic: str
    owner: str
    sink: str

    def key(self, lane: int | str) -> bytes:
        """The key of the token of a lane or of the complete run."""
        return self.prefix + f"{json.dumps(lane)}]".encode()

    @property
    def prefix(self) -> bytes:
        """The common prefix of the keys of the sink's tokens."""
        return json.dumps([self.owner, self.sink], ensure_ascii=False)[:-1].encode() + b", "

    def partition(self, lane: int | str) -> int:
        """The partition of a lane's token."""
        return lane if isinstance(lane, int) else 0

    def partition_of(self, key: bytes) -> int:
        """The partition of the token with a key."""
        return self.partition(json.loads(key)[2])

    def transactional_id(self, lane: int | str) -> str:
        """The transactional id of a lane, by which its producers fence each other."""
        return f"xds-publisher/{self.owner}/{self.sink}/{lane}"


def conflict_message(place: TokenPlace, problem: str, *, of_job: bool) -> str:
    """Describes tokens that do not fit a run, and what to do."""
    remedy = "start with --again, which sends everything again"
    if of_job:
        remedy = "run `xds-publisher recover -c JOB.toml`"
    return f"topic {place.sink}: {problem}: restore the latest ledger, or {remedy}"


def read_tokens(
    clients: KafkaClients, place: TokenPlace, partitions: Collection[int], *, wait: bool = True
) -> dict[bytes, Token]:
    """Reads the committed tokens of a sink in some partitions, by key.

    Waits for open transactions, which hide the records after them; without ``wait``, reads up to the first
    open transaction.

    Raises:
        UnreachableError: The broker does not answer, or a transaction stays open.
    """
    deadline = time.monotonic() + clients.options.timeout
    consumer = clients.consumer()
    tokens: dict[bytes, Token] = {}
    try:
        with clients.errors(f"reading progress (Read on topic {place.topic})"):
            waiting = _assign(clients, consumer, place.topic, partitions)
            while waiting:
                message = consumer.poll(0.2)
                if message is None:
                    _check_deadline(clients, place, deadline)
                elif message.error() is not None:
                    _note_end(consumer, message, waiting, wait=wait)
                else:
                    _store(message, tokens, place.prefix)
    finally:
        consumer.close()
    return tokens


def _assign(
    clients: KafkaClients, consumer: Consumer, topic: str, partitions: Collection[int]
) -> set[int]:
    """Assigns the partitions as soon as the first one has a leader."""
    ordered, timeout = sorted(partitions), clients.options.timeout
    first, deadline = TopicPartition(topic, ordered[0]), time.monotonic() + timeout
    while True:
        try:
            # a request makes the client connect at once; otherwise it waits for half a second
            consumer.get_watermark_offsets(first, timeout=timeout)
            break
        except KafkaException as error:
            if error.args[0].code() not in _TRANSIENT:
                raise
            if time.monotonic() > deadline:
                raise UnreachableError(
                    f"{clients.name}: partition {ordered[0]} of {topic} is not available after {timeout} s: "
                    "try again later if the topic is new or its brokers start; if this lasts, check whether "
                    "the topic was created again with fewer partitions"
                ) from None
            consumer.poll(0.1)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ordered])
    return set(ordered)


def _note_end(consumer: Consumer, message: Any, waiting: set[int], *, wait: bool) -> None:
    """Marks a partition as read, unless an open transaction hides its end."""
    error: KafkaError = message.error()
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    partition = TopicPartition(message.topic(), message.partition())
    _, end = consumer.get_watermark_offsets(partition, cached=True)
    if not wait or message.offset() >= end:
        waiting.discard(message.partition())


def _store(message: Any, tokens: dict[bytes, Token], prefix: bytes) -> None:
    key, value = message.key() or b"", message.value()
    if not key.startswith(prefix):
        return
    if value is None:
        tokens.pop(key, None)
    else:
        tokens[key] = Token.from_bytes(value)


def _check_deadline(clients: KafkaClients, place: TokenPlace, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise UnreachableError(
            f"{clients.name}: progress in {place.topic} cannot be read to its end within "
            f"{clients.options.timeout} s: a broker does not answer, or a transaction of another "
            "program is open: try again later"
        )


def write_tokens(
    clients: KafkaClients, topic: str, tokens: Mapping[tuple[int, bytes], Token | None]
) -> None:
    """Writes tokens by partition and key, outside of transactions; ``None`` removes a token.

    Raises:
        UnreachableError: The broker does not answer.
        FatalError: The broker refuses a token.
    """
    clients.deliver(f"writing progress to {topic}", topic, token_messages(tokens))


def token_messages(
    tokens: Mapping[tuple[int, bytes], Token | None],
) -> Iterator[KafkaMessage]:
    """Yields the records of tokens; writing a token twice does no harm."""
    for (partition, key), token in tokens.items():
        yield KafkaMessage(None if token is None else token.to_bytes(), key, partition)
