"""Sink of a job: its dispatcher for each run, and the comparison of its progress with the ledger."""

# ruff: noqa: PLC0415 - the Kafka client and states of objects are loaded only where they are needed

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from publisher.config.settings import Settings
from publisher.console import Progress
from publisher.dispatch.contract import Dispatcher
from publisher.dispatch.files import FileDispatcher, refuse_foreign_runs
from publisher.dispatch.kafka.topic_template import TopicTemplate
from publisher.engine.contract import Engine
from publisher.ledger.instance import Epoch
from publisher.ledger.job import DOCUMENTS, RUNS, Ledger
from publisher.runs.lane_sending import LaneSending
from publisher.xds.document import Envelope, converter_of

if TYPE_CHECKING:
    from publisher.dispatch.kafka.dispatcher import KafkaDispatcher
    from publisher.dispatch.kafka.session import KafkaSession
    from publisher.dispatch.kafka.topic_admin import KafkaTopics
    from publisher.ledger.stored_states import StoredStates


def runs_folder(settings: Settings) -> Path:
    """The folder of the runs in a directory that is the sink of a job."""
    assert settings.sink.path is not None  # for_publish checks it
    return settings.sink.path.absolute() / RUNS


def sink_name(settings: Settings) -> str:
    """The sink of a job, as users name it."""
    return str(settings.sink.path) if settings.sink.to == "files" else settings.kafka.target


def refuse_foreign_progress(settings: Settings, ledger: Ledger) -> KafkaTopics | None:
    """Refuses a sink whose progress does not fit the ledger.  Writes nothing.

    Call it before older instances are stopped: one of them may be the right one.  Returns the topics of the
    cluster that it has requested, ``None`` if the sink is a directory.

    Raises:
        FatalError: The sink has progress of another ledger or of newer runs, or a recovery was
            interrupted.
        UnreachableError: The sink does not answer.
    """
    ledger.refuse_interrupted_recovery()
    if settings.sink.to == "files":
        refuse_foreign_runs(runs_folder(settings), ledger)
        return None
    from publisher.dispatch.kafka.client import KafkaClients
    from publisher.dispatch.kafka.compare_tokens import refuse_foreign_tokens
    from publisher.dispatch.kafka.topic_admin import KafkaTopics

    topics = KafkaTopics.of(KafkaClients(settings.kafka))
    refuse_foreign_tokens(settings.kafka, settings.name, ledger, topics)
    return topics


def check_sink(settings: Settings, *, recovers: bool = False) -> str:
    """Checks the settings and topics of a sink, and describes them.  Writes nothing.

    With ``recovers``, topics that have lost records are refused.

    Raises:
        SettingsError: Settings of librdkafka are wrong.
        FatalError: A topic is missing, or the brokers refuse the login.
        UnreachableError: The brokers do not answer.
    """
    if settings.sink.to == "files":
        return sink_name(settings)
    return read_only_kafka(settings, recovers=recovers).examine()


def read_only_dispatcher(settings: Settings, ledger: Ledger, run: str) -> Dispatcher:
    """Returns a dispatcher for questions about a run; it has prepared and taken over nothing."""
    if settings.sink.to == "files":
        return FileDispatcher(runs_folder(settings) / run, ledger)
    return read_only_kafka(settings)


def read_only_kafka(settings: Settings, *, recovers: bool = False) -> KafkaDispatcher:
    """Returns a dispatcher for questions about a topic; it has taken over nothing."""
    from publisher.dispatch.kafka.dispatcher import KafkaDispatcher

    dispatcher = KafkaDispatcher(
        settings.kafka, settings.name, owner=settings.name, lanes=settings.run.lane_count
    )
    if not recovers:
        return dispatcher
    from publisher.dispatch.kafka.recovery import Recovery

    record_ids = {source.name: source.record_id for source in settings.sources}
    return replace(dispatcher, recovery=Recovery(record_ids))


