"""The connections of a job to its Kafka cluster, and its knowledge of it, kept from run to run.

The lanes of the job were taken over, so that nobody else can write its tokens without fencing the
producers of this process.  After any error everything is forgotten and read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from publisher.dispatch.kafka.client import KafkaClients, MessageProducer
from publisher.dispatch.kafka.lane_producers import LaneProducers
from publisher.dispatch.kafka.lane_sender import LaneSendTask
from publisher.dispatch.kafka.progress_tokens import Token, TokenPlace, token_messages
from publisher.dispatch.kafka.topic_admin import KafkaTopics

_SECONDS = 60.0
"""Time after which topics and their limits are asked for again."""
_PRODUCERS = 4
"""Small runs use few lanes; each producer has threads of its own."""

ReadTokens = Callable[[list[int]], Mapping[bytes, Token]]


class KafkaSession:
    """Keeps nothing unless ``keeps`` is set."""

    def __init__(self, *, keeps: bool = False) -> None:
        self._keeps = keeps
        self.producers = LaneProducers(_PRODUCERS if keeps else 0)
        self._messages: MessageProducer | None = None
        self._topics: KafkaTopics | None = None
        self._until = 0.0
        self._tokens: dict[bytes, Token] = {}
        self._partitions: set[int] = set()
        """Partitions whose tokens are known."""

    @property
    def is_new(self) -> bool:
        """True if nothing is kept."""
        return self._topics is None

    def topics(self, clients: KafkaClients) -> KafkaTopics:
        """The topics of the cluster, which are asked for once a minute.

        Raises:
            UnreachableError: The cluster does not answer.
            FatalError: The cluster refuses the login.
        """
        known = self._topics
        if known is None or time.monotonic() > self._until:
            known = KafkaTopics.of(clients)
            if self._keeps:
                self._topics, self._until = known, time.monotonic() + _SECONDS
        return known

    def tokens(
        self, place: TokenPlace, partitions: Iterable[int], read: ReadTokens
    ) -> dict[bytes, Token]:
        """The tokens of some partitions; reads those that are not known."""
        wanted = set(partitions)
        missing = sorted(wanted - self._partitions)
        tokens = {**self._tokens, **(read(missing) if missing else {})}
        if self._keeps:
            self._tokens, self._partitions = tokens, self._partitions | wanted
        return {key: token for key, token in tokens.items() if place.partition_of(key) in wanted}

    def note(self, task: LaneSendTask) -> None:
        """Notes the token of a lane that is sent."""
        name, token = task.transactional_id, task.last_token
        if task.place.partition(task.lane) in self._partitions:
            self._tokens = {**self._tokens, task.place.key(task.lane): token}
        if self.producers.token(name) != token:
            self.producers.drop(name)  # a task on another machine has fenced it

    def write_tokens(
        self, clients: KafkaClients, topic: str, tokens: Mapping[tuple[int, bytes], Token]
    ) -> None:
        """As ``progress_tokens.write_tokens``, with a producer that is kept."""
        messages = self._messages or MessageProducer(clients)
        messages.deliver(f"writing progress to {topic}", topic, token_messages(tokens))
        if self._keeps:
            self._messages = messages
            self._tokens = {**self._tokens, **{key: token for (_, key), token in tokens.items()}}
        else:
            messages.close()

    def forget(self) -> None:
        """Closes all connections and forgets all that is known."""
        self.producers.close()
        if self._messages is not None:
            self._messages.close()
        self._messages, self._topics = None, None
        self._tokens, self._partitions = {}, set()
