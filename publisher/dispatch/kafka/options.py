"""Options of the Kafka sink.  Imports no client: job files are read without one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len

from publisher.dispatch.kafka.topic_template import (
    SCHEME,
    KafkaTarget,
    fill_template,
    template_problem,
)
from publisher.errors import OptionProblem, refuse_options
from publisher.redaction import redact

BOOTSTRAP = "bootstrap.servers"

Partitioner = Literal[
    "murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a"
]


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The Kafka sink: topics, transactions, and librdkafka's own settings."""

    bootstrap: Annotated[str, Len(1)] | None = None
    """Brokers to connect to first, as ``HOST:PORT[,HOST:PORT]``."""
    topic: str = "xds"
    """Topic of a document; may contain ``{schema}``, ``{table}`` and ``{source}``. Characters that
    a topic's name must not contain become ``_``."""
    transaction_size: Annotated[int, Ge(1_000), Le(10_000)] = 10_000
    """Maximum number of documents in one transaction."""
    transaction_ms: Annotated[int, Ge(10), Le(10_000)] = 250
    """Milliseconds after which a transaction is committed with the documents sent so far."""
    create_topics: bool = False
    """Create missing topics; otherwise a missing topic is an error before anything is sent."""
    partitions: Annotated[int, Ge(1), Le(100_000)] | None = None
    """Number of partitions of created topics; by default the brokers' choice."""
    replication: Annotated[int, Ge(1), Le(1_000)] | None = None
    """Number of copies of created topics, the topic of tokens included; by default the brokers'
    choice."""
    token_topic: str = "xds-publisher.{job}"  # noqa: S105 - no secret
    """Compacted topic of the progress tokens; created if it is missing."""
    dead_letter_topic: Annotated[str, Len(1)] | None = None
    """Topic for rejected records: the raw record as value, ``event-id``, ``source``, ``position``,
    ``reason``, ``detail`` and ``reject-id`` as headers. The delivery guarantee is the same as for
    documents. A record too large for the topic is sent without value, and the header ``raw-bytes`` gives
    its length."""
    partitioner: Partitioner = "murmur2_random"
    """Function that maps keys to partitions; the default is the function of Java clients."""
    timeout: Annotated[int, Ge(1), Le(3_600)] = 60
    """Seconds that the brokers may take to answer."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The table ``[dispatch.kafka]``: settings of librdkafka by their own names. A value may be ``{
    env = "NAME" }`` or ``{ file = "PATH" }``. Values are never printed."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for a wrong template."""
        problems = {
            "topic": template_problem(self.topic),
            "token_topic": template_problem(self.token_topic, frozenset({"job"})),
            "dead_letter_topic": template_problem(self.dead_letter_topic or "x", frozenset()),
        }
        refuse_options(OptionProblem(name, text) for name, text in problems.items() if text)

    @property
    def brokers(self) -> str:
        """The first brokers to connect to; "" if none are set."""
        return self.bootstrap or self.kafka.get(BOOTSTRAP, "")

    @property
    def target(self) -> str:
        """Brokers and topic in the form of the command line."""
        return f"{SCHEME}{self.brokers}/{self.topic}"

    def tokens_of(self, job: str) -> str:
        """The topic of a job's tokens."""
        return fill_template(self.token_topic, job=job)

    def with_target(self, target: KafkaTarget) -> KafkaOptions:
        """Replaces brokers and topic by a target of the command line."""
        others = {name: value for name, value in self.kafka.items() if name != BOOTSTRAP}
        return replace(self, bootstrap=target.bootstrap, topic=target.topic, kafka=others)

    def without_secrets(self, text: str) -> str:
        """Removes the secrets of the settings from a text."""
        return redact(text, secrets(self.kafka))


_RESERVED = {
    "transactional.id": "the program names its transactions by job, topic and lane",
    "partitioner": "set partitioner in [dispatch]",
    "delivery.report.only.error": "the program sets it",
    "isolation.level": "progress must be read from committed transactions only",
    "group.id": "the program reads its progress without a consumer group",
    "group.instance.id": "the program reads its progress without a consumer group",
    "auto.offset.reset": "the program reads its progress from the beginning",
    "enable.auto.commit": "the program reads its progress without a consumer group",
    "enable.auto.offset.store": "the program reads its progress without a consumer group",
    "enable.partition.eof": "the program sets it",
}
_REQUIRED = {
    "enable.idempotence": ({"true"}, "without it a retry doubles or reorders documents"),
    "acks": ({"all", "-1"}, "documents could be lost with a broker"),
    "request.required.acks": ({"all", "-1"}, "documents could be lost with a broker"),
    "queuing.strategy": ({"fifo"}, "documents of an object must stay in order"),
}
_SECRET = re.compile(
    r"passw|secret|token|jaas|\.pem$|\.username$|oauthbearer\.config|assertion", re.IGNORECASE
)


def conflicts(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields settings of librdkafka that would break guarantees of the program, with the reason."""
    for name, value in settings.items():
        if name in _RESERVED:
            yield name, f"cannot be set here: {_RESERVED[name]}"
        elif name in _REQUIRED:
            allowed, reason = _REQUIRED[name]
            if value.lower() not in allowed:
                yield name, f"must be {min(allowed, key=len)}: {reason}"


def option_conflicts(options: KafkaOptions) -> Iterator[tuple[str, str]]:
    """Yields conflicts of all options, with the reason."""
    yield from conflicts(options.kafka)
    if options.bootstrap is not None and BOOTSTRAP in options.kafka:
        yield BOOTSTRAP, "is set in addition to bootstrap in [dispatch]; keep one of the two"


def secrets(settings: Mapping[str, str]) -> list[str]:
    """The values that must not be shown, longest first."""
    values = {value for name, value in settings.items() if value and _SECRET.search(name)}
    lines = {line for value in values for line in value.splitlines() if len(line) > 3}
    return sorted(values | lines, key=len, reverse=True)
