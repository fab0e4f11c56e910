"""Moves the journals of finished small runs into segments, so that a job has a bounded number of files.

Only finished runs move, and the newest run stays, so nothing that a start after a crash needs is ever in
a segment.  A run is removed after the segment with it is durable: until then it exists twice, and the
next step removes its folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from publisher.errors import FatalError, UsageError
from publisher.journal.job_journals import SECONDS_A_DAY, Journals
from publisher.journal.lock import lock_directory
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.segment_header import SegmentHeader
from publisher.journal.segments import Segment
from publisher.journal.source_state import PUBLISHED_OBJECTS

if TYPE_CHECKING:
    from publisher.journal.segment_files import RunRows

FOLD_AT = 48
"""Number of runs with folders of their own at which the oldest runs move into a segment."""
RUNS_AT_ONCE = 16
SEGMENTS_AT_ONCE = 16
_LARGE = 2


class SegmentSize(NamedTuple):
    """The size of a segment, or its maximum.  ``seconds`` is the time between the ends of its oldest and
    its youngest run."""

    runs: int
    records: int
    bytes: int
    seconds: float

    @classmethod
    def of(cls, headers: Sequence[SegmentHeader]) -> SegmentSize:
        """The size of several segments together."""
        oldest = min(header.oldest for header in headers)
        return cls(
            sum(header.runs for header in headers),
            sum(header.records for header in headers),
            sum(header.bytes for header in headers),
            max(header.youngest for header in headers) - oldest,
        )

    def fits(self, largest: SegmentSize) -> bool:
        """Returns whether no number is greater than in ``largest``."""
        return all(size <= limit for size, limit in zip(self, largest, strict=True))

    def level(self, largest: SegmentSize) -> int:
        """Returns 0, 1 or 2 for a small, medium or large segment.  Only segments of one level are merged,
        so that each run is written at most three times."""
        share = max(size / limit for size, limit in zip(self, largest, strict=True))
        return _LARGE if share >= 1 / 2 else 1 if share >= 1 / 32 else 0


LARGEST = SegmentSize(8_192, 500_000, 1 << 28, 3_600.0)
"""Maximum size.  A segment expires as a whole, so its runs must have ended within a short time."""
RECORDS_OF_RUN, BYTES_OF_RUN = 20_000, 1 << 23
"""Maximum size of a run that moves into a segment."""


class FinishedRun(NamedTuple):
    """A finished run with a folder of its own."""

    number: int
    manifest: Manifest
    rows: RunRows


def is_suitable(manifest: Manifest) -> bool:
    """Returns whether a run is small and read only live tables.

    Other runs may have states with records that ``explain`` shows, and marks of files that must stay in the
    order of the runs."""
    size = sum(result.bytes for result in manifest.results)
    tables = {source.name for source in manifest.sources if source.table is not None}
    return (
        manifest.records_read <= RECORDS_OF_RUN
        and size <= BYTES_OF_RUN
        and not any(source.files for source in manifest.sources)
        and {*tables, PUBLISHED_OBJECTS}.issuperset(manifest.states)
    )


class Folding:
    """Moves the finished runs of one job into segments."""

    def __init__(
        self,
        journals: Journals,
        check_lease: Callable[[], None],
        largest: SegmentSize = LARGEST,
        least: int = FOLD_AT - 1,
    ) -> None:
        """``check_lease`` raises if a newer instance of the job has begun; none can begin during a step.
        Runs move if there are at least ``least``."""
        self._journals = journals
        self._least = least
        self._segments = journals.segments
        self._check_lease = check_lease
        self._largest = largest
        self._unsuitable: set[int] = set()
        """Numbers of finished runs that stay in their own folders."""

    def step(self) -> bool:
        """Moves some runs, or merges some segments; returns false if there are too few of both."""
        with self._exclusively():
            return self._remove_copies() or self._merge() or self._fold()

    def expire(self, *, days: float, runs: int | None) -> None:
        """Removes segments whose runs all ended more than ``days`` ago, and the oldest ones while there
        are more than ``runs`` finished runs."""
        with self._exclusively():
            headers = [(segment, segment.header()) for segment in self._segments.current()]
            count = sum(header.runs for _, header in headers) + self._journals.count_finished_runs()
            for segment, header in headers:
                is_old = time.time() - header.youngest > days * SECONDS_A_DAY
                if is_old or (runs is not None and count > runs):
                    self._segments.remove(segment)
                    count -= header.runs

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Keeps newer instances from beginning, and removes what a crash has left."""
        with lock_directory(self._journals.root, wait=True):
            self._check_lease()
            self._segments.remove_remains()
            yield

    def _remove_copies(self) -> bool:
        """Removes runs that are in the newest segment: a crash came before their removal."""
        segments = self._segments.current()
        if not segments:
            return False
        newest = segments[-1]
        numbers = [n for n in self._journals.numbers() if newest.first <= n <= newest.last]
        moved = sorted(self._segments.runs(newest).intersection(numbers)) if numbers else []
        self._journals.remove(map(self._journals.run_id, moved))
        return bool(moved)

    def _fold(self) -> bool:
        """Moves the oldest runs into a new segment."""
        with ExitStack() as locks:
            runs = list(takewhile(partial(self._lock, locks), self._next_runs()))
            if not runs:
                return False
            with self._segments.create(runs[0].number, runs[-1].number) as writer:
                for run in runs:
                    writer.add_run(run.rows)
            self._journals.remove(run.manifest.run for run in runs)
        return True

    def _lock(self, locks: ExitStack, run: FinishedRun) -> bool:
        """Locks the journal of a run; returns false if ``dispatch`` is reading it."""
        try:
            locks.enter_context(lock_directory(self._journals.root / run.manifest.run))
        except UsageError:
            return False
        return True

    def _next_runs(self) -> Iterator[FinishedRun]:
        """The runs of the next segment."""
        runs, records, size, first = 0, 0, 0, None
        for run in islice(self._suitable_runs(), RUNS_AT_ONCE):
            first = run.rows.ended if first is None else first
            runs, size = runs + 1, size + run.rows.bytes
            records += run.manifest.records_read
            seconds = run.rows.ended - first
            if not SegmentSize(runs, records, size, seconds).fits(self._largest):
                return
            yield run

    def _suitable_runs(self) -> Iterator[FinishedRun]:
        """The runs between the newest segment and the first unfinished run, or the newest run; none if
        there are few."""
        segments = self._segments.current()
        last = segments[-1].last if segments else 0
        numbers = set(self._journals.numbers()[:-1]) - self._unsuitable
        after = sorted(number for number in numbers if number > last)
        for number in after if len(after) >= self._least else ():
            journal = self._journals.journal(self._journals.run_id(number))
            manifest = journal.manifest()
            if manifest is None or not journal.is_sent:
                return
            rows = _read_if_suitable(number, journal, manifest)
            if rows is None:
                self._unsuitable.add(number)
            else:
                yield FinishedRun(number, manifest, rows)

    def _merge(self) -> bool:
        """Merges neighbours among the newest segments if many of them are on one level."""
        newest = list(self._newest_of_one_level())
        neighbours = self._fitting_neighbours(reversed(newest))
        if len(newest) < SEGMENTS_AT_ONCE or len(neighbours) < 2:
            return False
        first, last = neighbours[0][0].first, neighbours[-1][0].last
        with self._segments.create(first, last) as writer:
            for segment, header in neighbours:
                writer.add_segment(segment.folder, header)
        self._segments.remove_remains()
        return True

    def _newest_of_one_level(self) -> Iterator[tuple[Segment, SegmentHeader]]:
        """The newest segments on the same level as the newest one, without gaps, newest first."""
        newest = None
        for segment in reversed(self._segments.current()):
            header = segment.header()
            level = SegmentSize.of([header]).level(self._largest)
            newest = level if newest is None else newest
            if level != newest or level == _LARGE:
                return
            yield segment, header

    def _fitting_neighbours(
        self, segments: Iterable[tuple[Segment, SegmentHeader]]
    ) -> list[tuple[Segment, SegmentHeader]]:
        """The first neighbours, at least two, that fit into one segment; else the last segment alone."""
        row: list[tuple[Segment, SegmentHeader]] = []
        for entry in segments:
            together = SegmentSize.of([header for _, header in (*row, entry)])
            if together.fits(self._largest):
                row.append(entry)
            elif len(row) > 1:
                return row
            else:
                row = [entry]
        return row


def _read_if_suitable(number: int, journal: Journal, manifest: Manifest) -> RunRows | None:
    """Reads a finished run; ``None`` for a run that must stay in its folder, such as a damaged one."""
    from publisher.journal.segment_files import read_run  # noqa: PLC0415 - idle starts move no run

    try:
        return read_run(number, journal, manifest) if is_suitable(manifest) else None
    except FatalError:
        return None
