"""Creates librdkafka clients from the options; converts their errors to our own, without secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from publisher.dispatch.kafka.options import BOOTSTRAP, KafkaOptions, option_conflicts
from publisher.errors import (
    FatalError,
    PublisherError,
    SettingProblem,
    SettingsError,
    UnreachableError,
)

_LOG = logging.getLogger("publisher.kafka")
_LOG.addHandler(logging.NullHandler())  # otherwise Python prints the clients' warnings

_SHARED_SETTINGS = re.compile(
    r"(bootstrap|metadata\.broker|client\.id|client\.dns|client\.rack|security|sasl|ssl|https?|oauth"
    r"|enable\.(ssl|sasl|random|metrics)|socket|broker|connections|reconnect|retry\.backoff|api\."
    r"|topic\.metadata|metadata\.|resolve|log|debug|plugin|message\.max\.bytes|receive\.message)"
)
"""Settings for all clients; other settings are for producers only."""

FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
_PERMANENT = {
    KafkaError._AUTHENTICATION: "correct the login in [dispatch.kafka]",
    KafkaError.SASL_AUTHENTICATION_FAILED: "correct the login in [dispatch.kafka]",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "give this user Write on the topics of documents and the dead_letter_topic, Read and Write on the"
        " topic of tokens, and Describe and DescribeConfigs on all of them; check names the missing right"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "give this user the right on the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        'give this user the right to transactional ids that begin with "xds-publisher/"'
    ),
    KafkaError.MSG_SIZE_TOO_LARGE: "compare max.message.bytes of topic and brokers",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create the topic, or set create_topics in [dispatch]",
    KafkaError._UNKNOWN_TOPIC: "create the topic, or set create_topics in [dispatch]",
    KafkaError._UNKNOWN_PARTITION: "check whether the topic was created again with fewer partitions",
    KafkaError.INVALID_RECORD: "check why the topic refuses the record",
    KafkaError.POLICY_VIOLATION: "check the policy of the brokers",
    KafkaError.INVALID_REPLICATION_FACTOR: "set replication in [dispatch] to a number that the brokers allow",
    KafkaError.INVALID_PARTITIONS: "set partitions in [dispatch] to a number that the brokers allow",
    KafkaError.UNSUPPORTED_VERSION: "use brokers with transactions, version 2.5 or newer",
}
"""Permanent errors, each with advice."""
LEADERLESS = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
    }
)
"""Errors while a partition gets its leader: after its topic was created, or a broker restarted."""
READ_SECONDS = 0.02
"""Maximum seconds until a read returns fewer messages than it asks for: it waits for all of them, also at the
end of a partition."""
_MOMENTARY = LEADERLESS | {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
}
"""Errors that Kafka's protocol calls retriable; librdkafka marks only few of them."""
_UNKNOWN = re.compile(r"No such configuration property")
_NAMED = re.compile(r'property:? "([^"]*)"')
"""The name of a setting in messages of librdkafka."""
_FIRST_CONTACT = 5
"""Seconds to wait for an answer before failed connections end the wait."""
_QUICK = {"reconnect.backoff.ms": 20}
"""Settings for clients that live for one request or one lane.  librdkafka waits half of this time (default:
100) between its first connection and the connection to a broker; each further attempt waits longer."""


def initialise_transactions(producer: Producer, topic: str, timeout: float) -> None:
    """Calls ``init_transactions`` without the half second that librdkafka waits without a connection.

    librdkafka closes its first connection once it knows the brokers' numbers, so that the second request
    opens a lasting connection.  Raises ``KafkaException``.
    """
    for _ in range(2):
        producer.list_topics(topic, timeout)
    producer.init_transactions(timeout)


