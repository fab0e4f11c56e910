"""Administration of the sink's topics: existence, settings, creation."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from publisher.dispatch.kafka.client import KafkaClients
from publisher.errors import FatalError, UnreachableError, UsageError

_TOKEN_CONFIG = {
    "cleanup.policy": "compact",
    # short: every start reads the partition of each lane to the end
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}
DOCUMENT_RIGHTS = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
TOKEN_RIGHTS = (AclOperation.READ, *DOCUMENT_RIGHTS)
_BROKER_DEFAULT = -1
_PAUSE = 0.02
"""Seconds between two requests for a topic that was just created, or whose transactions end."""
_TRANSACTION_SECONDS = 2.0
"""Seconds to wait for the end of open transactions: those of a running program are shorter."""


@dataclass(frozen=True, slots=True)
class KafkaTopics:
    """The topics of a cluster that the user may see."""

    clients: KafkaClients
    admin: AdminClient
    partitions: dict[str, int]
    """Number of partitions by topic."""
    brokers: int
    _configs: dict[str, dict[str, str]] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

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

    def refuse_compaction(self, topics: Iterable[str]) -> None:
        """Refuses compacted topics of documents and dead letters; topics that do not exist are skipped.

        Raises:
            FatalError: A topic is compacted, or the user may not read its settings.
        """
        for name, config in self.configs(set(topics) & self.partitions.keys()).items():
            policy = config.get("cleanup.policy") or ""
            if "compact" in policy:
                raise FatalError(
                    f"topic {name} has cleanup.policy {policy}: compaction removes documents that consumers "
                    "need, because documents are differences, and refuses dead letters, which have no key; "
                    f"run `kafka-configs --bootstrap-server {self.clients.options.brokers} --entity-type "
                    f"topics --entity-name {name} --alter --add-config cleanup.policy=delete`; if it has "
                    "documents, run `xds-publisher verify` then"
                )

    def ends(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, int]]:
        """Returns two ends of each partition: for readers of committed records, and of all records.

        The first is smaller if a transaction stays open for a moment, whichever program began it.

        Raises:
            UnreachableError: The cluster does not answer.
            FatalError: The user may not read a topic.
        """
        places = [TopicPartition(t, number) for t in topics for number in range(self.partitions[t])]
        last = self._latest(places, IsolationLevel.READ_UNCOMMITTED)
        deadline = time.monotonic() + _TRANSACTION_SECONDS
        while True:
            committed = self._latest(places, IsolationLevel.READ_COMMITTED)
            is_settled = all(committed[place] >= last[place] for place in places)
            if is_settled or time.monotonic() > deadline:
                return {place: (committed[place], last[place]) for place in places}
            time.sleep(_PAUSE)

    def _latest(
        self, places: Collection[TopicPartition], level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        if not places:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        timeout = self.clients.options.timeout
        futures = self.admin.list_offsets(
            dict.fromkeys(places, latest), isolation_level=level, request_timeout=timeout
        )
        with self.clients.errors("asking for the ends of topics"):
            return {place: future.result().offset for place, future in futures.items()}

    def require_rights(self, rights: Mapping[str, Collection[AclOperation]]) -> None:
        """Refuses topics on which this user lacks an operation; brokers without an authoriser allow all.

        Raises:
            FatalError: An operation is missing; the message names all, with their topics.
        """
        names = sorted(rights.keys() & self.partitions.keys())
        if not names:
            return
        futures = self.admin.describe_topics(
            TopicCollection(names),
            include_authorized_operations=True,
            request_timeout=self.clients.options.timeout,
        )
        missing = []
        for name, future in futures.items():
            with self.clients.errors(f"asking for the rights to topic {name} (Describe)"):
                allowed = future.result().authorized_operations
            lacking = [] if not allowed else [each for each in rights[name] if each not in allowed]
            if lacking:
                shown = " and ".join(each.name.title().replace("_", "") for each in lacking)
                missing.append(f"{shown} on topic {name}")
        if missing:
            raise FatalError(
                f"{self.clients.name}: this user has no right to {', '.join(missing)}: grant it; nothing was"
                " sent"
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
            for resource, future in futures.items():
                asking = f"asking for the settings of topic {resource.name} (DescribeConfigs)"
                with self.clients.errors(asking):
                    answer = future.result()
                self._configs[resource.name] = {key: entry.value for key, entry in answer.items()}
        return {name: self._configs[name] for name in sorted(set(topics))}

    def ids(self, topics: Collection[str]) -> dict[str, str]:
        """Returns the ids of existing topics by name; requests each topic only once.

        Raises:
            FatalError: The user may not describe them.
        """
        missing = sorted(set(topics) - self._ids.keys())
        if missing:
            timeout = self.clients.options.timeout
            futures = self.admin.describe_topics(TopicCollection(missing), request_timeout=timeout)
            with self.clients.errors("asking for the ids of topics"):
                for name, future in futures.items():
                    self._ids[name] = str(future.result().topic_id)
        return {name: self._ids[name] for name in sorted(set(topics))}

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


def hidden_text(place: TopicPartition, committed: int, end: int) -> str:
    """Describes a partition with an open transaction, from its ends (``KafkaTopics.ends``)."""
    return (
        f"{place.topic}/{place.partition} has an open transaction at offset {committed}, which hides "
        f"the records up to its end {end}"
    )


def _await_results(futures: Mapping[str, Any], allowed: int) -> None:
    for future in futures.values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != allowed:
                raise
