"""Compares the progress tokens of a job with its ledger, before fencing and planning."""

from __future__ import annotations

from collections.abc import Iterable

from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import Token, TokenPlace, read_tokens
from publisher.dispatch.kafka.topic_admin import KafkaTopics
from publisher.dispatch.kafka.topic_ids import refuse_replaced
from publisher.errors import FatalError
from publisher.ledger.job import Ledger


def refuse_foreign_tokens(
    options: KafkaOptions,
    job: str,
    ledger: Ledger,
    topics: KafkaTopics | None = None,
    *,
    wait: bool = False,
) -> None:
    """Refuses a topic with a token that the job's ledger cannot have written.

    ``topics`` are requested unless they are given.  Without ``wait``, tokens behind an open transaction are
    missed: compare again after fencing.

    Raises:
        FatalError: Tokens are from another ledger, a newer run, another plan, or another version
            of the program; or a topic of documents was deleted and created again.
        UnreachableError: The brokers do not answer.
    """
    topics = topics or KafkaTopics.of(KafkaClients(options))
    tokens = read_all_tokens(options, job, topics, wait=wait)
    problem = find_problem(tokens.values(), ledger)
    refuse_replaced(topics, ledger)
    if problem is not None:
        raise FatalError(
            f"topic {options.topic} has progress of job {job} in {options.tokens_of(job)} that does not "
            f"fit the ledger: {problem}; nothing was sent, as documents could be lost or doubled. "
            "Restore the latest ledger directory; or, if two jobs share the name, set another "
            "name in [job]; or, if the ledger is lost, run `xds-publisher recover -c JOB.toml`"
        )


def read_all_tokens(
    options: KafkaOptions, job: str, topics: KafkaTopics | None = None, *, wait: bool
) -> dict[bytes, Token]:
    """Reads the tokens of all lanes that a job ever had in a topic; requests ``topics`` unless given.

    Raises:
        UnreachableError: The brokers do not answer.
    """
    topics = topics or KafkaTopics.of(KafkaClients(options))
    place = TokenPlace(options.tokens_of(job), job, options.topic)
    partitions = range(topics.partitions.get(place.topic, 0))
    return read_tokens(topics.clients, place, partitions, wait=wait) if partitions else {}


def find_problem(tokens: Iterable[Token], ledger: Ledger) -> str | None:
    """Describes the first token that the ledger cannot have written; ``None`` if all fit."""
    for token in tokens:
        problem = token.find_version_problem()
        if problem is None:
            problem = ledger.find_problem(token.identity, token.run, token.plan)
        if problem is not None:
            return problem
    return None
