"""Sending one lane, inside one task: one producer, bounded memory, and nothing left undelivered.

Exactly once: each transaction holds documents and the token that counts them, so what a reader of
committed transactions sees and what the next start reads as progress are one.  Where it is not known
how a transaction ended, a new producer fences the old one and the token says.

At least once: an idempotent producer; a token is written behind documents that were acknowledged, so
a start after a crash repeats at most as many as a transaction has, with the same event ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from publisher.dispatch.kafka.client import FENCED, KafkaClients, initialised
from publisher.dispatch.kafka.dead_letters import DeadLetters
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import Token, TokenPlace, read_tokens
from publisher.dispatch.kafka.records import Batch, LaneDocuments
from publisher.errors import FatalError, PublisherError

BATCH = 1_000
"""Documents handed to the producer before its answers are looked at."""
RETRIES = 5
"""Tries in a row that come no further."""
_BACKOFF = 0.2


@dataclass(frozen=True, slots=True)
class LaneSent:
    """What sending a lane reports: documents that this call sent, and how often it began anew."""

    lane: int | str
    documents: int
    transactions: int
    retries: int


@dataclass(frozen=True, slots=True)
class LaneSending:
    """All that a task needs to send a lane; can be pickled.

    ``total`` is the number of documents of the lane, ``refused`` are those that the sink does not
    take.  ``limits`` are settings of the producer that follow from the topics.  ``check_lease`` is
    called before each transaction and raises when a newer instance of the job exists.
    """

    documents: LaneDocuments | DeadLetters
    options: KafkaOptions
    place: TokenPlace
    identity: str
    run: str
    plan: str
    total: int
    refused: frozenset[int]
    limits: tuple[tuple[str, int], ...]
    check_lease: Callable[[], None] | None = None

    @property
    def lane(self) -> int | str:
        """The number of the lane; dead letters have a name."""
        return self.documents.lane

    def send(self) -> LaneSent:
        """Sends what the sink does not have yet of the lane.

        Raises:
            FatalError: The sink refuses it, or a newer instance has taken over.
            UnreachableError: The brokers do not answer.
        """
        sender = _ExactlyOnce(self) if self.options.exactly_once else _AtLeastOnce(self)
        return sender.send()

    def is_due(self, token: Token | None) -> bool:
        """Whether documents of the lane are still to be sent.  Raises as ``start``."""
        return self.start(token) < self.total

    def start(self, token: Token | None) -> int:
        """Where to go on.

        Raises:
            FatalError: The token is of another journal or planning, or of a newer run.
        """
        if token is None:
            return 0
        problem = token.find_conflict(self.identity, self.run, self.plan)
        if problem is not None:
            of_job = self.check_lease is not None
            raise FatalError(conflict_message(self.place, problem, of_job=of_job))
        return token.sent if token.run == self.run else 0


def conflict_message(place: TokenPlace, problem: str, *, of_job: bool) -> str:
    """Says that tokens do not fit a run, and what to do."""
    ways = "start with --again, which sends all of it once more"
    if of_job:
        ways = "run `xds-publisher recover -c JOB.toml`"
    return f"topic {place.sink}: {problem}: restore the journal as it was last, or {ways}"


class _AnewError(Exception):
    """A new producer and the token can settle it; ``error`` is raised where they did not."""

    def __init__(self, error: PublisherError) -> None:
        super().__init__(error.message)
        self.error = error


class _Sender:
    """What both promises share."""

    def __init__(self, work: LaneSending) -> None:
        self._work = work
        self._clients = KafkaClients(work.options)
        self._failed: list[KafkaError] = []
        self._sent = 0
        self._transactions = 0
        self._retries = 0
        size = work.options.transaction_size
        self._most = -(-size // -(-size // BATCH))  # so that whole batches make a transaction

    def send(self) -> LaneSent:
        tries, reached = 0, 0
        while True:
            try:
                self._go_on()
                return LaneSent(self._work.lane, self._sent, self._transactions, self._retries)
            except _AnewError as anew:
                tries = tries + 1 if self._transactions == reached else 1
                reached = self._transactions
                if tries >= RETRIES:
                    raise anew.error from None
            self._retries += 1
            time.sleep(_BACKOFF * 2**tries)

    def _go_on(self) -> None:
        raise NotImplementedError

    @contextmanager
    def _producer(self, own: dict[str, str]) -> Iterator[Producer]:
        self._failed.clear()
        settings = {**dict(self._work.limits), "on_delivery": self._delivered, **own}
        producer = self._clients.producer(settings)
        try:
            yield producer
        finally:
            # Nothing more of it may go out: what was not committed or acknowledged is sent again by
            # whoever comes next.  Neither polled, for a fatal error would be raised once more, nor
            # closed, for that waits for brokers that may be away.
            producer.purge()

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        """Told of failures only; an exception here would not stop the loop."""
        if error is not None and error.code() not in (
            KafkaError._PURGE_QUEUE,
            KafkaError._PURGE_INFLIGHT,
        ):
            self._failed.append(error)

    def _mine(self) -> None:
        if self._work.check_lease is not None:
            self._work.check_lease()

    def _read(self) -> int:
        work = self._work
        found = read_tokens(self._clients, work.place, [work.place.partition(work.lane)])
        return work.start(found.get(work.place.key(work.lane)))

    def _batches(self, start: int) -> Iterator[Batch]:
        return self._work.documents.batches(start, self._most, self._work.refused)

    def _produce(self, producer: Producer, batch: Batch) -> None:
        """Hands documents over; where the queue is full, waits until some are sent."""
        produce = producer.produce
        topics = batch.topics if len(batch.topics) > 1 else [*batch.topics] * len(batch.records)
        for topic, (key, value, headers) in zip(topics, batch.records, strict=True):
            try:
                produce(topic, value, key, headers=headers)
            except BufferError:
                self._when_possible(producer, partial(produce, topic, value, key, headers=headers))
        producer.poll(0)
        self._sent += len(batch.records)

    def _when_possible(self, producer: Producer, produce: Callable[[], None]) -> None:
        """``produce`` where the queue has room, after what is in it was sent where it has none."""
        deadline = time.monotonic() + self._work.options.timeout
        while True:
            try:
                return produce()
            except BufferError:
                if self._failed:
                    raise KafkaException(self._failed[0]) from None
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
            producer.poll(0.05)

    def _token(self, producer: Producer, sent: int) -> None:
        work, place = self._work, self._work.place
        token, key = Token(work.identity, work.run, work.plan, sent), place.key(work.lane)
        partition = place.partition(work.lane)
        value = token.to_bytes()
        produce = partial(producer.produce, place.topic, value, key, partition=partition)
        self._when_possible(producer, produce)

    def _doing(self) -> str:
        return f"sending lane {self._work.lane} of run {self._work.run}"


class _ExactlyOnce(_Sender):
    def _go_on(self) -> None:
        work = self._work
        self._mine()  # making the producer fences all others of its name
        name = work.place.transactional_id(work.lane)
        with self._producer({"transactional.id": name}) as producer:
            with self._settled(producer):
                self._initialise(producer)
            start = self._read()
            if start < work.total:
                with self._settled(producer):
                    self._in_transactions(producer, start)

    def _initialise(self, producer: Producer) -> None:
        try:
            initialised(producer, self._work.place.topic, self._work.options.timeout)
        except KafkaException as error:
            if error.args[0].code() in FENCED:
                raise
            raise self._clients.error(self._doing(), error.args[0]) from None

    def _in_transactions(self, producer: Producer, start: int) -> None:
        options = self._work.options
        committed, due, is_open = start, 0.0, False
        for batch in self._batches(start):
            if not is_open:
                self._mine()
                producer.begin_transaction()
                due, is_open = time.monotonic() + options.transaction_ms / 1_000, True
            self._produce(producer, batch)
            is_full = batch.end - committed + self._most > options.transaction_size
            if is_full or batch.end == self._work.total or time.monotonic() >= due:
                self._token(producer, batch.end)
                commit(producer, options.timeout)
                self._transactions += 1
                committed, is_open = batch.end, False

    @contextmanager
    def _settled(self, producer: Producer) -> Iterator[None]:
        """Aborts what failed, and decides whether a new producer may go on from the token."""
        try:
            yield
        except KafkaException as error:
            raise self._outcome(producer, error.args[0]) from None
        except PublisherError:
            _abort(producer, self._work.options.timeout)
            raise

    def _outcome(self, producer: Producer, error: KafkaError) -> Exception:
        failures = [error, *self._failed]
        if any(failure.code() in FENCED for failure in failures):
            self._mine()  # says more, where it is so
            fenced = FatalError(
                f"{self._doing()}: a newer instance of the job has taken over this lane: let it "
                "work, or stop it and start again"
            )
            return fenced if self._work.check_lease is None else _AnewError(fenced)
        if error.txn_requires_abort():
            _abort(producer, self._work.options.timeout)
        failure = (self._failed or [error])[0]
        found = self._clients.error(self._doing(), failure)
        return found if self._clients.is_lasting(failure) else _AnewError(found)


def commit(producer: Producer, timeout: float) -> None:
    """Commits the open transaction.  Raises ``KafkaException``, also where the result is unknown."""
    producer.commit_transaction(timeout)


def _abort(producer: Producer, timeout: float) -> None:
    with suppress(KafkaException):  # then the next producer of this name aborts it
        producer.abort_transaction(timeout)


class _AtLeastOnce(_Sender):
    def _go_on(self) -> None:
        with self._producer({}) as producer, self._clients.errors(self._doing()):
            self._mine()
            committed = start = self._read()
            for batch in self._batches(start):
                self._produce(producer, batch)
                is_full = batch.end - committed + self._most > self._work.options.transaction_size
                if is_full or batch.end == self._work.total:
                    self._acknowledged(producer)
                    self._token(producer, batch.end)
                    committed = batch.end
                    self._transactions += 1
                    self._mine()
            self._acknowledged(producer)

    def _acknowledged(self, producer: Producer) -> None:
        left = producer.flush(self._work.options.timeout)
        if self._failed or left:
            timed_out = KafkaError(KafkaError._TIMED_OUT)
            raise KafkaException(self._failed[0] if self._failed else timed_out)
