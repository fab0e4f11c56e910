"""Sends one run to its topics: surveys its documents, sends the lanes, writes the tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from publisher.dispatch.files import REJECTS, write_ledger_rejects
from publisher.dispatch.kafka.dead_letters import DeadLetters
from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
from publisher.dispatch.kafka.options import KafkaOptions
from publisher.dispatch.kafka.progress_tokens import WHOLE, Token, TokenPlace
from publisher.dispatch.kafka.records import LaneDocuments
from publisher.dispatch.kafka.session import KafkaSession
from publisher.dispatch.kafka.size_limits import limits_of, producer_limits, survey_run
from publisher.dispatch.kafka.topic_admin import KafkaTopics
from publisher.dispatch.kafka.topic_ids import refuse_replaced
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.dispatch.refusals import DispatchRecord, Refusal, read_record
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.recovery import RECOVERY, read_recovery
from publisher.ledger.runs import LedgerRun


def document_lanes(
    options: KafkaOptions, ledger_run: LedgerRun, manifest: Manifest
) -> list[LaneDocuments]:
    """Returns the lanes of a run that have documents."""
    recovered = read_recovery(ledger_run, manifest)
    return [
        LaneDocuments(
            rows=rows,
            sources=tuple(source.name for source in manifest.sources),
            template=TopicTemplate(options.topic),
            reasons=tuple(source.reason for source in manifest.sources),
            id_prefixes=tuple(each.origin.length(each.name) for each in manifest.sources),
            recovered=frozenset() if recovered is None else recovered.of_lane(rows.lane),
        )
        for rows, result in zip(ledger_run.lanes(manifest), manifest.results, strict=True)
        if result.documents
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSender:
    """Sends the documents of one run that its topics do not have.

    ``sink`` identifies the sink in the ledger; ``tokens`` are those of the run's lanes.  For the other
    fields see ``KafkaDispatcher``."""

    options: KafkaOptions
    place: TokenPlace
    sink: str
    run_lanes: Callable[[Sequence[LaneSendTask]], Iterable[LaneSendReport]]
    check_lease: Callable[[], None] | None
    session: KafkaSession
    ledger_run: LedgerRun
    manifest: Manifest
    topics: KafkaTopics
    tokens: Mapping[bytes, Token]
    job: Ledger | None
    """The ledger of the job; ``None`` without a job."""

    def send(self, lanes: int) -> Sequence[Refusal]:
        """Sends the missing documents; returns those that the sink refuses.

        ``lanes`` is the greatest number of lanes that the owner of the progress ever used."""
        place, manifest = self.place, self.manifest
        self.topics.require_tokens(place.topic, max(lanes, manifest.lanes))
        documents = document_lanes(self.options, self.ledger_run, manifest)
        record = self._record(documents)
        self.topics.refuse_compaction(record.topics)
        if self.job is not None:
            refuse_replaced(self.topics, self.job, record.topics)
        totals = {result.lane: result.documents for result in manifest.results}
        tasks = [self._task(lane, totals[lane.lane], record) for lane in documents]
        pending = [t for t in tasks if t.is_pending(self.tokens.get(place.key(t.lane)))]
        write_ledger_rejects(self.ledger_run, manifest, record.refusals)
        whole = Token(
            manifest.identity,
            manifest.run,
            manifest.plan,
            sum(totals.values()),
            epochs=manifest.epochs,
        )
        completes = self._completes_run(pending)
        if completes:
            pending = [replace(pending[0], whole=whole)]
        self.run_lanes(pending)
        for task in pending:
            self.session.note(task)
        if not completes:
            self._send_rejects(record)
            if self.check_lease is not None:
                self.check_lease()
            written = {(0, place.key(WHOLE)): whole}
            self.session.write_tokens(self.topics.clients, place.topic, written)
        return record.refusals

    def _record(self, lanes: Sequence[LaneDocuments]) -> DispatchRecord:
        """The dispatch record of the run; surveys the run unless it has begun with a record."""
        place, manifest, tokens = self.place, self.manifest, self.tokens
        whose = (manifest.identity, manifest.run, manifest.plan)
        record = read_record(self.ledger_run, self.sink)
        has_begun = any(token.is_of(*whose) for token in tokens.values())
        if record is not None and record.plan == manifest.plan and has_begun:
            self.topics.require(record.topics)
            return record
        # a record of the documents before would exist if the sink refused any
        begun = {t.lane: tokens[key] for t in lanes if (key := place.key(t.lane)) in tokens}
        sent = {n: t.sent for n, t in begun.items() if t.is_of(*whose)}
        record = survey_run(self.options, place.topic, self.topics, lanes, manifest, sent)
        record.write(self.ledger_run, self.sink)
        return record

    def _completes_run(self, pending: Sequence[LaneSendTask]) -> bool:
        """Returns whether a transaction of lane 0, which shares a partition with the run, completes it."""
        has_letters = self.options.dead_letter_topic and (self.ledger_run.root / REJECTS).exists()
        is_single = [task.lane for task in pending] == [0]
        return is_single and not has_letters

    def _send_rejects(self, record: DispatchRecord) -> None:
        """Sends rejected records to the dead-letter topic, if there is one."""
        if (name := self.options.dead_letter_topic) is None:
            return
        self.topics.require([name])
        limit = min(limits_of(self.topics, {name})[name], record.document_bytes)
        root = self.ledger_run.root
        recovered = RECOVERY in self.ledger_run.texts()
        prefixes = {each.name: each.origin.prefix(each.name) for each in self.manifest.sources}
        letters = DeadLetters(
            root / REJECTS, name, limit, id_prefixes=prefixes, recovered=recovered
        )
        if count := letters.count():
            task = self._task(letters, count, record)
            task.send()
            self.session.note(task)

    def _task(
        self, lane: LaneDocuments | DeadLetters, total: int, record: DispatchRecord
    ) -> LaneSendTask:
        return LaneSendTask(
            documents=lane,
            options=self.options,
            place=self.place,
            identity=self.manifest.identity,
            epochs=self.manifest.epochs,
            run=record.run,
            plan=record.plan,
            total=total,
            refused=record.of_lane(lane.lane) if isinstance(lane.lane, int) else frozenset(),
            limits=producer_limits(self.options, record),
            check_lease=self.check_lease,
            producers=self.session.producers,
        )
