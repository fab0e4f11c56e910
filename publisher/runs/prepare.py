"""The request of a run, and what is opened for it: sources, splits, what the run before has left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from publisher.config.settings import Settings, SourceSettings
from publisher.engine.contract import Engine
from publisher.engine.survey import survey_sources
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
    """A requested run.

    ``clock`` is its now, in microseconds since 1970-01-01 UTC; ``directory`` is for its documents.
    ``check_lease`` is called before each visible step, and raises if another instance of the job has
    taken over; ``splits`` is the approximate number of parts to read."""

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
    """Folders that the previous run left for the sources that carry over, by name; ``None`` if no source
    carries over, as in a replay."""
    number: int = 1
    """Number of the run in its job."""
    job_identity: str | None = None
    """Identity of the job's journal directory; ``None`` for a replay."""
    migration: Migration | None = None
    """Rows of compared tables to publish as new; ``None`` publishes their differences."""
    reported: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """See ``RemembersRejects``, by the names of sources."""
    is_repetition: Callable[[Manifest], bool] | None = None
    """Returns whether a planned run found only rows that earlier runs left; such a run is not kept."""
    by_rows: bool = False
    """See ``CarryOver``."""

    def carry_over(self, source: str) -> CarryOver | None:
        """Folders of a source: of the previous run to read, and for the next run to write."""
        if self.state is None:
            return None
        before, after = self.state.get(source), self.journal.new_state(source)
        return CarryOver(before, after, self.clock, source, self.by_rows)

    def carries(self, source: str, split: AnySplit) -> bool:
        """Returns whether a split has records that the previous run carried over."""
        before = (self.state or {}).get(source)
        if before is None or not isinstance(split, Split):
            return False
        return Path(split.path).is_relative_to(before)


def prepare_work(request: RunRequest, engine: Engine, stack: ExitStack) -> Work:
    """Prepares the work of the tasks; ``stack`` keeps their inputs open until they have ended.

    The engine surveys and compares now; sources write what the next run needs of the surveys.
    """
    work = survey_sources(_work(request, engine, stack), engine.survey)
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
            for source, reader, splits in _open_sources(request, engine, stack)
        ),
        rules=settings.rules,
        lanes=settings.run.lanes,
        clock=request.clock,
        ids=request.journal.staging / "ids",
    )


def _open_sources(
    request: RunRequest, engine: Engine, stack: ExitStack
) -> Iterator[tuple[SourceSettings, AnySource, tuple[AnySplit, ...]]]:
    for source in request.settings.sources:
        if source.table is None:
            reader = source.reader
            if isinstance(reader, Triggerless):
                yield source, reader, _compare_tables(request, source, reader, engine)
            else:
                yield source, reader, _splits_of(request, source, reader)
        else:
            live = source.live
            if isinstance(live, RemembersRejects):
                live = live.with_known_rejects(request.reported.get(source.name, frozenset()))
            with Resources(request.settings.rules) as resources:
                asking = with_catalogue(live, resources.catalogue)
                splits = stack.enter_context(
                    asking.open_splits(request.splits, request.carry_over(source.name))
                )
            yield source, live, splits


def _compare_tables(
    request: RunRequest, source: SourceSettings, reader: Triggerless, engine: Engine
) -> tuple[Split, ...]:
    """Compares tables in the engine; returns the splits of their differences."""
    if not source.reads:
        return ()
    with Resources(request.settings.rules) as resources:
        comparison = ComparisonContext(
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
            source.snapshots, comparison, engine.compare, database=source.database, text_of=text_of
        )


def _splits_of(request: RunRequest, source: SourceSettings, reader: Source) -> tuple[Split, ...]:
    if not source.snapshots and not source.resumes:
        return ()
    carry_over = request.carry_over(source.name)
    with Resources(request.settings.rules) as resources:
        asking = with_catalogue(reader, resources.catalogue)
        if carry_over is None or not isinstance(asking, CarriesOver):
            return tuple(asking.splits(source.snapshots, request.splits))
        return tuple(asking.splits_after(source.snapshots, request.splits, carry_over))


def _leave_states(request: RunRequest, work: Work) -> None:
    """Writes the findings of surveys that the next run needs."""
    for source in work.sources:
        carry_over = request.carry_over(source.name)
        if carry_over is not None and source.splits and isinstance(source.source, Surveyed):
            source.source.leave(
                [s for s in source.splits if isinstance(s, Split)], carry_over.after
            )
