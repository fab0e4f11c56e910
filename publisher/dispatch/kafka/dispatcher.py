"""The Kafka dispatcher: one record for each document, and a further topic with the progress.

``rejects.jsonl`` and ``run.json`` are written to the ledger's folder; the rejects include the documents
that the sink refuses.
"""

# ruff: noqa: PLC0415 - a start that finds nothing to publish sends nothing

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from publisher.dispatch.files import run_json
from publisher.dispatch.kafka.client import KafkaClients
from publisher.dispatch.kafka.compare_tokens import refuse_foreign_tokens
from publisher.dispatch.kafka.lane_producers import fence_producers
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import (
    REJECTS_LANE,
    WHOLE,
    Token,
    TokenPlace,
    conflict_message,
    read_tokens,
    write_tokens,
)
from publisher.dispatch.kafka.session import KafkaSession
from publisher.dispatch.kafka.topic_admin import DOCUMENT_RIGHTS, TOKEN_RIGHTS, KafkaTopics
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.dispatch.refusals import Refusal, apply_refusals, read_record
from publisher.errors import FatalError, ReplacedError, UnreachableError
from publisher.ledger.conservation import RunReport
from publisher.ledger.durable import write_durably
from publisher.ledger.job import RUN, Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun

if TYPE_CHECKING:
    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
    from publisher.dispatch.kafka.recovery import Recovery

RunLanes = Callable[[Sequence["LaneSendTask"]], Iterable["LaneSendReport"]]
"""Sends each lane in its own task; returns when all lanes are sent, raises if a lane cannot be sent."""

