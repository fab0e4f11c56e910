"""The Kafka sink: topics with a record for each document, progress in a topic beside them.

``rejects.jsonl`` and ``run.json`` lie in the journal's folder; the rejects include the documents that
the sink refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

from publisher.dispatch.files import REJECTS, rejects, run_json
from publisher.dispatch.kafka.client import KafkaClients, initialised
from publisher.dispatch.kafka.compare_tokens import refuse_foreign_tokens
from publisher.dispatch.kafka.dead_letters import LANE, DeadLetters
from publisher.dispatch.kafka.lane_sender import LaneSending, LaneSent, conflict_message
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import (
    WHOLE,
    Token,
    TokenPlace,
    read_tokens,
    write_tokens,
)
from publisher.dispatch.kafka.records import RECOVERED_BYTES, LaneDocuments
from publisher.dispatch.kafka.recovery import Recovery, refuse_incomplete
from publisher.dispatch.kafka.size_limits import (
    GREATEST_MESSAGE,
    limits_of,
    refusals,
    topics_of,
    unusable_topics,
)
from publisher.dispatch.kafka.topic_admin import KafkaTopics
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.dispatch.refusals import DispatchRecord, Refusal, joined, read_record
from publisher.errors import FatalError
from publisher.journal.conservation import RunReport
from publisher.journal.durable import make_private, sync_folder, write_durably
from publisher.journal.job_journals import RUN
from publisher.journal.lineage import Lineage
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.recovery import RECOVERY, read_recovery

RunLanes = Callable[[Sequence[LaneSending]], Iterable[LaneSent]]
"""Sends lanes, each in a task of its own; returns when all are sent, raises when one could not be."""

_FENCED_AT_ONCE = 16
_SURVEYED_AT_ONCE = 4
_BATCH_BYTES = 1_000_000
"""librdkafka's own default of ``batch.size``."""


def in_process(lanes: Sequence[LaneSending]) -> list[LaneSent]:
    """Sends one lane after the other, in this process."""
    return [lane.send() for lane in lanes]


