"""The request of a run, and the preparation of its work: sources, splits and state of the last run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from publisher.config.settings import Settings, SourceSettings
from publisher.database.resources import Resources
from publisher.engine.contract import Engine
from publisher.errors import FileRefusedError
from publisher.formats.contract import (
    AnySplit,
    CarryOver,
    ComparingSource,
    PrepareContext,
    PreparedSource,
    Source,
)
from publisher.formats.files.file_splits import Split
from publisher.formats.work import SourceWork, Work
from publisher.ledger.manifest import RetriedRecord
from publisher.ledger.object_states import StatesBefore
from publisher.ledger.runs import LedgerRun
from publisher.ledger.stored_states import StoredStates
from publisher.model.event_ids import IdOrigin
from publisher.planning.filters import PositionRange
from publisher.runs.source_tasks import EngineTasks
from publisher.xds.document import limit_of_xml

SPLITS = 8
"""Approximate number of parts to read, so that all cores have work."""
SHARED = "shared"
"""Folder in the staging area that all tasks see, see ``Work``."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A requested run.

    ``clock`` is the time of the run in microseconds since 1970-01-01 UTC; ``directory`` is for its documents.
    ``splits`` is the approximate number of parts to read."""

    run: str
    settings: Settings
    clock: int
    ledger_run: LedgerRun
    directory: Path
    window: PositionRange | None = None
    behind: Mapping[str, int] = field(default_factory=dict)
    """See ``Manifest``."""
    splits: int = SPLITS
    state: Mapping[str, Path] | None = None
    """Folders with state of the previous run, by name of the source; ``None`` if sources have no state, as
    in a replay."""
    number: int = 1
    """Number of the run in its job."""
    job_identity: str | None = None
    """Identity of the job's ledger directory; ``None`` for a replay."""
    reported: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """See ``PrepareContext``, by the names of sources."""
    accepts_database: bool = False
    """See ``CarryOver``."""
    retried: tuple[tuple[str, RetriedRecord], ...] = ()
    """The rejected records that are read again, with the name of their source; see ``Manifest``."""
    waiting: int | None = None
    """Number of pending rows of tables; ``None``: not counted."""

    objects: StoredStates | None = None
    """The published states of objects; ``None`` if operations are not reduced to differences."""

    origins: Mapping[str, IdOrigin] = field(default_factory=dict)
    """The origins of event ids, by the names of sources; others have that of the first run."""
    epochs: Mapping[str, int] = field(default_factory=dict)
    """The epochs of the sources of the job, see ``Manifest``."""

    def for_sources(self, retried: Sequence[tuple[str, RetriedRecord]] = ()) -> RunRequest:
        """This request for sources whose input is published in full, whether it is pending or not.

        A run with ``retried`` records changes no state of sources, except of those that compare."""
        if retried:
            return replace(self, retried=tuple(retried))
        return replace(self, objects=self.objects and self.objects.hide())

    def origin_of(self, source: str) -> IdOrigin:
        """The origin of the event ids of a source."""
        return self.origins.get(source) or IdOrigin.of(self.job_identity or self.run, source)

    def state_of(self, source: SourceSettings) -> Mapping[str, Path] | None:
        """The states of sources for one of them; ``None`` if it has none, and leaves none."""
        return None if self.retried and not source.descriptor.compares else self.state

    def carry_over(self, source: SourceSettings) -> CarryOver | None:
        """The folders with the state of a source: from the previous run, and for the next run."""
        states = self.state_of(source)
        if states is None:
            return None
        before, after = states.get(source.name), self.ledger_run.state_folder(source.name)
        return CarryOver(before, after, self.clock, source.name, self.accepts_database)

    def carries(self, source: str, split: AnySplit) -> bool:
        """Returns whether a split has records that the previous run carried over."""
        before = (self.state or {}).get(source)
        if before is None or not isinstance(split, Split):
            return False
        return Path(split.path).is_relative_to(before)


