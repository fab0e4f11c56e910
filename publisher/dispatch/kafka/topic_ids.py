"""The ids of a job's topics, kept in its ledger: a topic that was created again has another id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from publisher.errors import FatalError
from publisher.ledger.job import Ledger
from publisher.ledger.storage import LEDGER

if TYPE_CHECKING:
    from publisher.dispatch.kafka.topic_admin import KafkaTopics


def refuse_replaced(topics: KafkaTopics, ledger: Ledger, used: Iterable[str] = ()) -> None:
    """Refuses topics that were deleted and created again; remembers the ids of the topics in ``used``.

    Raises:
        FatalError: A topic has another id than before.
        UnreachableError: The brokers do not answer.
    """
    known = ledger.topics()
    ids = topics.ids({*known, *used} & topics.partitions.keys())
    for name, id_ in ids.items():
        if known.get(name, id_) != id_:
            statement = f"DELETE FROM topic WHERE name = '{name}'"  # noqa: S608 - shown to people
            raise FatalError(
                f"topic {name} was deleted and created again: its id is {id_} instead of {known[name]}, "
                "and the documents that were sent before are gone; nothing was sent. Run `xds-publisher "
                "verify -c JOB.toml --repair --baseline`, which publishes the rows of [tables] again and "
                "accepts the topic; or, if consumers do not need the earlier documents, stop the job and run "
                f'`sqlite3 {ledger.root / LEDGER} "{statement}"`'
            )
    if ids.items() - known.items():
        ledger.remember_topics(known | ids)


@contextmanager
def accept_replaced(ledger: Ledger) -> Iterator[None]:
    """Forgets the ids of the topics for a repair; remembers them again if it fails."""
    stored = ledger.topics()
    if stored:
        ledger.remember_topics({})
    try:
        yield
    except BaseException:
        if stored:
            ledger.remember_topics(stored)
        raise