def stored_objects(settings: Settings, ledger: Ledger, number: int) -> StoredStates | None:
    """Reads the published states of objects before the run ``number`` of a job; ``None`` if it keeps none.

    Raises ``FatalError`` if they are damaged."""
    if not settings.documents.minimal:
        return None
    from publisher.ledger.stored_states import read_stored_states

    is_topic = settings.sink.to == "kafka"
    by_source = is_topic and "source" in TopicTemplate(settings.kafka.topic).fields
    return read_stored_states(ledger, number, sink_name(settings), by_source=by_source)


@dataclass(frozen=True)
class JobSink:
    """The sink of one instance of a job.

    ``lanes`` is the greatest number of lanes that the job ever used.  With ``recovers``, runs replace
    those of a lost ledger (see ``recover``)."""

    settings: Settings
    ledger: Ledger
    engine: Engine
    epoch: Epoch
    lanes: int
    recovers: bool = False
    progress: Progress | None = None

    @property
    def is_files(self) -> bool:
        """Returns whether the sink is a directory."""
        return self.settings.sink.to == "files"

    @property
    def target(self) -> str:
        """The sink, as users name it."""
        return sink_name(self.settings)

    def directory(self, run: str) -> Path:
        """Folder for the documents of a run."""
        if not self.is_files:
            return self.ledger.run(run).root / DOCUMENTS
        return runs_folder(self.settings) / run

    def stored_objects(self, number: int) -> StoredStates | None:
        """Reads the published states of objects before the run ``number``; ``None`` if the job keeps none.

        Raises ``FatalError`` if they are damaged."""
        objects = stored_objects(self.settings, self.ledger, number)
        if objects is None:
            return None
        if not self.is_files:
            objects = replace(objects, limit=self.kafka().document_limit())
        return objects.forget() if self.recovers else objects

    def dispatcher(self, run: str) -> Dispatcher:
        """Returns the dispatcher for a run; ``take_over`` must have prepared the topics."""
        if not self.is_files:
            return self.kafka()
        dispatcher = FileDispatcher(self.directory(run), self.ledger)
        dispatcher.prepare(run)
        return dispatcher

    def take_over(self, topics: KafkaTopics | None) -> None:
        """Takes the lanes of a topic over from older instances, and creates the known topics.

        ``topics`` are those of ``refuse_foreign_progress``, if it was called."""
        if not self.is_files:
            self.kafka().take_over(topics)

    def discard(self, run: str) -> None:
        """Removes the sink's files of a run that was never planned completely."""
        if self.is_files:
            FileDispatcher(self.directory(run)).discard()

    def heartbeat(self) -> None:
        """Sends a document without operations if the sink is a topic."""
        if not self.is_files:
            self.epoch()
            document = Envelope(self.settings.envelope).document(())
            convert = converter_of(self.settings.documents.value_format)
            from publisher.dispatch.kafka.heartbeat import send_heartbeat

            text = document if convert is None else convert(document)
            send_heartbeat(self.settings.kafka, self.settings.name, text)

    def claim_tokens(self) -> None:
        """Writes tokens of this ledger to the topic when there is no run to send."""
        if self.is_files:
            return
        from publisher.dispatch.kafka.progress_tokens import Token

        last = self.ledger.last_run()
        epochs = self.ledger.epochs().numbers()
        self.kafka().claim_tokens(Token(self.epoch.identity, last, "", 0, epochs=epochs))

    def kafka(self) -> KafkaDispatcher:
        """The dispatcher of a topic."""
        return replace(
            read_only_kafka(self.settings, recovers=self.recovers),
            lanes=self.lanes,
            run_lanes=self.sending,
            check_lease=self.epoch,
            ledger=self.ledger,
            session=self._kafka_session,
        )

    def close(self) -> None:
        """Closes the connections to a topic."""
        if not self.is_files:
            self._kafka_session.forget()

    @cached_property
    def sending(self) -> LaneSending:
        """Sends the lanes of a topic."""
        return LaneSending(self.engine, self.progress)

    @cached_property
    def _kafka_session(self) -> KafkaSession:
        from publisher.dispatch.kafka.session import KafkaSession

        # recovery replaces tokens
        return KafkaSession(keeps=not self.recovers)
