"""Progress tokens: what of a run a lane of the sink has, kept in Kafka beside the documents.

A token is a record of a compacted topic, its key the sink's owner, topic template and lane, its
partition the lane: another lane's open transaction would hide a committed token in a shared one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from publisher.dispatch.kafka.client import LEADERLESS, KafkaClients, Message
from publisher.errors import UnreachableError

_NOT_YET = LEADERLESS | {KafkaError._UNKNOWN_PARTITION}
"""Answers for a moment where a topic was just made, or moves."""

WHOLE = "whole"
"""In place of a lane: all lanes of the run were sent."""
TOKEN_FORMAT = 2
_NUMBER = re.compile(r"-(\d{6,})$")


@dataclass(frozen=True, slots=True)
class Token:
    """How far a lane is.  ``identity`` is that of the journal that the run came from (see
    ``Manifest``), ``plan`` the digest of the run's documents; ``sent`` counts the documents behind
    the token, those refused included."""

    identity: str
    run: str
    plan: str
    sent: int
    format: int | None = TOKEN_FORMAT
    """Of a token of another version nothing else is read."""

    def to_bytes(self) -> bytes:
        """The value of the record."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Token:
        """The inverse of ``to_bytes``; a token of another version, or none at all, has nothing but
        its format."""
        try:
            loaded = json.loads(data)
            found = loaded.get("format", 1)
            if found == TOKEN_FORMAT:
                return cls(loaded["identity"], loaded["run"], loaded["plan"], loaded["sent"])
        except (ValueError, KeyError, AttributeError):
            found = None
        return cls("", "", "", 0, found)

    def is_of(self, identity: str, run: str, plan: str) -> bool:
        """Whether it counts documents of this planning of this run."""
        return (self.format, self.identity, self.run, self.plan) == (
            TOKEN_FORMAT,
            identity,
            run,
            plan,
        )

    def find_conflict(self, identity: str, run: str, plan: str) -> str | None:
        """Says why a run must not be sent beside this token; ``None`` where it may."""
        problem = self.find_version_problem()
        if problem is not None:
            return problem
        if self.identity != identity:
            return f"it has run {self.run} of another journal"
        if self.run == run and self.plan != plan:
            return f"run {run} was planned anew, and it has a part of its first planning"
        if _number_of(self.run) > _number_of(run):
            return f"it has run {self.run}, which is newer than run {run}"
        return None

    def find_version_problem(self) -> str | None:
        """Says that it is of another version of the program; ``None`` where it is not."""
        if self.format == TOKEN_FORMAT:
            return None
        if self.format is None:
            return "it has a record that is no token of this program"
        return f"its tokens have format {self.format}, this program reads format {TOKEN_FORMAT}"


def _number_of(run: str) -> int:
    """The number of a job's run; 0 for replays, which have none."""
    found = _NUMBER.search(run)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where the tokens of a sink lie.  ``owner`` is the job, or the run that belongs to none."""

    topic: str
    owner: str
    sink: str

    def key(self, lane: int | str) -> bytes:
        """The key of a lane's token, or of that of the whole run."""
        return self.prefix + f"{json.dumps(lane)}]".encode()

    @property
    def prefix(self) -> bytes:
        """What the keys of all tokens of the sink begin with."""
        return json.dumps([self.owner, self.sink], ensure_ascii=False)[:-1].encode() + b", "

    def partition(self, lane: int | str) -> int:
        """The partition of it."""
        return lane if isinstance(lane, int) else 0

    def partition_of(self, key: bytes) -> int:
        """The partition of the token with a key."""
        return self.partition(json.loads(key)[2])

    def transactional_id(self, lane: int | str) -> str:
        """The name under which a lane's producers fence each other."""
        return f"xds-publisher/{self.owner}/{self.sink}/{lane}"


def read_tokens(
    clients: KafkaClients, place: TokenPlace, partitions: Collection[int], *, wait: bool = True
) -> dict[bytes, Token]:
    """The tokens of a sink in some partitions, by key; those of committed transactions.

    Waits for open transactions of others, which would hide what lies behind them; without ``wait``
    reads as far as they let it.

    Raises:
        UnreachableError: The broker does not answer, or a transaction stays open.
    """
    deadline = time.monotonic() + clients.options.timeout
    consumer = clients.consumer()
    found: dict[bytes, Token] = {}
    try:
        with clients.errors(f"reading progress from {place.topic}"):
            waiting = _assigned(consumer, place.topic, partitions, clients.options.timeout)
            while waiting:
                message = consumer.poll(0.2)
                if message is None:
                    _look_at_clock(clients, place, deadline)
                elif message.error() is not None:
                    _at_end(consumer, message, waiting, wait=wait)
                else:
                    _take(message, found, place.prefix)
    finally:
        consumer.close()
    return found


def _assigned(
    consumer: Consumer, topic: str, partitions: Collection[int], timeout: float
) -> set[int]:
    ordered = sorted(partitions)
    first, deadline = TopicPartition(topic, ordered[0]), time.monotonic() + timeout
    while True:
        try:
            # asking first makes the client connect at once; otherwise it waits for half a second
            consumer.get_watermark_offsets(first, timeout=timeout)
            break
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
            consumer.poll(0.1)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ordered])
    return set(ordered)


def _at_end(consumer: Consumer, message: Any, waiting: set[int], *, wait: bool) -> None:
    """The end that a reader of committed transactions sees is that of the partition, or it waits."""
    error: KafkaError = message.error()
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    partition = TopicPartition(message.topic(), message.partition())
    _, end = consumer.get_watermark_offsets(partition, cached=True)
    if not wait or message.offset() >= end:
        waiting.discard(message.partition())


def _take(message: Any, found: dict[bytes, Token], prefix: bytes) -> None:
    key, value = message.key() or b"", message.value()
    if not key.startswith(prefix):
        return
    if value is None:
        found.pop(key, None)
    else:
        found[key] = Token.from_bytes(value)


def _look_at_clock(clients: KafkaClients, place: TokenPlace, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise UnreachableError(
            f"{clients.name}: progress in {place.topic} cannot be read to its end within "
            f"{clients.options.timeout} s: a broker does not answer, or a transaction of another "
            "program is open: try again later"
        )


def write_tokens(
    clients: KafkaClients, topic: str, tokens: Mapping[tuple[int, bytes], Token | None]
) -> None:
    """Writes tokens by partition and key, ``None`` takes one away; outside of any transaction.

    Raises:
        UnreachableError: The broker does not answer.
        FatalError: It refuses them.
    """
    # a token that is written twice says the same
    messages = (
        Message(None if token is None else token.to_bytes(), key, partition)
        for (partition, key), token in tokens.items()
    )
    clients.deliver(f"writing progress to {topic}", topic, messages)