def _states_before(request: RunRequest) -> StatesBefore | None:
    """The published states for the tasks, whose limit is that of documents as they plan them."""
    if request.objects is None:
        return None
    before = request.objects.before()
    if before.limit is None:
        return before
    return replace(
        before, limit=limit_of_xml(request.settings.documents.value_format, before.limit)
    )


def prepare_work(request: RunRequest, engine: Engine, stack: ExitStack) -> Work:
    """Prepares the work of the tasks; ``stack`` keeps the inputs of the tasks open.

    Sources survey and compare their input in tasks of the engine, and write the state for the next run.
    """
    settings = request.settings
    return Work(
        sources=tuple(_source_work(request, source, engine, stack) for source in settings.sources),
        rules=settings.rules,
        lanes=settings.run.lane_count,
        clock=request.clock,
        shared=request.ledger_run.staging / SHARED,
        states=_states_before(request),
    )


def _source_work(
    request: RunRequest, source: SourceSettings, engine: Engine, stack: ExitStack
) -> SourceWork:
    prepared = _prepare(request, source, engine, stack)
    return source_work(source, prepared, request.origin_of(source.name), request.window)


def source_work(
    source: SourceSettings,
    prepared: PreparedSource,
    origin: IdOrigin,
    window: PositionRange | None = None,
) -> SourceWork:
    """Describes the work of tasks on a prepared source."""
    return SourceWork(
        name=source.name,
        source=prepared.source,
        splits=prepared.splits,
        filters=source.filters,
        polls=source.polls,
        identifier_case=source.options.identifier_case,
        window=window,
        notes=prepared.notes,
        refused=prepared.refused,
        waiting=prepared.waiting,
        origin=origin,
    )


def _prepare(
    request: RunRequest, source: SourceSettings, engine: Engine, stack: ExitStack
) -> PreparedSource:
    if not source.reads:
        return PreparedSource(source.reader)
    staged = request.ledger_run.state_folder(source.name)
    with Resources(request.settings.rules) as resources:
        context = replace(
            prepare_context(source, resources, engine, stack, staged, request.splits),
            carry_over=request.carry_over(source),
            number=request.number,
            reported=request.reported.get(source.name, frozenset()),
        )
        return _prepare_fitting_files(source.reader, context)


def prepare_context(
    source: SourceSettings,
    resources: Resources,
    engine: Engine,
    stack: ExitStack,
    staged: Path,
    wanted: int,
) -> PrepareContext:
    """Describes the input of a source that is prepared in tasks of an engine, see ``PrepareContext``."""
    reader = source.reader
    return PrepareContext(
        wanted=wanted,
        catalogue=resources.catalogue_of(reader.format, reader.tables()),
        tasks=EngineTasks(engine, resources.rules, reader),
        stack=stack,
        staged=staged,
        paths=source.snapshots,
        database=source.database,
    )


def _prepare_fitting_files(reader: Source, context: PrepareContext) -> PreparedSource:
    """Prepares a source; a run of a job leaves refused files out.

    In a format with transactions the files behind a refused one wait, because a transaction may continue in
    them."""
    paths = context.paths
    refused: list[Path] = []
    waiting: list[Path] = []
    notes: list[str] = []
    while True:
        try:
            prepared = PreparedSource(reader)
            if paths or not context.paths:
                prepared = reader.prepare(replace(context, paths=paths))
            return replace(
                prepared,
                notes=(*notes, *prepared.notes),
                refused=tuple(refused),
                waiting=tuple(waiting),
            )
        except FileRefusedError as error:
            # a table without its file would lose all its rows
            if context.carry_over is None or isinstance(reader, ComparingSource):
                raise
            place = paths.index(Path(error.path))
            refused.append(paths[place])
            note = f"{error.message}; the file is left out, and read again when it or the settings change"
            behind = paths[place + 1 :]
            if reader.transaction_columns and behind:
                note += f"; {len(behind)} file(s) behind it wait"
                waiting = [*behind, *waiting]
                behind = ()
            notes.append(note)
            paths = (*paths[:place], *behind)
