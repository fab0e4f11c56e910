"""Where the tokens of a job stand, for people: reads, writes nothing, fences nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from publisher.dispatch.kafka.compare_tokens import read_all_tokens
from publisher.dispatch.kafka.dead_letters import LANE
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import WHOLE, Token

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
    quick = replace(options, timeout=min(options.timeout, _PATIENCE))
    return by_lane(options.tokens_of(job), read_all_tokens(quick, job, wait=True))


def by_lane(topic: str, found: Mapping[bytes, Token]) -> KafkaProgress:
    """The tokens of a sink by what they are of."""
    tokens = {json.loads(key)[2]: token for key, token in found.items()}
    whole, rejects = tokens.pop(WHOLE, None), tokens.pop(LANE, None)
    return KafkaProgress(topic, whole, dict(sorted(tokens.items())), rejects)