@dataclass(frozen=True, slots=True)
class KafkaDispatcher:
    """Publishes to topics of a Kafka cluster.

    ``job`` names the topic of the tokens.  ``owner`` is whose progress it is: the job of a
    ``publish``, the run of a replay or of a journal that is sent to a further sink.  ``lanes`` is the
    greatest number of lanes that the owner ever used.  ``lineage`` are the runs of a ``publish``,
    which the tokens are compared with; with ``recovery`` it takes the place of another journal.
    """

    options: KafkaOptions
    job: str
    owner: str
    lanes: int
    run_lanes: RunLanes = in_process
    check_lease: Callable[[], None] | None = None
    lineage: Lineage | None = None
    recovery: Recovery | None = None

    @property
    def target(self) -> str:
        """Brokers and topic."""
        return self.options.target

    def check(self, run: str) -> None:  # noqa: ARG002 - one sink takes many runs
        """Refuses settings that librdkafka does not know, brokers that do not answer, topics that
        are missing and not to be made.  Writes nothing.

        Raises:
            SettingsError: Settings are wrong.
            FatalError: A topic is missing, or the brokers refuse the login.
            UnreachableError: The brokers do not answer.
        """
        self.examine()

    def examine(self) -> str:
        """As ``check``; says what was seen."""
        topics = self._examined()
        tokens = self._place.topic
        known = self._known_topics()
        made = topics.missing([*known, tokens])
        seen = ", ".join(name for name in [*known, tokens] if name not in made)
        return "; ".join(
            [
                f"{topics.brokers} broker(s) answer",
                *([f"topics {seen}"] if seen else []),
                *([f"to be made: {', '.join(made)}"] if made else []),
                *([] if known else [f"{self.options.topic} is known with the documents only"]),
            ]
        )

    def prepare(self, run: str) -> None:  # noqa: ARG002 - as in check
        """See ``take_over``."""
        self.take_over()

    def take_over(self) -> None:
        """Makes the topics that are known already, and takes every lane over from older instances.

        Raises:
            PublisherError: As ``check``.
            FatalError: The job's journal cannot have written the tokens.
        """
        topics = self._examined()
        if self.recovery is not None:
            refuse_incomplete(topics, self._document_topics())
        topics.require(self._known_topics())
        topics.require_tokens(self._place.topic, self.lanes)
        lanes = self.lanes
        if self.recovery is not None:  # the journal that knew their number was lost
            lanes = max(lanes, topics.partitions[self._place.topic])
        if self.options.exactly_once:
            with ThreadPoolExecutor(_FENCED_AT_ONCE) as pool:
                letters = [LANE] if self.options.dead_letter_topic else []
                list(pool.map(self._fence, [*range(lanes), *letters]))
        if self.lineage is not None and self.recovery is None:
            refuse_foreign_tokens(self.options, self.job, self.lineage, wait=True)

    def dispatched(self, manifest: Manifest) -> bool:
        """Whether the sink has the run wholly, as its tokens say."""
        return self._has_all(self._tokens(KafkaTopics.of(self._clients), [0]), manifest)

    def refusals(self, journal: Journal) -> Sequence[Refusal]:
        """The documents that are too large, as the dispatch record has them."""
        record = read_record(journal.root, self._sink)
        return record.refusals if record is not None else ()

    def forget(self) -> None:
        """Takes the tokens away, so that everything is sent once more."""
        place = self._place
        topics = KafkaTopics.of(self._clients)
        count = topics.partitions.get(place.topic, 0)
        found = self._tokens(topics, range(count))
        lanes = [key for lane in range(count) if (key := (lane, place.key(lane)))[1] in found]
        if found:
            gone = dict.fromkeys([(0, place.key(WHOLE)), (0, place.key(LANE)), *lanes])
            write_tokens(self._clients, place.topic, gone)

    def discard(self) -> None:
        """Nothing of a run is in the sink before it is planned."""

    def dispatch(self, journal: Journal, manifest: Manifest, report: RunReport) -> None:
        """Sends what the sink does not have yet, lane by lane; then notes that it has the run.

        Raises:
            FatalError: A file of the journal or a topic is missing, the sink refuses records, or it
                has progress of another journal.
            UnreachableError: The brokers do not answer.
        """
        journal.complete(manifest)
        topics = KafkaTopics.of(self._clients)
        if self.recovery is not None:
            names = topics_of(self._lanes(journal, manifest))
            self.recovery.mark(topics, names, journal, manifest)
            self.claim_tokens(Token(manifest.identity, manifest.run, manifest.plan, 0))
        tokens = self._tokens(topics, range(max(manifest.lanes, 1)))
        self._refuse_conflicts(tokens, manifest)
        if not self._has_all(tokens, manifest):
            self._send(journal, manifest, topics, tokens)
        refusals = self.refusals(journal)
        write_durably(journal.root / RUN, run_json(manifest, joined(report, refusals)))

    def claim_tokens(self, begin: Token) -> None:
        """Replaces all tokens but those of one run, which ``begin`` has not sent anything of: a lost
        journal has left them.

        Raises:
            FatalError: A newer instance of the job works.
            UnreachableError: The brokers do not answer.
        """
        place, topics = self._place, KafkaTopics.of(self._clients)
        tokens = self._tokens(topics, range(topics.partitions.get(place.topic, 0)))
        # none of a lane is only taken away: should this journal be lost, too, they must say so
        claimed = {
            (place.partition_of(key), key): None if key == place.key(WHOLE) else begin
            for key, token in tokens.items()
            if not token.is_of(begin.identity, begin.run, begin.plan)
        }
        if self.check_lease is not None:
            self.check_lease()
        if claimed:
            write_tokens(self._clients, place.topic, claimed)

    def _send(
        self,
        journal: Journal,
        manifest: Manifest,
        topics: KafkaTopics,
        tokens: Mapping[bytes, Token],
    ) -> None:
        place, identity, plan = self._place, manifest.identity, manifest.plan
        topics.require_tokens(place.topic, max(self.lanes, manifest.lanes))
        lanes = self._lanes(journal, manifest)
        record = read_record(journal.root, self._sink)
        begun = any(token.is_of(identity, manifest.run, plan) for token in tokens.values())
        if record is None or record.plan != plan or not begun:
            record = self._survey(topics, lanes, manifest)
            record.write(journal.root, self._sink)
        else:
            topics.require(record.topics)
        totals = {result.lane: result.documents for result in manifest.results}
        sendings = [self._sending(lane, totals[lane.lane], record, identity) for lane in lanes]
        self.run_lanes([s for s in sendings if s.is_due(tokens.get(place.key(s.lane)))])
        _write_rejects(journal, manifest, record.refusals)
        self._send_rejects(topics, journal, record, identity)
        if self.check_lease is not None:
            self.check_lease()
        whole = Token(identity, manifest.run, plan, sum(totals.values()))
        write_tokens(self._clients, place.topic, {(0, place.key(WHOLE)): whole})

    def _send_rejects(
        self, topics: KafkaTopics, journal: Journal, record: DispatchRecord, identity: str
    ) -> None:
        """Rejected records go to the dead-letter topic, where there is one."""
        name = self.options.dead_letter_topic
        if name is None:
            return
        topics.require([name])
        limit = min(limits_of(topics, {name})[name], record.document_bytes)
        recovered = (journal.root / RECOVERY).exists()
        letters = DeadLetters(journal.root / REJECTS, name, limit, recovered=recovered)
        count = letters.count()
        if count:
            self._sending(letters, count, record, identity).send()

    def _survey(
        self, topics: KafkaTopics, lanes: Sequence[LaneDocuments], manifest: Manifest
    ) -> DispatchRecord:
        named = topics_of(lanes)
        unusable = {}
        if TopicTemplate(self.options.topic).fields:
            letters = self.options.dead_letter_topic
            own = [self._place.topic, *([letters] if letters else [])]
            unusable = unusable_topics(named, topics.partitions, own)
        names = named - unusable.keys()
        topics.require(names)
        limits = limits_of(topics, names)
        if any(lane.recovered for lane in lanes):
            limits = {name: limit - RECOVERED_BYTES for name, limit in limits.items()}
        with ThreadPoolExecutor(_SURVEYED_AT_ONCE) as pool:
            found = list(pool.map(lambda lane: list(refusals(lane, limits, unusable)), lanes))
        return DispatchRecord(
            run=manifest.run,
            plan=manifest.plan,
            target=self.target,
            topics=tuple(sorted(names)),
            batch_bytes=min(limits.values(), default=_BATCH_BYTES),
            document_bytes=max(limits.values(), default=_BATCH_BYTES),
            refusals=tuple(refusal for lane in found for refusal in lane),
        )

    def _lanes(self, journal: Journal, manifest: Manifest) -> list[LaneDocuments]:
        """The lanes that have documents."""
        recovered = read_recovery(journal.root, manifest)
        return [
            LaneDocuments(
                lane=result.lane,
                root=journal.root.absolute(),
                documents=journal.documents(manifest),
                sources=tuple(source.name for source in manifest.sources),
                template=TopicTemplate(self.options.topic),
                recovered=frozenset() if recovered is None else recovered.of_lane(result.lane),
            )
            for result in manifest.results
            if result.documents
        ]

    def _sending(
        self, lane: LaneDocuments | DeadLetters, total: int, record: DispatchRecord, identity: str
    ) -> LaneSending:
        return LaneSending(
            documents=lane,
            options=self.options,
            place=self._place,
            identity=identity,
            run=record.run,
            plan=record.plan,
            total=total,
            refused=record.of_lane(lane.lane) if isinstance(lane.lane, int) else frozenset(),
            limits=_limits(self.options, record),
            check_lease=self.check_lease,
        )

    def _examined(self) -> KafkaTopics:
        self._clients.judge()
        topics = KafkaTopics.of(self._clients)
        topics.refuse_replication()
        if not self.options.create_topics:
            topics.require(self._known_topics())
        if self._place.topic in topics.partitions:
            topics.refuse_forgetful(self._place.topic)
        return topics

    def _known_topics(self) -> list[str]:
        """The topics that are known without documents."""
        letters = self.options.dead_letter_topic
        return self._document_topics() + ([letters] if letters else [])

    def _document_topics(self) -> list[str]:
        template = TopicTemplate(self.options.topic)
        return [] if template.fields else [template.text]

    def _has_all(self, tokens: Mapping[bytes, Token], manifest: Manifest) -> bool:
        whole = tokens.get(self._place.key(WHOLE))
        return whole is not None and whole.is_of(manifest.identity, manifest.run, manifest.plan)

    def _refuse_conflicts(self, tokens: Mapping[bytes, Token], manifest: Manifest) -> None:
        of_job = self.lineage is not None
        for token in tokens.values():
            problem = token.find_conflict(manifest.identity, manifest.run, manifest.plan)
            if problem is not None:
                raise FatalError(conflict_message(self._place, problem, of_job=of_job))

    def _tokens(self, topics: KafkaTopics, partitions: Iterable[int]) -> dict[bytes, Token]:
        there = topics.partitions.get(self._place.topic, 0)
        wanted = [number for number in partitions if number < there]
        return read_tokens(self._clients, self._place, wanted) if wanted else {}

    def _fence(self, lane: int | str) -> None:
        clients = self._clients
        producer = clients.producer({"transactional.id": self._place.transactional_id(lane)})
        with clients.errors(f"taking over lane {lane} of {self.owner}"):
            initialised(producer, self._place.topic, self.options.timeout)
        producer.close()

    @property
    def _clients(self) -> KafkaClients:
        return KafkaClients(self.options)

    @property
    def _place(self) -> TokenPlace:
        return TokenPlace(self.options.tokens_of(self.job), self.owner, self.options.topic)

    @property
    def _sink(self) -> str:
        """Tells sinks of a journal apart; brokers may be named in several ways."""
        return f"{self.owner} {self.target}"


