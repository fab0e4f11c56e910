"""Sends one lane inside one task, with one producer and bounded memory.

Each transaction holds documents and the token that counts them, so that readers of committed
transactions and the next start see the same progress.  If the end of a transaction is unknown, a new producer
fences the old one and reads the token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from publisher.dispatch.kafka.client import FENCED, KafkaClients, initialise_transactions
from publisher.dispatch.kafka.dead_letters import DeadLetters
from publisher.dispatch.kafka.lane_producers import LaneProducer, LaneProducers
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import (
    WHOLE,
    Token,
    TokenPlace,
    conflict_message,
    read_tokens,
)
from publisher.dispatch.kafka.records import Batch, LaneDocuments
from publisher.errors import FatalError, PublisherError, ReplacedError

BATCH = 1_000
"""Number of documents to produce before delivery reports are processed."""
RETRIES = 5
"""Maximum number of consecutive attempts without progress."""
_BACKOFF = 0.2


@dataclass(frozen=True, slots=True)
class LaneSendReport:
    """The report of a sent lane: documents sent by this call, transactions and retries."""

    lane: int | str
    documents: int
    transactions: int
    retries: int


@dataclass(frozen=True, slots=True)
class LaneSendTask:
    """The work of a task that sends a lane; can be pickled.

    ``total`` is the number of documents of the lane, ``refused`` are the documents that the sink
    refuses.  ``limits`` are settings of the producer that depend on the topics.  ``check_lease`` is
    called before each transaction and raises when a newer instance of the job exists.  ``producers``
    keeps the producer of the lane for the next run.
    """

    documents: LaneDocuments | DeadLetters
    options: KafkaOptions
    place: TokenPlace
    identity: str
    epochs: Mapping[str, int]
    run: str
    plan: str
    total: int
    refused: frozenset[int]
    limits: tuple[tuple[str, int], ...]
    check_lease: Callable[[], None] | None = None
    producers: LaneProducers = field(default_factory=LaneProducers)
    whole: Token | None = None
    """The token of the complete run, if the last transaction of the lane completes the run."""

    @property
    def transactional_id(self) -> str:
        """The transactional id of the lane."""
        return self.place.transactional_id(self.lane)

    @property
    def last_token(self) -> Token:
        """The token of the lane once all of its documents are sent."""
        return Token(self.identity, self.run, self.plan, self.total, epochs=self.epochs)

    @property
    def lane(self) -> int | str:
        """The number of the lane; dead letters have a name."""
        return self.documents.lane

    def send(self) -> LaneSendReport:
        """Sends the documents of the lane that the sink does not have.

        Raises:
            FatalError: The sink refuses a record.
            ReplacedError: A newer instance has taken over.
            UnreachableError: The brokers do not answer.
        """
        return LaneSender(self).send()

    def is_pending(self, token: Token | None) -> bool:
        """Returns whether documents of the lane are missing in the sink.  Raises like ``start``."""
        return self.start(token) < self.total

    def start(self, token: Token | None) -> int:
        """Returns the number of the first document to send.

        Raises:
            FatalError: The token is from another ledger or plan, or from a newer run.
        """
        if token is None:
            return 0
        problem = token.find_conflict(self.identity, self.run, self.plan)
        if problem is not None:
            of_job = self.check_lease is not None
            raise FatalError(conflict_message(self.place, problem, of_job=of_job))
        return token.sent if token.run == self.run else 0


class _RetryError(Exception):
    """An error after which a new producer may continue from the token; the last attempt raises ``error``."""

    def __init__(self, error: PublisherError) -> None:
        super().__init__(error.message)
        self.error = error


class LaneSender:
    """Sends a lane in transactions, each with its progress token."""

    def __init__(self, work: LaneSendTask) -> None:
        self._work = work
        self._clients = KafkaClients(work.options)
        self._failed: list[KafkaError] = []
        self._sent = 0
        self._transactions = 0
        self._retries = 0
        self._possible: set[int] = set()
        """Counts that the token may have if no other instance sends the lane; empty: unknown."""
        size = work.options.transaction_size
        # so that a transaction holds complete batches
        self._batch_size = -(-size // -(-size // BATCH))

    def send(self) -> LaneSendReport:
        """Sends the documents that the sink does not have; raises as ``LaneSendTask.send``."""
        attempts, transactions = 0, 0
        while True:
            try:
                self._send_remaining()
                return LaneSendReport(
                    self._work.lane,
                    self._sent,
                    self._transactions,
                    self._retries,
                )
            except _RetryError as retry:
                attempts = attempts + 1 if self._transactions == transactions else 1
                transactions = self._transactions
                if attempts >= RETRIES:
                    raise retry.error from None
            self._retries += 1
            time.sleep(_BACKOFF * 2**attempts)

    @contextmanager
    def _open_producer(self, overrides: Mapping[str, Any]) -> Iterator[LaneProducer]:
        """Creates a producer, which is released if the block fails."""
        work = self._work
        failed: list[KafkaError] = []
        self._failed = failed
        # all records have the callback, which gets errors only
        report = {"on_delivery": lambda error, _: collect_failure(failed, error)}
        settings = {**dict(work.limits), **report, **overrides}
        lane = LaneProducer(self._clients, self._clients.producer(settings), work.limits, failed)
        with lane.release_on_error():
            yield lane

    def _check_lease(self) -> None:
        if self._work.check_lease is not None:
            self._work.check_lease()

    def _read_token(self) -> Token | None:
        work = self._work
        tokens = read_tokens(self._clients, work.place, [work.place.partition(work.lane)])
        return tokens.get(work.place.key(work.lane))

    def _batches(self, start: int) -> Iterator[Batch]:
        return self._work.documents.batches(start, self._batch_size, self._work.refused)

    def produce(self, producer: Producer, batch: Batch) -> None:
        """Passes documents to the producer; waits while its queue is full."""
        produce = producer.produce
        topics = batch.topics if len(batch.topics) > 1 else [*batch.topics] * len(batch.records)
        records = zip(topics, batch.records, strict=True)
        for topic, (key, value, headers) in records:
            try:
                produce(topic, value, key, headers=headers)
            except BufferError:
                again = partial(produce, topic, value, key, headers=headers)
                self._produce_when_possible(producer, again)
        producer.poll(0)
        self._sent += batch.documents

    def _produce_when_possible(self, producer: Producer, produce: Callable[[], None]) -> None:
        """Calls ``produce`` once the queue has room."""
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

    def _produce_tokens(self, producer: Producer, sent: int) -> None:
        """Passes the token of the lane to the producer, and that of the run once it is complete."""
        work = self._work
        tokens = [(work.lane, replace(work.last_token, sent=sent))]
        if work.whole is not None and sent == work.total:
            tokens.append((WHOLE, work.whole))
        for lane, token in tokens:
            key, partition = work.place.key(lane), work.place.partition(lane)
            produce = producer.produce
            self._produce_when_possible(
                producer,
                partial(produce, work.place.topic, token.to_bytes(), key, partition=partition),
            )

    def _activity(self) -> str:
        return f"sending lane {self._work.lane} of run {self._work.run}"

    def _send_remaining(self) -> None:
        work = self._work
        self._check_lease()  # a new producer fences all others with its transactional id
        with self._lane_producer() as lane:
            start = work.start(lane.token)
            if work.check_lease is None and self._possible and start not in self._possible:
                raise self._replaced()
            self._possible = {start}
            if start < work.total:
                with self._abort_on_error(lane.producer):
                    self._send_in_transactions(lane.producer, start)
                lane.token = work.last_token
        work.producers.keep(work.transactional_id, lane)

    @contextmanager
    def _lane_producer(self) -> Iterator[LaneProducer]:
        """Yields the cached producer of an earlier run, or a new producer, which fences all others."""
        work = self._work
        lane = work.producers.take(work.transactional_id, work.limits)
        if lane is not None:
            self._clients, self._failed = lane.clients, lane.failed
            self._clients.forget_errors()
            with lane.release_on_error():
                yield lane
            return
        with self._open_producer({"transactional.id": work.transactional_id}) as lane:
            with self._abort_on_error(lane.producer):
                self._initialise(lane.producer)
            lane.token = self._read_token()
            yield lane

    def _initialise(self, producer: Producer) -> None:
        try:
            initialise_transactions(producer, self._work.place.topic, self._work.options.timeout)
        except KafkaException as error:
            if error.args[0].code() in FENCED:
                raise
            raise self._clients.error(self._activity(), error.args[0]) from None

    def _send_in_transactions(self, producer: Producer, start: int) -> None:
        options = self._work.options
        committed, deadline, is_open = start, 0.0, False
        work = self._work
        for batch in self._batches(start):
            if not is_open:
                self._check_lease()
                producer.begin_transaction()
                deadline, is_open = time.monotonic() + options.transaction_ms / 1_000, True
            is_full = batch.end - committed + self._batch_size > options.transaction_size
            self.produce(producer, batch)
            if is_full or batch.end == work.total or time.monotonic() >= deadline:
                self._produce_tokens(producer, batch.end)
                self._possible = {committed, batch.end}
                commit(producer, options.timeout)
                self._transactions += 1
                committed, is_open = batch.end, False

    @contextmanager
    def _abort_on_error(self, producer: Producer) -> Iterator[None]:
        """Aborts a failed transaction, and decides whether a new producer may continue from the token."""
        try:
            yield
        except KafkaException as error:
            raise self._classify(producer, error.args[0]) from None
        except PublisherError:
            _abort(producer, self._work.options.timeout)
            raise

    def _classify(self, producer: Producer, error: KafkaError) -> Exception:
        error = _find_cause(producer, error, self._work.options.timeout)
        failures = [error, *self._failed]
        for fenced in (failure for failure in failures if failure.code() in FENCED):
            self._check_lease()  # raises a clearer error if the lease is lost
            if self._work.check_lease is not None:
                return _RetryError(self._replaced())
            # the token decides: this process may have paused for longer than its transaction
            return _RetryError(self._clients.error(self._activity(), fenced))
        if error.txn_requires_abort():
            _abort(producer, self._work.options.timeout)
        failure = (self._failed or [error])[0]
        translated = self._clients.error(self._activity(), failure)
        return translated if self._clients.is_permanent(failure) else _RetryError(translated)

    def _replaced(self) -> ReplacedError:
        return ReplacedError(
            f"{self._activity()}: a newer instance of the job has taken over this lane: leave the job "
            "to it, or stop it and start again"
        )


def commit(producer: Producer, timeout: float) -> None:
    """Commits the open transaction.  Raises ``KafkaException``, also if the result is unknown."""
    producer.commit_transaction(timeout)


def collect_failure(failed: list[KafkaError], error: KafkaError | None) -> None:
    """Collects a failed delivery; an exception here would not stop the sender."""
    if error is not None and error.code() not in (
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
    ):
        failed.append(error)


def _find_cause(producer: Producer, error: KafkaError, timeout: float) -> KafkaError:
    """Returns the error that failed a transaction whose next record the producer refused.

    ``produce`` says only that the state is wrong; a commit of a failed transaction only returns its error.
    """
    if error.code() == KafkaError._STATE:
        try:
            commit(producer, timeout)
        except KafkaException as cause:
            return cause.args[0]  # type: ignore[no-any-return]
    return error


def _abort(producer: Producer, timeout: float) -> None:
    with suppress(KafkaException):  # the next producer with this transactional id aborts it
        producer.abort_transaction(timeout)