class KafkaMessage(NamedTuple):
    """A record that is sent outside of transactions; its key selects the partition if none is set."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: tuple[tuple[str, bytes], ...] = ()


class KafkaClients:
    """Creates clients from one set of options."""

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        self.name = f"Kafka at {options.brokers}"
        self._last_error: KafkaError | None = None
        self._brokers_down = False
        """True if all brokers count as down, although connections may exist."""

    def producer(self, overrides: Mapping[str, Any]) -> Producer:
        """Creates a producer; ``overrides`` are settings that override the options."""
        options = self.options
        # batches may fill until a flush
        defaults: dict[str, Any] = {"queue.buffering.max.kbytes": 65_536, "linger.ms": 100}
        fixed = {
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": options.partitioner,
            "delivery.report.only.error": True,
        }
        settings = {k: v for k, v in options.kafka.items() if k != "request.required.acks"}
        producer: Producer = self._create(Producer, {**defaults, **settings, **fixed, **overrides})
        return producer

    def deliver(self, action: str, topic: str, messages: Iterable[KafkaMessage]) -> None:
        """Sends a few records with a temporary producer, see ``MessageProducer.deliver``."""
        producer = MessageProducer(self)
        producer.deliver(action, topic, messages)
        producer.close()

    def consumer(self) -> Consumer:
        """Creates a consumer without a group that reads committed transactions only."""
        fixed = {
            "group.id": "xds-publisher",  # required by the client; no group is joined
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 5,  # delays the report of a partition's end
            # by default 64 MB and 100,000 records are fetched in advance, also those after the end of a range
            "queued.max.messages.kbytes": 16_384,
            "queued.min.messages": 20_000,
        }
        consumer: Consumer = self._create(Consumer, self._shared_settings() | fixed)
        return consumer

    def admin(self) -> AdminClient:
        """Creates a client for topics."""
        client: AdminClient = self._create(AdminClient, self._shared_settings())
        return client

    def cluster(self, client: AdminClient) -> Any:
        """Requests brokers and topics of the cluster.

        Waits for the whole ``timeout`` only if a connection exists: unreachable brokers, and brokers with
        another protocol, are reported after a few seconds.  Raises ``KafkaException``.
        """
        remaining = self.options.timeout
        while True:
            step = min(remaining, _FIRST_CONTACT)
            try:
                return client.list_topics(timeout=step)
            except KafkaException:
                client.poll(0)  # delivers the client's errors
                remaining -= step
                if remaining <= 0 or self._last_error is not None or self._brokers_down:
                    raise

    def check_settings(self) -> None:
        """Checks the settings with librdkafka; opens no connection.

        Raises:
            SettingsError: Settings are unknown or invalid; all are listed.
        """
        kafka = ("dispatch", "kafka")
        problems = [
            SettingProblem((*kafka, name), text) for name, text in option_conflicts(self.options)
        ]
        if not self.options.brokers:
            text = 'is required, as "HOST:PORT"'
            problems.append(SettingProblem(("dispatch", "bootstrap"), text))
        problems += [
            SettingProblem((*kafka, name) if name else kafka, text)
            for name, text in self.refused_settings()
        ]
        if problems:
            raise SettingsError(problems)

    def refused_settings(self) -> Iterator[tuple[str | None, str]]:
        """Yields settings that librdkafka refuses: the name, if known, and the problem."""
        conflicting = {name for name, _ in option_conflicts(self.options)}
        settings = {k: v for k, v in self.options.kafka.items() if k not in conflicting}
        while (refusal := self._refusal(settings)) is not None:
            name, _ = refusal
            yield refusal
            if name is None:
                return
            del settings[name]

    def _refusal(self, settings: dict[str, str]) -> tuple[str | None, str] | None:
        try:
            # init_transactions is not called, since it would write to the cluster
            fixed = {"transactional.id": "xds-publisher"}
            Producer({**settings, **fixed, "enable.idempotence": True, "logger": _LOG}).close()
        except KafkaException as error:
            text = error.args[0].str()
            name = next((match[1] for match in _NAMED.finditer(text) if match[1] in settings), None)
            if name is not None and _UNKNOWN.search(text):
                return name, "librdkafka has no such setting; correct the name"
            return name, f"{self.options.without_secrets(text)}; fix it"
        return None

    def _shared_settings(self) -> dict[str, Any]:
        return {k: v for k, v in self.options.kafka.items() if _SHARED_SETTINGS.match(k)}

    def _create(self, kind: Any, conf: dict[str, Any]) -> Any:
        common = {BOOTSTRAP: self.options.brokers, "logger": _LOG, "error_cb": self._on_error}
        try:
            return kind(_QUICK | conf | common)
        except KafkaException as error:
            text = self.options.without_secrets(error.args[0].str())
            problem = SettingProblem(("dispatch", "kafka"), f"{text}; fix it")
            raise SettingsError([problem]) from None

    def _on_error(self, error: KafkaError) -> None:
        """Remembers an asynchronous error of a client, for example a failed connection."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._brokers_down = True
        else:
            self._last_error = error

    @contextmanager
    def errors(self, action: str) -> Iterator[None]:
        """Raises librdkafka's errors as the program's own."""
        try:
            yield
        except KafkaException as error:
            raise self.error(action, error.args[0]) from None

    def error(self, action: str, error: KafkaError) -> PublisherError:
        """Converts an error to the program's own, with advice for operators."""
        last = self._last_error
        if last is not None and last.code() in _PERMANENT:
            error = last
        text = self.options.without_secrets(error.str() or error.name())
        advice = _PERMANENT.get(error.code())
        if advice is not None:
            return FatalError(f"{self.name}: {action}: {text}: {advice}")
        if error.code() in FENCED:
            return UnreachableError(
                f"{self.name}: {action}: {text}: a transaction lasted too long, or another instance works: "
                "start again; if this lasts, raise transaction.timeout.ms in [dispatch.kafka]"
            )
        if error.code() < 0 or error.retriable() or error.code() in _MOMENTARY:
            hint = " (a program listens there, but does not answer)" if self._brokers_down else ""
            # as text: comparing a KafkaError with another type raises
            if last is not None and last.str() != error.str():
                hint = f" ({self.options.without_secrets(last.str())})"
            protocol = self.options.kafka.get("security.protocol", "plaintext")
            return UnreachableError(
                f"{self.name}: {action}: {text}{hint}: try again later; if this lasts, "
                f"check the address and security.protocol in [dispatch.kafka] (now {protocol})"
            )
        return FatalError(f"{self.name}: {action}: {text}: fix it, then start again")

    def forget_errors(self) -> None:
        """Forgets asynchronous errors, for example of idle connections that brokers have closed."""
        self._last_error, self._brokers_down = None, False

    def is_permanent(self, error: KafkaError) -> bool:
        """Returns whether a retry cannot help."""
        return error.code() in _PERMANENT


