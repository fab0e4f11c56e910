"""The connections of a job to its Kafka cluster, its topics and its tokens, cached from run to run.

The job has taken over its lanes, so that nobody else can write its tokens without fencing the producers
of this process.  After any error the cache is cleared, and everything is read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from publisher.dispatch.kafka.client import KafkaClients, MessageProducer
from publisher.dispatch.kafka.lane_producers import LaneProducers
from publisher.dispatch.kafka.progress_tokens import WHOLE, Token, TokenPlace, token_messages
from publisher.dispatch.kafka.topic_admin import KafkaTopics

if TYPE_CHECKING:
    from publisher.dispatch.kafka.lane_sender import LaneSendTask

_SECONDS = 60.0
"""Seconds after which topics and their limits are requested again."""
_PRODUCERS = 4
"""Maximum number of cached producers: small runs use few lanes, and each producer has its own threads."""

ReadTokens = Callable[[list[int]], Mapping[bytes, Token]]


class KafkaSession:
    """Caches connections, topics and tokens; caches nothing unless ``keeps`` is set."""

    def __init__(self, *, keeps: bool = False) -> None:
        self._keeps = keeps
        self.producers = LaneProducers(_PRODUCERS if keeps else 0)
        self._messages: MessageProducer | None = None
        self._topics: KafkaTopics | None = None
        self._until = 0.0
        self._tokens: dict[bytes, Token] = {}
        self._partitions: set[int] = set()
        """Partitions whose tokens are cached."""

    @property
    def is_new(self) -> bool:
        """True if no topics are cached."""
        return self._topics is None

    def topics(self, clients: KafkaClients) -> KafkaTopics:
        """The topics of the cluster; requests them at most once a minute.

        Raises:
            UnreachableError: The cluster does not answer.
            FatalError: The cluster refuses the login.
        """
        topics = self._topics
        if topics is None or time.monotonic() > self._until:
            topics = KafkaTopics.of(clients)
            if self._keeps:
                self._topics, self._until = topics, time.monotonic() + _SECONDS
        return topics

    def tokens(
        self, place: TokenPlace, partitions: Iterable[int], read: ReadTokens
    ) -> dict[bytes, Token]:
        """The tokens of some partitions; reads partitions that are not cached."""
        requested = set(partitions)
        missing = sorted(requested - self._partitions)
        tokens = {**self._tokens, **(read(missing) if missing else {})}
        if self._keeps:
            self._tokens, self._partitions = tokens, self._partitions | requested
        return {key: token for key, token in tokens.items() if place.partition_of(key) in requested}

    def note(self, task: LaneSendTask) -> None:
        """Caches the token of a lane that is sent completely."""
        name, token = task.transactional_id, task.last_token
        if task.place.partition(task.lane) in self._partitions:
            self._tokens = {**self._tokens, task.place.key(task.lane): token}
            if task.whole is not None:
                self._tokens[task.place.key(WHOLE)] = task.whole
        if self.producers.token(name) != token:
            self.producers.drop(name)  # a task on another machine has fenced it

    def write_tokens(
        self, clients: KafkaClients, topic: str, tokens: Mapping[tuple[int, bytes], Token]
    ) -> None:
        """Writes tokens like ``progress_tokens.write_tokens``, with a cached producer."""
        messages = self._messages or MessageProducer(clients)
        messages.deliver(f"writing progress to {topic}", topic, token_messages(tokens))
        if self._keeps:
            self._messages = messages
            self._tokens = {**self._tokens, **{key: token for (_, key), token in tokens.items()}}
        else:
            messages.close()

    def forget(self) -> None:
        """Closes all connections and clears the cache."""
        self.producers.close()
        if self._messages is not None:
            self._messages.close()
        self._messages, self._topics = None, None
        self._tokens, self._partitions = {}, set()
