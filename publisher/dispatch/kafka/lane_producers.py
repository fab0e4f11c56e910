"""Transactional producers of lanes, reused from one run to the next.

A new producer costs several requests and a read of the lane's token.  A reused producer has committed the
token itself, so the token need not be read: if another producer of the lane had written a later token, it
would have fenced this producer, whose next commit would fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Producer

from publisher.dispatch.kafka.client import KafkaClients, initialise_transactions
from publisher.dispatch.kafka.progress_tokens import Token, TokenPlace

Limits = tuple[tuple[str, int], ...]
"""Settings of a producer that depend on the topics."""


@dataclass(slots=True)
class LaneProducer:
    """A producer whose transactions are initialised."""

    clients: KafkaClients
    producer: Producer
    limits: Limits
    failed: list[KafkaError]
    """Errors of failed deliveries."""
    token: Token | None = None
    """The token of the lane in Kafka."""

    def release(self) -> None:
        """Drops the producer and its unsent records: the next producer repeats uncommitted documents.

        It is not polled, which would raise a fatal error again, nor closed, which would wait for brokers.
        """
        self.producer.purge()

    @contextmanager
    def release_on_error(self) -> Iterator[None]:
        """Releases the producer if the block fails."""
        try:
            yield
        except BaseException:
            self.release()
            raise


@dataclass(slots=True)
class LaneProducers:
    """The idle producers of a process, at most ``limit``, by transactional id.  A pickled copy is empty."""

    limit: int = 0
    _idle: dict[str, LaneProducer] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type[LaneProducers], tuple[()]]:
        return LaneProducers, ()

    def take(self, name: str, limits: Limits) -> LaneProducer | None:
        """Returns an idle producer with these settings, which then belongs to the caller."""
        lane = self._idle.pop(name, None)
        if lane is None or lane.limits == limits:
            return lane
        lane.release()
        return None

    def keep(self, name: str, lane: LaneProducer) -> None:
        """Keeps a producer without an open transaction; drops the longest idle one beyond ``limit``."""
        self._idle[name] = lane
        while len(self._idle) > self.limit:
            self.drop(next(iter(self._idle)))

    def drop(self, name: str) -> None:
        """Drops the producer of a transactional id, if one is idle."""
        lane = self._idle.pop(name, None)
        if lane is not None:
            lane.release()

    def token(self, name: str) -> Token | None:
        """The token that the idle producer of a transactional id has committed last."""
        lane = self._idle.get(name)
        return lane.token if lane is not None else None

    def close(self) -> None:
        """Drops all producers."""
        for name in list(self._idle):
            self.drop(name)


def fence_producers(clients: KafkaClients, place: TokenPlace, lane: int | str) -> None:
    """Fences all producers of a lane.

    Raises:
        UnreachableError: The brokers do not answer.
        FatalError: The brokers refuse the login.
    """
    producer = clients.producer({"transactional.id": place.transactional_id(lane)})
    with clients.errors(f"taking over lane {lane} of {place.sink}"):
        initialise_transactions(producer, place.topic, clients.options.timeout)
    producer.close()