class MessageProducer:
    """Sends records outside of transactions; a repeated record must do no harm."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._failed: list[KafkaError] = []
        # idempotence needs a producer number, which may cost half a second
        settings = {
            "enable.idempotence": False,
            "on_delivery": lambda error, _: self._failed.append(error),
        }
        self._producer = clients.producer(settings)
        self._is_connected = False

    def deliver(self, action: str, topic: str, messages: Iterable[KafkaMessage]) -> None:
        """Sends a few records, and waits until the brokers have them.

        Raises:
            UnreachableError: The brokers do not answer.
            FatalError: The brokers refuse a record.
        """
        producer, timeout = self._producer, self._clients.options.timeout
        self._failed.clear()
        self._clients.forget_errors()
        with self._clients.errors(action):
            if not self._is_connected:
                # a request makes the client connect at once; otherwise it waits for half a second
                producer.list_topics(topic, timeout)
                self._is_connected = True
            for value, key, partition, headers in messages:
                producer.produce(topic, value, key, partition=partition, headers=[*headers])
            remaining = producer.flush(timeout)
            if self._failed or remaining:
                timed_out = KafkaError(KafkaError._TIMED_OUT)
                raise KafkaException(self._failed[0] if self._failed else timed_out)

    def close(self) -> None:
        """Closes the connections."""
        self._producer.close()
