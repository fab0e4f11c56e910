"""The segments of a job: folders that hold the journals of finished small runs.

A segment is a folder named after its first and last run.  Runs are never added to a segment; segments
are merged into a wider one, which hides them until they are removed.
"""

# ruff: noqa: PLC0415 - a start that finds nothing to publish reads and writes no segment

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from publisher.errors import FatalError
from publisher.journal.durable import sync_folder
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.segment_header import HEADER, SegmentHeader

if TYPE_CHECKING:
    from publisher.journal.segment_files import SegmentWriter
    from publisher.journal.segment_reader import SegmentReader

R = TypeVar("R", bound=Container[int])
T = TypeVar("T")

SEGMENTS = "segments"
_NEW = ".new"
_NAME = re.compile(r"(\d{6,})-(\d{6,})")


class Segment(NamedTuple):
    """A segment by the numbers of its first and its last run."""

    first: int
    last: int
    folder: Path

    def exists(self) -> bool:
        """Returns whether the segment still exists."""
        return (self.folder / HEADER).exists()

    def header(self) -> SegmentHeader:
        """Reads the header.

        Raises:
            FatalError: The header is damaged, or of another version of the program.
        """
        header = SegmentHeader.read(self.folder)
        if header is None:
            raise FatalError(f"{self.folder} was removed while it was read: start again")
        return header


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments in the journal directory of a job."""

    root: Path
    """The journal directory of the job."""

    def current(self) -> list[Segment]:
        """The segments, oldest first, without those that a wider segment has replaced."""
        return _without_replaced_segments(self._folders())

    def read_each(
        self,
        read: Callable[[Segment], T],
        call_each: Callable[..., Iterable[Any]] = map,
    ) -> Iterator[T]:
        """Reads the segments, oldest first; instead of those that others replace meanwhile, these at the end.

        ``call_each`` calls a function with each segment like ``map``, maybe in threads.

        Raises:
            FatalError: ``read`` has raised it for a segment that still exists.
        """

        def read_if_current(segment: Segment) -> T | None:
            try:
                return read(segment)
            except FatalError:
                if segment.exists():
                    raise
                return None

        seen: set[Path] = set()
        while unseen := [segment for segment in self.current() if segment.folder not in seen]:
            for result in call_each(read_if_current, unseen):
                if result is not None:
                    yield result
            seen.update(segment.folder for segment in unseen)

    def check_versions(self) -> None:
        """Raises ``FatalError`` if a segment is damaged or of another version of the program."""
        for segment in self._folders():
            segment.header()

    @contextmanager
    def create(self, first: int, last: int) -> Iterator[SegmentWriter]:
        """Writes a segment; it exists once the block has ended."""
        from publisher.journal.segment_files import SegmentWriter

        folder = self.root / SEGMENTS
        folder.mkdir(exist_ok=True, mode=0o700)
        writer = SegmentWriter(folder / _NEW)
        yield writer
        writer.close()
        (folder / _NEW).replace(folder / f"{first:06d}-{last:06d}")
        sync_folder(folder)
        sync_folder(self.root)

    def remove(self, segment: Segment) -> None:
        """Removes a segment; after a crash in the middle it does not exist either."""
        (segment.folder / HEADER).unlink()
        shutil.rmtree(segment.folder)

    def remove_remains(self) -> None:
        """Removes the remains of interrupted work on segments, and replaced segments."""
        if not (self.root / SEGMENTS).is_dir():
            return
        used = {segment.folder for segment in self.current()}
        for path in (self.root / SEGMENTS).iterdir():
            if path not in used:
                (path / HEADER).unlink(missing_ok=True)
                shutil.rmtree(path)

    def runs(self, segment: Segment) -> set[int]:
        """The numbers of the runs in a segment."""
        return set(_numbers(segment.folder, _written(segment)))

    def plan_of(self, number: int) -> str | None:
        """The digest of the plan of a run; ``None`` if the run is in no segment.  See ``Manifest``."""
        place = self._find(number, _plans)
        return None if place is None else place[1][number]

    def find(self, number: int) -> Segment | None:
        """The segment with a run; ``None`` if there is none."""
        place = self._find(number, _numbers)
        return None if place is None else place[0]

    def _find(self, number: int, read: Callable[[Path, int], R]) -> tuple[Segment, R] | None:
        """Finds the segment with a run; ``read`` reads its runs."""
        for segment in self._with(number):
            try:
                runs = read(segment.folder, _written(segment))
            except (FatalError, FileNotFoundError):
                if segment.exists():
                    raise
                return self._find(number, read)  # another segment has replaced this one
            if number in runs:
                return segment, runs
        return None

    def read(self, segment: Segment, origins: Mapping[int, Path]) -> list[tuple[Journal, Manifest]]:
        """Reads runs of a segment into memory, oldest first, see ``SegmentReader``.

        Raises:
            FatalError: The segment is damaged, or of another version of the program, or was removed.
        """
        segment.header()
        return [*_reader(segment.folder, _written(segment)).read(origins)]

    def read_run(self, number: int, origin: Path) -> tuple[Journal, Manifest]:
        """Reads a run like ``read``.

        Raises:
            FatalError: No segment has the run, or a file of the segment is missing or damaged.
        """
        for segment in self._with(number):
            for run in self.read(segment, {number: origin}):
                return run
        raise FatalError(f"run {number} is in no segment of {self.root}: its journal was deleted")

    @contextmanager
    def unpack(self, number: int, origin: Path) -> Iterator[Journal]:
        """Writes a run into a temporary journal; ``origin`` is the place where its journal was.

        Raises:
            FatalError: No segment has the run, or a file of the segment is missing or damaged.
        """
        from publisher.journal.segment_reader import write_run

        journal, manifest = self.read_run(number, origin)
        with tempfile.TemporaryDirectory(prefix="xds-publisher-") as folder:
            yield write_run(journal, manifest, Path(folder))

    def _with(self, number: int) -> list[Segment]:
        """The current segments that may have a run."""
        return _without_replaced_segments(self._folders(number))

    def _folders(self, number: int | None = None) -> Iterator[Segment]:
        """All segments, or those that may have a run."""
        folder = self.root / SEGMENTS
        try:
            names = os.listdir(folder)  # noqa: PTH208 - ten times as fast as paths, and a day has a hundred
        except FileNotFoundError:
            return
        for match in filter(None, map(_NAME.fullmatch, names)):
            first, last = int(match[1]), int(match[2])
            if number is None or first <= number <= last:
                segment = Segment(first, last, folder / match[0])
                if segment.exists():
                    yield segment


def _without_replaced_segments(segments: Iterable[Segment]) -> list[Segment]:
    """Sorts segments, oldest first, without those that a wider segment has replaced."""
    current: list[Segment] = []
    for segment in sorted(segments, key=lambda found: (found.first, -found.last)):
        if not current or segment.last > current[-1].last:
            current.append(segment)
    return current


def _written(segment: Segment) -> int:
    """Returns the time at which a segment was written, by which caches recognise it."""
    return (segment.folder / HEADER).stat().st_mtime_ns


@lru_cache(maxsize=2)
def _reader(folder: Path, _written: int) -> SegmentReader:
    """The reader of a segment, kept because its runs are read one after the other, by two threads at most.

    ``_written`` is the time at which the segment was written: segments never change."""
    from publisher.journal.segment_reader import SegmentReader

    return SegmentReader(folder)


@lru_cache(maxsize=16)
def _numbers(folder: Path, _written: int) -> frozenset[int]:
    """The numbers of all runs of a segment; see ``_plans``, which takes five times as long."""
    from publisher.journal.segment_files import RUNS, read_columns

    return frozenset(read_columns(folder, RUNS, ["run"])["run"].to_pylist())


@lru_cache(maxsize=16)
def _plans(folder: Path, _written: int) -> dict[int, str]:
    """The digests of the plans of all runs of a segment, by the numbers of the runs.

    ``_written`` is the time at which the segment was written: segments never change."""
    from publisher.journal.segment_files import RUNS, read_columns

    table = read_columns(folder, RUNS, ["run", "plan"])
    return dict(zip(table["run"].to_pylist(), table["plan"].to_pylist(), strict=True))