_FENCED_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class KafkaDispatcher:
    """Publishes to topics of a Kafka cluster.

    ``job`` determines the topic of the tokens.  ``owner`` owns the progress: the job of a
    ``publish``, the run of a replay or of a ledger that is sent to a further sink.  ``lanes`` is the
    greatest number of lanes that the owner ever used.  ``ledger`` has the runs of a ``publish``, to compare
    with the tokens; with ``recovery`` the ledger replaces a lost one.  ``session`` outlives a run.
    """

    options: KafkaOptions
    job: str
    owner: str
    lanes: int
    run_lanes: RunLanes = lambda lanes: [lane.send() for lane in lanes]  # in this process
    check_lease: Callable[[], None] | None = None
    ledger: Ledger | None = None
    recovery: Recovery | None = None
    session: KafkaSession = field(default_factory=KafkaSession)

    @property
    def target(self) -> str:
        """Brokers and topic."""
        return self.options.target

    def check(self, run: str) -> None:  # noqa: ARG002 - one sink takes many runs
        """Refuses unknown settings of librdkafka, brokers that do not answer, and missing topics that must
        not be created.  Writes nothing.

        Raises:
            SettingsError: Settings are wrong.
            FatalError: A topic is missing, or the brokers refuse the login.
            UnreachableError: The brokers do not answer.
        """
        self.examine()

    def examine(self) -> str:
        """Checks like ``check``, and describes brokers and topics."""
        topics = self._open_topics()
        tokens = self._place.topic
        names = self._known_topics()
        missing = topics.missing([*names, tokens])
        existing = ", ".join(name for name in [*names, tokens] if name not in missing)
        return "; ".join(
            [
                f"{topics.brokers} broker(s) answer",
                *([f"topics {existing}"] if existing else []),
                *([f"to be created: {', '.join(missing)}"] if missing else []),
                *([] if names else [f"the topics of {self.options.topic} depend on the documents"]),
            ]
        )

    def prepare(self, run: str) -> None:  # noqa: ARG002 - as in check
        """Takes over the topics (``take_over``)."""
        self.take_over()

    def take_over(self, topics: KafkaTopics | None = None) -> None:
        """Creates the topics that are known before planning, and fences older instances on every lane.

        ``topics`` are requested again if they are given, on their connection.

        Raises:
            PublisherError: As ``check``.
            FatalError: The job's ledger cannot have written the tokens.
        """
        self.session.forget()
        topics = self._open_topics(topics)
        topics.require(self._known_topics())
        topics.require_tokens(self._place.topic, self.lanes)
        lanes = self.lanes
        if self.recovery is not None:  # their number was lost with the ledger
            lanes = max(lanes, topics.partitions[self._place.topic])
        with ThreadPoolExecutor(_FENCED_AT_ONCE) as pool:
            letters = [REJECTS_LANE] if self.options.dead_letter_topic else []
            fence = partial(fence_producers, self._clients, self._place)
            list(pool.map(fence, [*range(lanes), *letters]))
        if self.ledger is not None and self.recovery is None:
            topics = topics.request_again()  # an instance may have added lanes before it was fenced
            refuse_foreign_tokens(self.options, self.job, self.ledger, topics, wait=True)

    def document_limit(self) -> int | None:
        """The limit of the smallest topic that documents may go to."""
        from publisher.dispatch.kafka.size_limits import document_limit

        return document_limit(self.session.topics(self._clients))

    def has_run(self, manifest: Manifest) -> bool:
        """Returns whether the tokens show that the sink has the complete run."""
        return self._has_all(self._tokens(self.session.topics(self._clients), [0]), manifest)

    def refuse_conflicts(self, manifest: Manifest) -> None:
        """Refuses tokens that do not fit the run."""
        self._tokens_of(self.session.topics(self._clients), manifest)

    def refusals(self, ledger_run: LedgerRun) -> Sequence[Refusal]:
        """The refused documents of the dispatch record."""
        record = read_record(ledger_run, self._sink)
        return record.refusals if record is not None else ()

    def forget(self) -> None:
        """Removes the tokens, so that everything is sent again."""
        place = self._place
        topics = KafkaTopics.of(self._clients)
        count = topics.partitions.get(place.topic, 0)
        tokens = self._tokens(topics, range(count))
        lanes = [key for lane in range(count) if (key := (lane, place.key(lane)))[1] in tokens]
        if tokens:
            removed = dict.fromkeys([(0, place.key(WHOLE)), (0, place.key(REJECTS_LANE)), *lanes])
            write_tokens(self._clients, place.topic, removed)

    def discard(self) -> None:
        """Does nothing: the sink has nothing of a run before its plan is committed."""

    def dispatch(
        self, ledger_run: LedgerRun, manifest: Manifest, report: RunReport
    ) -> Sequence[Refusal]:
        """Sends the missing documents lane by lane, then writes the token of the complete run.

        Raises:
            FatalError: A file of the ledger or a topic is missing, the sink refuses records, or it
                has progress of another ledger.
            UnreachableError: The brokers do not answer.
        """
        is_new = self.session.is_new
        try:
            return self._dispatch(ledger_run, manifest, report)
        except BaseException as error:
            self.session.forget()
            if isinstance(error, UnreachableError) and not self.options.create_topics:
                with suppress(
                    UnreachableError
                ):  # the brokers also do not answer for a deleted topic
                    KafkaTopics.of(self._clients).require(self._known_topics())
            if is_new or not isinstance(error, FatalError) or isinstance(error, ReplacedError):
                raise
            # a topic may have changed since the session read its settings
            return self._dispatch(ledger_run, manifest, report)

    def _dispatch(
        self, ledger_run: LedgerRun, manifest: Manifest, report: RunReport
    ) -> Sequence[Refusal]:
        topics = self.session.topics(self._clients)
        if self.recovery is not None:
            self.mark_recovered(ledger_run, manifest)
            whose = manifest.identity, manifest.run, manifest.plan
            self.claim_tokens(Token(*whose, 0, epochs=manifest.epochs))
        tokens = self._tokens_of(topics, manifest)
        if self._has_all(tokens, manifest):
            refusals = self.refusals(ledger_run)
        else:
            refusals = self._send(ledger_run, manifest, topics, tokens)
        if ledger_run.ledger is None:  # a job has its runs in the ledger
            text = run_json(manifest, apply_refusals(report, refusals))
            write_durably(ledger_run.root / RUN, text)
        return refusals

    def mark_recovered(self, ledger_run: LedgerRun, manifest: Manifest) -> None:
        """Records in the ledger which documents the topics may have already, see ``Recovery.mark``."""
        assert self.recovery is not None
        from publisher.dispatch.kafka.run_sender import document_lanes
        from publisher.dispatch.kafka.size_limits import topics_of

        names = topics_of(document_lanes(self.options, ledger_run, manifest))
        self.recovery.mark(self.session.topics(self._clients), names, ledger_run, manifest)

    def claim_tokens(self, begin: Token) -> None:
        """Replaces the tokens of a lost ledger with ``begin``; tokens of the run of ``begin`` remain.

        Raises:
            ReplacedError: A newer instance of the job works.
            UnreachableError: The brokers do not answer.
        """
        place, topics = self._place, KafkaTopics.of(self._clients)
        tokens = self._tokens(topics, range(topics.partitions.get(place.topic, 0)))
        # tokens of lanes are replaced, not removed, so that they also reveal a loss of this ledger
        claimed = {
            (place.partition_of(key), key): None if key == place.key(WHOLE) else begin
            for key, token in tokens.items()
            if not token.is_of(begin.identity, begin.run, begin.plan)
        }
        if self.check_lease is not None:
            self.check_lease()
        if claimed:
            write_tokens(self._clients, place.topic, claimed)
            self.session.forget()

    def _send(
        self,
        ledger_run: LedgerRun,
        manifest: Manifest,
        topics: KafkaTopics,
        tokens: Mapping[bytes, Token],
    ) -> Sequence[Refusal]:
        """Sends the missing documents; returns those that the sink refuses."""
        from publisher.dispatch.kafka.run_sender import RunSender

        sender = RunSender(
            options=self.options,
            place=self._place,
            sink=self._sink,
            run_lanes=self.run_lanes,
            check_lease=self.check_lease,
            session=self.session,
            ledger_run=ledger_run,
            manifest=manifest,
            topics=topics,
            tokens=tokens,
            job=self.ledger,
        )
        return sender.send(self.lanes)

    def _open_topics(self, known: KafkaTopics | None = None) -> KafkaTopics:
        self._clients.check_settings()
        topics = KafkaTopics.of(self._clients) if known is None else known.request_again()
        topics.refuse_replication()
        rights = dict.fromkeys(self._known_topics(), DOCUMENT_RIGHTS)
        topics.require_rights(rights | {self._place.topic: TOKEN_RIGHTS})
        if not self.options.create_topics:
            topics.require(self._known_topics())
        if self._place.topic in topics.partitions:
            topics.require_compaction(self._place.topic)
        if self.recovery is not None:
            from publisher.dispatch.kafka.recovery import refuse_incomplete

            refuse_incomplete(topics, self._document_topics())
        topics.refuse_compaction(self._known_topics())
        return topics

    def _known_topics(self) -> list[str]:
        """The topics that are known before planning."""
        return [*self._document_topics(), *filter(None, [self.options.dead_letter_topic])]

    def _document_topics(self) -> list[str]:
        return [] if (template := TopicTemplate(self.options.topic)).fields else [template.text]

    def _has_all(self, tokens: Mapping[bytes, Token], manifest: Manifest) -> bool:
        whole = tokens.get(self._place.key(WHOLE))
        return whole is not None and whole.is_of(manifest.identity, manifest.run, manifest.plan)

    def _tokens_of(self, topics: KafkaTopics, manifest: Manifest) -> dict[bytes, Token]:
        """The tokens of the lanes of a run.  Raises ``FatalError`` if they do not fit it."""
        tokens, of_job = self._tokens(topics, range(max(manifest.lanes, 1))), bool(self.ledger)
        for token in tokens.values():
            problem = token.find_conflict(manifest.identity, manifest.run, manifest.plan)
            if problem is not None:
                raise FatalError(conflict_message(self._place, problem, of_job=of_job))
        return tokens

    def _tokens(self, topics: KafkaTopics, partitions: Iterable[int]) -> dict[bytes, Token]:
        place, clients = self._place, self._clients
        count = topics.partitions.get(place.topic, 0)
        existing = [number for number in partitions if number < count]
        return self.session.tokens(place, existing, partial(read_tokens, clients, place))

    @property
    def _clients(self) -> KafkaClients:
        return KafkaClients(self.options)

    @property
    def _place(self) -> TokenPlace:
        return TokenPlace(self.options.tokens_of(self.job), self.owner, self.options.topic)

    @property
    def _sink(self) -> str:
        """Identifies the sink of a ledger; brokers may have several names."""
        return f"{self.owner} {self.target}"
