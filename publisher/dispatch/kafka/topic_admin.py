"""Administration of the sink's topics: existence, settings, creation."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from publisher.dispatch.kafka.client import KafkaClients
from publisher.errors import FatalError, UnreachableError, UsageError

_TOKEN_CONFIG = {
    "cleanup.policy": "compact",
    # short: every start reads the partition of each lane to the end
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}
_BROKER_DEFAULT = -1
_PAUSE = 0.02
"""Seconds between two requests for a topic that was just created."""


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """The topics of a cluster that the user may see."""

    clients: KafkaClients
    admin: AdminClient
    partitions: dict[str, int]
    """Number of partitions by topic."""
    brokers: int
    _configs: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, clients: KafkaClients) -> KafkaTopics:
        """Requests the topics of the cluster.

        Raises:
            UnreachableError: The cluster does not answer.
            FatalError: The cluster refuses the login.
        """
        return cls._request(clients, clients.admin())

    def request_again(self) -> KafkaTopics:
        """Requests the topics once more, on the same connection; raises as ``of``."""
        return self._request(self.clients, self.admin)

    @classmethod
    def _request(cls, clients: KafkaClients, admin: AdminClient) -> KafkaTopics:
        with clients.errors("asking for its topics"):
            cluster = clients.cluster(admin)
        partitions = {
            name: len(topic.partitions) for name, topic in cluster.topics.items() if not topic.error
        }
        return cls(clients, admin, partitions, len(cluster.brokers))

    def missing(self, topics: Iterable[str]) -> list[str]:
        """Selects the topics that do not exist."""
        return sorted(set(topics) - self.partitions.keys())

    def require(self, topics: Collection[str]) -> None:
        """Ensures that topics of documents exist; creates missing ones if ``create_topics`` is set.

        Raises:
            FatalError: A topic is missing, or cannot be created.
        """
        missing = self.missing(topics)
        options = self.clients.options
        if missing and not options.create_topics:
            raise FatalError(
                f"{self.clients.name} has no topic {', '.join(missing)} (or hides it from this "
                "user): create it, or set create_topics = true in [dispatch]; nothing was sent"
            )
        self._create([self._new(name, options.partitions, {}) for name in missing])

    def require_tokens(self, topic: str, lanes: int) -> None:
        """Ensures that the topic of the tokens exists, with a partition for each lane.

        Raises:
            FatalError: The topic cannot be created, or is not compacted.
        """
        count = self.partitions.get(topic)
        if count is None:
            self._create([self._new(topic, lanes, _TOKEN_CONFIG)])
            return
        self.require_compaction(topic)
        if count < lanes:
            futures = self.admin.create_partitions([NewPartitions(topic, lanes)])
            with self.clients.errors(f"adding partitions to {topic}"):
                _await_results(futures, KafkaError.INVALID_PARTITIONS)  # another program was faster
            self.partitions[topic] = lanes

    def require_compaction(self, topic: str) -> None:
        """Refuses a topic of tokens that is not compacted: it would lose tokens after a while.

        Raises:
            FatalError: The topic is not compacted.
        """
        policy = self.configs([topic])[topic].get("cleanup.policy", "")
        if policy != "compact":
            raise FatalError(
                f"topic {topic} has cleanup.policy {policy}, which loses progress: "
                "set it to compact, or set another token_topic in [dispatch]"
            )

    def configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """Returns the settings of topics by name; requests each topic only once.

        Raises:
            FatalError: The user may not read them.
        """
        missing = sorted(set(topics) - self._configs.keys())
        if missing:
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in missing]
            timeout = self.clients.options.timeout
            futures = self.admin.describe_configs(resources, request_timeout=timeout)
            with self.clients.errors("asking for the settings of topics"):
                answers = {resource.name: future.result() for resource, future in futures.items()}
            for name, answer in answers.items():
                self._configs[name] = {key: entry.value for key, entry in answer.items()}
        return {name: self._configs[name] for name in sorted(set(topics))}

    def refuse_replication(self) -> None:
        """Raises ``UsageError`` if the job file asks for more copies of topics than there are brokers."""
        replication = self.clients.options.replication
        if replication is not None and replication > self.brokers:
            raise UsageError(
                f"[dispatch] replication: is {replication}, and {self.clients.name} has {self.brokers} "
                "broker(s): set it lower"
            )

    def _new(self, name: str, partitions: int | None, config: Mapping[str, str]) -> NewTopic:
        replication = self.clients.options.replication
        return NewTopic(
            name,
            num_partitions=partitions or _BROKER_DEFAULT,
            replication_factor=replication or _BROKER_DEFAULT,
            config=dict(config),
        )

    def _create(self, topics: list[NewTopic]) -> None:
        if not topics:
            return
        timeout = self.clients.options.timeout
        names = ", ".join(topic.topic for topic in topics)
        futures = self.admin.create_topics(
            topics, request_timeout=timeout, operation_timeout=timeout
        )
        with self.clients.errors(f"creating topic {names}"):
            _await_results(futures, KafkaError.TOPIC_ALREADY_EXISTS)  # another program was faster
        self._await_topics([topic.topic for topic in topics])

    def _await_topics(self, names: Collection[str]) -> None:
        """Requests the topics until all names are listed: brokers know a new one a moment after its creation.

        Raises:
            UnreachableError: A topic is not listed in time.
        """
        deadline = time.monotonic() + self.clients.options.timeout
        while True:
            self.partitions.update(self.request_again().partitions)
            missing = self.missing(names)
            if not missing:
                return
            if time.monotonic() > deadline:
                raise UnreachableError(
                    f"{self.clients.name}: topic {', '.join(missing)} was created, but is not listed within "
                    f"{self.clients.options.timeout} s: check that this user may describe it, and try again"
                )
            time.sleep(_PAUSE)


def _await_results(futures: Mapping[str, Any], allowed: int) -> None:
    for future in futures.values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != allowed:
                raise
