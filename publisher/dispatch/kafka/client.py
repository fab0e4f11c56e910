"""librdkafka's clients, made of the options, and its errors as ours, without secrets."""

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
_LOG.addHandler(logging.NullHandler())  # else Python prints the clients' warnings

_SHARED = re.compile(
    r"(bootstrap|metadata\.broker|client\.id|client\.dns|client\.rack|security|sasl|ssl|https?|oauth"
    r"|enable\.(ssl|sasl|random|metrics)|socket|broker|connections|reconnect|retry\.backoff|api\."
    r"|topic\.metadata|metadata\.|resolve|log|debug|plugin|message\.max\.bytes|receive\.message)"
)
"""Settings that also clients which send nothing need; the others are for the producer."""

FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
_REFUSED = {
    KafkaError._AUTHENTICATION: "mend the login in [dispatch.kafka]",
    KafkaError.SASL_AUTHENTICATION_FAILED: "mend the login in [dispatch.kafka]",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "give this user the right to the topic",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "give this user the right on the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        'give this user the right to transactional ids that begin with "xds-publisher/"'
    ),
    KafkaError.MSG_SIZE_TOO_LARGE: "compare max.message.bytes of topic and brokers",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "make the topic, or set create_topics in [dispatch]",
    KafkaError._UNKNOWN_TOPIC: "make the topic, or set create_topics in [dispatch]",
    KafkaError._UNKNOWN_PARTITION: "see whether the topic was made anew with fewer partitions",
    KafkaError.INVALID_RECORD: "see why the topic refuses the record",
    KafkaError.POLICY_VIOLATION: "see the policy of the brokers",
    KafkaError.INVALID_REPLICATION_FACTOR: "set replication in [dispatch] to what the brokers allow",
    KafkaError.INVALID_PARTITIONS: "set partitions in [dispatch] to what the brokers allow",
    KafkaError.UNSUPPORTED_VERSION: "use brokers that know transactions, 2.5 or newer",
}
"""Answers that stay the same until somebody mends something; what to do."""
LEADERLESS = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
    }
)
"""Answers while a partition gets its leader: after its topic was created, or a broker came back."""
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
"""Brokers' answers that Kafka's protocol calls retriable; librdkafka marks few of them so."""
_UNKNOWN = re.compile(r"No such configuration property")
_NAMED = re.compile(r'property:? "([^"]*)"')
"""A setting that librdkafka speaks of."""
_FIRST_CONTACT = 5
"""Seconds for a first answer, after which what a client heard of failed connections counts."""
_QUICK = {"reconnect.backoff.ms": 20}
"""Clients here live for one question or one lane.  librdkafka lets half of this pass between its first
connection and the one to a broker that it found there, which is most of a short life; the default is
100.  Further tries wait longer each time as ever."""


def initialised(producer: Producer, topic: str, timeout: float) -> None:
    """``init_transactions``, without the half second that librdkafka waits where it has no connection.

    It closes its first connection once it knows the brokers by number, so it is asked twice: the
    second answer comes over one that stays.  Raises ``KafkaException``.
    """
    for _ in range(2):
        producer.list_topics(topic, timeout)
    producer.init_transactions(timeout)


