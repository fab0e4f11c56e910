"""Plans runs of a job so that no event id names two documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from publisher.console import Progress
from publisher.engine.contract import Engine
from publisher.ledger.event_ids import SourceEpoch
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.published_ids import PublishedIds, find_shared_positions
from publisher.ledger.runs import LedgerRun
from publisher.model.event_ids import IdOrigin
from publisher.runs.acknowledge import SentRun
from publisher.runs.execute import plan_and_send
from publisher.runs.job_sink import JobSink
from publisher.runs.notes import object_note, with_notes
from publisher.runs.prepare import RunRequest


class NewIds:
    """Gives the sources of a job the origins of their event ids, and the next epoch when they need one."""

    def __init__(self, ledger: Ledger, identity: str) -> None:
        self._ledger = ledger
        self._identity = identity
        self._published = PublishedIds(ledger)
        self._by_object: set[str] = set()
        self._notes: list[str] = []

    def plan_and_send(
        self, request: RunRequest, sink: JobSink, engine: Engine, progress: Progress | None
    ) -> SentRun:
        """Plans a run until its event ids are new, then sends it, see ``execute.plan_and_send``."""
        self._by_object, self._notes = set(), []
        while True:
            dispatcher, tried = sink.dispatcher(request.run), len(self._notes)
            accepts = partial(self._accepts, request.ledger_run, request.number)
            request = replace(
                request,
                origins=self._origins(request),
                epochs=self._ledger.epochs().numbers(),
                check_ids=accepts,
            )
            sent = plan_and_send(request, dispatcher, engine, progress)
            if sent.report.has_ledger:
                return sent._replace(report=with_notes(sent.report, self._notes))
            dispatcher.discard()  # first: the sink must never have a run that the ledger does not know
            self._ledger.discard(request.run)
            if len(self._notes) == tried:
                return sent
            self._ledger.create_run()  # the discarded one again
            greatest = self._ledger.greatest_ids()
            behind = {name: greatest[name] for name in request.behind if name in greatest}
            request = replace(request, behind=behind)

    def _origins(self, request: RunRequest) -> dict[str, IdOrigin]:
        names = [source.name for source in request.settings.sources]
        origins = self._ledger.epochs().origins(self._identity, names)
        return {
            name: origin._replace(by_object=name in self._by_object)
            for name, origin in origins.items()
        }

    def _accepts(self, ledger_run: LedgerRun, number: int, manifest: Manifest) -> bool:
        """Returns whether the event ids of a run are new; otherwise its sources have other origins now."""
        before, epochs = len(self._notes), self._ledger.epochs().read()
        replaced, shared = list[str](), find_shared_positions(ledger_run, manifest)
        for source, entry in enumerate(manifest.sources):
            epoch = epochs.get(entry.name, SourceEpoch())
            if reason := self._reason(ledger_run, manifest, source, epoch):
                epochs[entry.name] = epoch.next(number)
                replaced.append(entry.name)
                self._notes.append(
                    f"event ids of {entry.name} have epoch {epoch.epoch + 1} from now on: {reason}"
                )
            elif source in shared and not entry.origin.by_object:
                self._by_object.add(entry.name)
                self._notes.append(object_note(entry.name))
        if replaced:
            self._ledger.epochs().write(epochs)
            self._ledger.forget_greatest(replaced)
        return len(self._notes) == before

    def _reason(
        self, ledger_run: LedgerRun, manifest: Manifest, source: int, epoch: SourceEpoch
    ) -> str | None:
        entry = manifest.sources[source]
        if None not in (epoch.table, entry.identity) and epoch.table != entry.identity:
            return f"{entry.table} is another table than the one that was read before"
        return self._published.find_conflict(ledger_run, manifest, source, epoch)


def begin_epochs(ledger: Ledger, sources: Iterable[str]) -> None:
    """Gives sources the next epoch after a recovery, which cannot know all ids of the lost ledger."""
    epochs, number = ledger.epochs().read(), ledger.last_number() + 1
    next_epochs = {name: epochs.get(name, SourceEpoch()).next(number) for name in sources}
    ledger.epochs().write(next_epochs)
