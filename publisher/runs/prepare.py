"""The request of a run, and what is opened for it: sources, splits, what the run before has left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from publisher.config.settings import Settings, SourceSettings
from publisher.engine.contract import Engine
from publisher.engine.survey import surveyed
from publisher.engine.tasks import AnySource, AnySplit, Resources, SourceWork, Work
from publisher.journal.manifest import Journal, Manifest
from publisher.planning.filters import Window
from publisher.sources.contract import (
    CarriesOver,
    CarryOver,
    RemembersRejects,
    Source,
    Surveyed,
    with_catalogue,
)
from publisher.sources.files.file_splits import Split
from publisher.sources.triggerless.plan_comparison import ComparisonContext, Migration
from publisher.sources.triggerless.source import Triggerless
from publisher.xds.values import text_of

SPLITS = 8
"""Parts to read, about: so that all cores have work."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that is to be done.  ``clock`` is its now, in microseconds since 1970-01-01 UTC;
    ``directory`` is where its documents go.  ``check_lease`` is called before what others see, and
    raises where another instance of the job has taken over; ``splits`` is how many parts are read, about."""

    run: str
    settings: Settings
    clock: int
    journal: Journal
    directory: Path
    window: Window | None = None
    check_lease: Callable[[], None] | None = None
    behind: Mapping[str, int] = field(default_factory=dict)
    """See ``Manifest``."""
    splits: int = SPLITS
    state: Mapping[str, Path] | None = None
    """Folders of what the run before has left, by the names of the sources that have such; ``None``
    where sources keep nothing from run to run, as of a replay."""
    number: int = 1
    """Of the run among those of the job."""
    job_identity: str | None = None
    """That of the job's journal directory; ``None`` for a replay."""
    migration: Migration | None = None
    """Rows that are published as new, where sources compare tables; else their differences are."""
    reported: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """See ``RemembersRejects``, by the names of sources."""
    is_repetition: Callable[[Manifest], bool] | None = None
    """Says whether a planned run has found nothing that earlier runs have not left; it is not kept."""
    by_rows: bool = False
    """See ``CarryOver``."""

    def kept(self, source: str) -> CarryOver | None:
        """What a source goes on with, and where it keeps what the next run is to go on with."""
        if self.state is None:
            return None
        before, after = self.state.get(source), self.journal.new_state(source)
        return CarryOver(before, after, self.clock, source, self.by_rows)

    def was_held(self, source: str, split: AnySplit) -> bool:
        """Whether a split has records that the run before has kept."""
        before = (self.state or {}).get(source)
        if before is None or not isinstance(split, Split):
            return False
        return Path(split.path).is_relative_to(before)


def prepare_work(request: RunRequest, engine: Engine, stack: ExitStack) -> Work:
    """What the tasks of a run do; ``stack`` keeps open what they read from until they have ended.

    What sources have to find out before, a survey or a comparison, the engine does now; what they
    leave for the next run is written as far as it follows from that.
    """
    work = surveyed(_work(request, engine, stack), engine.survey)
    _leave_states(request, work)
    return work


def _work(request: RunRequest, engine: Engine, stack: ExitStack) -> Work:
    settings = request.settings
    return Work(
        sources=tuple(
            SourceWork(
                name=source.name,
                source=reader,
                splits=splits,
                filters=source.filters,
                polls=source.polls,
                identifier_case=source.options.identifier_case,
                window=request.window,
            )
            for source, reader, splits in _opened(request, engine, stack)
        ),
        rules=settings.rules,
        lanes=settings.run.lanes,
        clock=request.clock,
        ids=request.journal.staging / "ids",
    )


def _opened(
    request: RunRequest, engine: Engine, stack: ExitStack
) -> Iterator[tuple[SourceSettings, AnySource, tuple[AnySplit, ...]]]:
    for source in request.settings.sources:
        if source.table is None:
            reader = source.reader
            if isinstance(reader, Triggerless):
                yield source, reader, _compared(request, source, reader, engine)
            else:
                yield source, reader, _splits_of(request, source, reader)
        else:
            live = source.live
            if isinstance(live, RemembersRejects):
                live = live.with_known_rejects(request.reported.get(source.name, frozenset()))
            with Resources(request.settings.rules) as resources:
                asking = with_catalogue(live, resources.catalogue)
                splits = stack.enter_context(
                    asking.open_splits(request.splits, request.kept(source.name))
                )
            yield source, live, splits


def _compared(
    request: RunRequest, source: SourceSettings, reader: Triggerless, engine: Engine
) -> tuple[Split, ...]:
    """What a comparison finds, which the engine does now."""
    if not source.reads:
        return ()
    with Resources(request.settings.rules) as resources:
        given = ComparisonContext(
            catalogue=resources.catalogue,
            target=request.journal.new_state(source.name),
            wanted=request.splits,
            number=request.number,
            state=(request.state or {}).get(source.name),
            keep=request.state is not None,
            clock=request.clock,
            hinted=source.hinted,
            migration=request.migration,
            source=source.name,
            by_rows=request.by_rows,
        )
        return reader.compare_tables(
            source.snapshots, given, engine.compare, database=source.database, text_of=text_of
        )


def _splits_of(request: RunRequest, source: SourceSettings, reader: Source) -> tuple[Split, ...]:
    if not source.snapshots and not source.resumes:
        return ()
    kept = request.kept(source.name)
    with Resources(request.settings.rules) as resources:
        asking = with_catalogue(reader, resources.catalogue)
        if kept is None or not isinstance(asking, CarriesOver):
            return tuple(asking.splits(source.snapshots, request.splits))
        return tuple(asking.splits_after(source.snapshots, request.splits, kept))


def _leave_states(request: RunRequest, work: Work) -> None:
    """What sources found in their surveys, for the next run."""
    for source in work.sources:
        kept = request.kept(source.name)
        if kept is not None and source.splits and isinstance(source.source, Surveyed):
            source.source.leave([s for s in source.splits if isinstance(s, Split)], kept.after)
