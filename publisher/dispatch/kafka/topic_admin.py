"""The topics of the sink: whether they are there, what they take, and making them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from publisher.dispatch.kafka.client import KafkaClients
from publisher.errors import FatalError, UsageError

_TOKEN_CONFIG = {
    "cleanup.policy": "compact",
    # a lane reads its partition to the end at every start: keep it short
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}
_BROKERS_OWN = -1


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """The topics of a cluster, as far as the user may see them."""

    clients: KafkaClients
    admin: AdminClient
    partitions: dict[str, int]
    """Number of partitions by topic."""
    brokers: int

    @classmethod
    def of(cls, clients: KafkaClients) -> KafkaTopics:
        """Asks the cluster.

        Raises:
            UnreachableError: It does not answer.
            FatalError: It refuses the login.
        """
        admin = clients.admin()
        with clients.errors("asking for its topics"):
            found = clients.cluster(admin)
        known = {
            name: len(topic.partitions) for name, topic in found.topics.items() if not topic.error
        }
        return cls(clients, admin, known, len(found.brokers))

    def missing(self, topics: Iterable[str]) -> list[str]:
        """Those of some topics that are not there."""
        return sorted(set(topics) - self.partitions.keys())

    def require(self, topics: Collection[str]) -> None:
        """Sees to topics for documents: makes what is missing where it may, refuses otherwise.

        Raises:
            FatalError: A topic is missing, or cannot be made.
        """
        missing = self.missing(topics)
        options = self.clients.options
        if missing and not options.create_topics:
            raise FatalError(
                f"{self.clients.name} has no topic {', '.join(missing)} (or hides it from this "
                "user): make it, or set create_topics = true in [dispatch]; nothing was sent"
            )
        self._make([self._new(name, options.partitions, {}) for name in missing])

    def require_tokens(self, topic: str, lanes: int) -> None:
        """Sees to the topic of the tokens, with a partition for each lane.

        Raises:
            FatalError: It cannot be made, or may forget tokens.
        """
        there = self.partitions.get(topic)
        if there is None:
            self._make([self._new(topic, lanes, _TOKEN_CONFIG)])
            return
        self.refuse_forgetful(topic)
        if there < lanes:
            made = self.admin.create_partitions([NewPartitions(topic, lanes)])
            with self.clients.errors(f"adding partitions to {topic}"):
                _results(made, KafkaError.INVALID_PARTITIONS)  # another program was faster
            self.partitions[topic] = lanes

    def refuse_forgetful(self, topic: str) -> None:
        """Refuses a topic of tokens that is not compacted: it would lose them after a while.

        Raises:
            FatalError: It is not.
        """
        policy = self.configs([topic])[topic].get("cleanup.policy", "")
        if policy != "compact":
            raise FatalError(
                f"topic {topic} has cleanup.policy {policy}, and progress must not be forgotten: "
                "set it to compact, or name another token_topic in [dispatch]"
            )

    def configs(self, topics: Collection[str]) -> dict[str, dict[str, str]]:
        """The settings of topics by name.

        Raises:
            FatalError: The user may not see them.
        """
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]
        if not resources:
            return {}
        timeout = self.clients.options.timeout
        futures = self.admin.describe_configs(resources, request_timeout=timeout)
        with self.clients.errors("asking for the settings of topics"):
            answers = {resource.name: future.result() for resource, future in futures.items()}
        return {
            name: {key: entry.value for key, entry in answer.items()}
            for name, answer in answers.items()
        }

    def refuse_replication(self) -> None:
        """Refuses more copies than there are brokers.  Raises ``UsageError``."""
        wanted = self.clients.options.replication
        if wanted is not None and wanted > self.brokers:
            raise UsageError(
                f"[dispatch] replication: is {wanted}, and {self.clients.name} has {self.brokers} "
                "broker(s): set it lower"
            )

    def _new(self, name: str, partitions: int | None, config: Mapping[str, str]) -> NewTopic:
        replication = self.clients.options.replication
        return NewTopic(
            name,
            num_partitions=partitions or _BROKERS_OWN,
            replication_factor=replication or _BROKERS_OWN,
            config=dict(config),
        )

    def _make(self, topics: list[NewTopic]) -> None:
        if not topics:
            return
        timeout = self.clients.options.timeout
        names = ", ".join(topic.topic for topic in topics)
        made = self.admin.create_topics(topics, request_timeout=timeout, operation_timeout=timeout)
        with self.clients.errors(f"making topic {names}"):
            _results(made, KafkaError.TOPIC_ALREADY_EXISTS)  # another program was faster
        with self.clients.errors("asking for its topics"):
            found = self.admin.list_topics(timeout=timeout).topics
        self.partitions.update({name: len(topic.partitions) for name, topic in found.items()})


def _results(futures: Mapping[str, Any], allowed: int) -> None:
    for future in futures.values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != allowed:
                raise
