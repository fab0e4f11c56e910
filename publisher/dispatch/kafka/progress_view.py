"""The progress of a job for people: reads tokens, without writing or fencing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from publisher.dispatch.kafka.compare_tokens import read_all_tokens
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import REJECTS_LANE, WHOLE, Token

_PATIENCE = 10
"""Maximum seconds for an answer of the brokers."""


@dataclass(frozen=True, slots=True)
class KafkaProgress:
    """The tokens of one sink of a job."""

    topic: str
    """The topic of the tokens."""
    whole: Token | None
    """The token of the last run that was sent completely."""
    lanes: dict[int, Token]
    """The last token of each lane."""
    rejects: Token | None = None
    """The token of rejected records, if they have a topic."""


def read_progress(options: KafkaOptions, job: str) -> KafkaProgress:
    """Reads the tokens of ``publish`` for a job.

    Raises:
        UnreachableError: The brokers do not answer.
        FatalError: The brokers refuse the login.
    """
    quick = replace(options, timeout=min(options.timeout, _PATIENCE))
    return by_lane(options.tokens_of(job), read_all_tokens(quick, job, wait=True))


def by_lane(topic: str, tokens: Mapping[bytes, Token]) -> KafkaProgress:
    """Sorts the tokens of a sink by lane."""
    lanes = {json.loads(key)[2]: token for key, token in tokens.items()}
    whole, rejects = lanes.pop(WHOLE, None), lanes.pop(REJECTS_LANE, None)
    return KafkaProgress(topic, whole, dict(sorted(lanes.items())), rejects)