class Message(NamedTuple):
    """A record that is sent by itself, outside of any transaction; without partition its key says."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    headers: tuple[tuple[str, bytes], ...] = ()


class KafkaClients:
    """Makes clients of one set of options."""

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        self.name = f"Kafka at {options.brokers}"
        self._heard: KafkaError | None = None
        self._is_mute = False
        """Whether all brokers count as down, though connections to them may have been made."""

    def producer(self, own: Mapping[str, Any]) -> Producer:
        """A producer; ``own`` are settings that win."""
        options = self.options
        # whoever waits for documents flushes: until then batches may fill
        defaults: dict[str, Any] = {"queue.buffering.max.kbytes": 65_536, "linger.ms": 100}
        fixed = {
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": options.partitioner,
            "delivery.report.only.error": True,
        }
        given = {k: v for k, v in options.kafka.items() if k != "request.required.acks"}
        made: Producer = self._made(Producer, {**defaults, **given, **fixed, **own})
        return made

    def deliver(self, doing: str, topic: str, messages: Iterable[Message]) -> None:
        """Sends a few records that may be there twice, and waits until the brokers have them.

        Raises:
            UnreachableError: The brokers do not answer.
            FatalError: They refuse one.
        """
        failed: list[KafkaError] = []
        # a producer's number, which idempotence asks for, costs half a second at times
        settings = {
            "enable.idempotence": False,
            "on_delivery": lambda error, _: failed.append(error),
        }
        producer = self.producer(settings)
        with self.errors(doing):
            # asking first makes the client connect at once; otherwise it waits for half a second
            producer.list_topics(topic, self.options.timeout)
            for value, key, partition, headers in messages:
                producer.produce(topic, value, key, partition=partition, headers=[*headers])
            left = producer.flush(self.options.timeout)
            if failed or left:
                raise KafkaException(failed[0] if failed else KafkaError(KafkaError._TIMED_OUT))
        producer.close()

    def consumer(self) -> Consumer:
        """A consumer that belongs to no group and sees committed transactions only."""
        own = {
            "group.id": "xds-publisher",  # the client asks for one; none is joined
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 5,  # so long the end of a partition is not told
        }
        made: Consumer = self._made(Consumer, self._shared() | own)
        return made

    def admin(self) -> AdminClient:
        """A client for topics."""
        made: AdminClient = self._made(AdminClient, self._shared())
        return made

    def cluster(self, client: AdminClient) -> Any:
        """Brokers and topics of the cluster.

        Waits for the whole ``timeout`` only where a connection is made: brokers that nobody reaches,
        or that speak another protocol, are reported after a few seconds.  Raises ``KafkaException``.
        """
        left = self.options.timeout
        while True:
            step = min(left, _FIRST_CONTACT)
            try:
                return client.list_topics(timeout=step)
            except KafkaException:
                client.poll(0)  # lets the client say what it heard
                left -= step
                if left <= 0 or self._heard is not None or self._is_mute:
                    raise

    def judge(self) -> None:
        """Lets librdkafka itself say what it thinks of the settings; connects to nobody.

        Raises:
            SettingsError: All that is unknown or cannot be.
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
        """Settings that librdkafka refuses: the name, where it is known, and what is wrong."""
        wrong = {name for name, _ in option_conflicts(self.options)}
        settings = {k: v for k, v in self.options.kafka.items() if k not in wrong}
        while (refusal := self._refusal(settings)) is not None:
            name, _ = refusal
            yield refusal
            if name is None:
                return
            del settings[name]

    def _refusal(self, settings: dict[str, str]) -> tuple[str | None, str] | None:
        try:
            # not initialised: that would write to the cluster
            own = {"transactional.id": "xds-publisher"} if self.options.exactly_once else {}
            Producer({**settings, **own, "enable.idempotence": True, "logger": _LOG}).close()
        except KafkaException as error:
            text = error.args[0].str()
            name = next((found[1] for found in _NAMED.finditer(text) if found[1] in settings), None)
            if name is not None and _UNKNOWN.search(text):
                return name, "librdkafka has no such setting; look it up"
            return name, f"{self.options.scrubbed(text)}; fix it"
        return None

    def _shared(self) -> dict[str, Any]:
        return {k: v for k, v in self.options.kafka.items() if _SHARED.match(k)}

    def _made(self, kind: Any, conf: dict[str, Any]) -> Any:
        common = {BOOTSTRAP: self.options.brokers, "logger": _LOG, "error_cb": self._hear}
        try:
            return kind(_QUICK | conf | common)
        except KafkaException as error:
            text = self.options.scrubbed(error.args[0].str())
            problem = SettingProblem(("dispatch", "kafka"), f"{text}; fix it")
            raise SettingsError([problem]) from None

    def _hear(self, error: KafkaError) -> None:
        """What a client says beside its answers: why it cannot connect, mostly."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._is_mute = True
        else:
            self._heard = error

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Raises librdkafka's errors as the program's own."""
        try:
            yield
        except KafkaException as error:
            raise self.error(doing, error.args[0]) from None

    def error(self, doing: str, error: KafkaError) -> PublisherError:
        """What an error means for the operator."""
        heard = self._heard
        if heard is not None and heard.code() in _REFUSED:
            error = heard
        text = self.options.scrubbed(error.str() or error.name())
        advice = _REFUSED.get(error.code())
        if advice is not None:
            return FatalError(f"{self.name}: {doing}: {text}: {advice}")
        if error.code() < 0 or error.retriable() or error.code() in _MOMENTARY:
            said = (
                " (what listens there takes connections and answers nothing)"
                if self._is_mute
                else ""
            )
            # as text: comparing a KafkaError with anything but another one raises
            if heard is not None and heard.str() != error.str():
                said = f" ({self.options.scrubbed(heard.str())})"
            protocol = self.options.kafka.get("security.protocol", "plaintext")
            return UnreachableError(
                f"{self.name}: {doing}: {text}{said}: try again later; where this lasts, "
                f"check the address and security.protocol in [dispatch.kafka] (now {protocol})"
            )
        return FatalError(f"{self.name}: {doing}: {text}: mend it, then start again")

    def is_lasting(self, error: KafkaError) -> bool:
        """Whether trying again cannot help."""
        return error.code() in _REFUSED
