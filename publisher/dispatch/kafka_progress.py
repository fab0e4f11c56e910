"""Where the tokens of a job stand, for people: reads, writes nothing, fences nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from publisher.dispatch.kafka_admin import KafkaTopics
from publisher.dispatch.kafka_client import KafkaClients
from publisher.dispatch.kafka_dead_letters import LANE
from publisher.dispatch.kafka_options import KafkaOptions
from publisher.dispatch.kafka_tokens import WHOLE, Token, TokenPlace, read_tokens

_PATIENCE = 10
"""Seconds that brokers may take at most for an answer to somebody who only looks."""


@dataclass(frozen=True, slots=True)
class KafkaProgress:
    """The tokens of one sink of a job."""

    topic: str
    """Where they lie."""
    whole: Token | None
    """That of the last run that was sent wholly."""
    lanes: dict[int, Token]
    """The last of each lane."""
    rejects: Token | None = None
    """That of the topic of rejected records, where there is one."""


def progress(options: KafkaOptions, job: str) -> KafkaProgress:
    """The tokens of what ``publish`` sends for a job; none where it has sent nothing.

    Raises:
        UnreachableError: The brokers do not answer.
        FatalError: They refuse the login.
    """
    clients = KafkaClients(replace(options, timeout=min(options.timeout, _PATIENCE)))
    place = TokenPlace(options.tokens_of(job), job, options.topic)
    partitions = range(KafkaTopics.of(clients).partitions.get(place.topic, 0))
    return by_lane(place.topic, read_tokens(clients, place, partitions) if partitions else {})


def by_lane(topic: str, found: Mapping[bytes, Token]) -> KafkaProgress:
    """The tokens of a sink by what they are of."""
    tokens = {json.loads(key)[2]: token for key, token in found.items()}
    whole, rejects = tokens.pop(WHOLE, None), tokens.pop(LANE, None)
    return KafkaProgress(topic, whole, dict(sorted(tokens.items())), rejects)