def _limits(options: KafkaOptions, record: DispatchRecord) -> tuple[tuple[str, int], ...]:
    """Settings of the producer: no batch that a topic refuses, and room for the largest document."""
    given = int(options.kafka.get("batch.size", _BATCH_BYTES))
    # librdkafka counts a message's headers more generously than brokers do
    greatest = min(record.document_bytes + 1_024, GREATEST_MESSAGE)
    return (
        ("batch.size", min(given, record.batch_bytes)),
        ("message.max.bytes", greatest),
        ("queue.buffering.max.kbytes", max(65_536, 2 * record.document_bytes // 1_024)),
    )


def _write_rejects(journal: Journal, manifest: Manifest, refused: Sequence[Refusal]) -> None:
    """Rejected records, then documents that the sink refuses."""
    path = journal.root / REJECTS
    staged = path.with_name(f"{REJECTS}.new")
    with staged.open("w", encoding="utf-8", newline="\n") as file:
        for entry in chain(rejects(journal, manifest), map(_reject, refused)):
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    make_private(staged)
    staged.replace(path)
    sync_folder(path.parent)


def _reject(refusal: Refusal) -> dict[str, Any]:
    return {
        "source": refusal.source,
        "position": refusal.position,
        "file": None,
        "record": None,
        "reason": refusal.reason,
        "detail": refusal.detail,
        "raw": None,
        "records": refusal.records,
    }
