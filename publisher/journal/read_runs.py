"""Reads the runs of a job, which have folders of their own or are in segments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from publisher.errors import FatalError, UsageError
from publisher.journal.find_journal import open_journal, read_journal
from publisher.journal.job_journals import Journals
from publisher.journal.manifest import Journal, Manifest
from publisher.journal.segments import Segment

_RUNS_AT_ONCE = 64
_THREADS = 2
"""Arrow decodes files without the lock of the interpreter."""
_BATCHES_AHEAD = 4

T = TypeVar("T")

Run = tuple[Journal, Manifest]
Select = Callable[[Segment], Iterable[int]]
"""Chooses runs of a segment by their numbers."""


class _RunBatch(NamedTuple):
    """Runs that are read together, by their numbers: those of one segment, or runs with folders."""

    segment: Segment | None
    folders: dict[int, Path]
    """The folder that each run has or had."""


def read_runs(
    journals: Journals, select: Select, read: Callable[[Journal, Manifest], T]
) -> Iterator[T]:
    """Reads runs of a job, oldest first: all that have a folder of their own, and those that ``select``
    chooses from each segment.

    ``select`` is called in several threads, ``read`` in this one.

    Raises:
        FatalError: A journal is damaged, or another version of the program wrote it.
    """

    def read_with_manifest(journal: Journal) -> T:
        return read(journal, _manifest_of(journal))

    for batch, runs in _load_ahead(journals, select):
        if runs is not None:
            yield from (read(*run) for run in runs)
            continue
        for folder in batch.folders.values():
            with suppress(UsageError):  # not planned yet, or deleted in the meantime
                yield read_journal(folder, read_with_manifest)


def open_runs(journals: Journals, select: Select) -> Iterator[Run]:
    """Opens the runs of ``read_runs`` one after the other."""
    with ThreadPoolExecutor(_THREADS, "journal") as pool:
        numbers = [*_select_runs(journals, select, pool)]
    for number in numbers:
        folder = journals.root / journals.run_id(number)
        with ExitStack() as stack:
            try:
                run = _open(folder, stack)
            except UsageError:  # as in ``read_runs``
                continue
            yield run


def _open(folder: Path, stack: ExitStack) -> Run:
    """Opens a run until ``stack`` is closed.  Raises ``UsageError`` if it is not planned, or deleted."""
    journal = stack.enter_context(open_journal(folder))
    try:
        return journal, _manifest_of(journal)
    except UsageError:  # it may have been moved into a segment just now
        journal = stack.enter_context(open_journal(folder))
        return journal, _manifest_of(journal)


def _manifest_of(journal: Journal) -> Manifest:
    """Reads the manifest.  Raises ``UsageError`` if there is none, also because the run was moved."""
    manifest = journal.manifest()
    if manifest is None:
        raise UsageError(f"{journal.root} has no complete run: start it again, then read it")
    return manifest


def _load_ahead(journals: Journals, select: Select) -> Iterator[tuple[_RunBatch, list[Run] | None]]:
    """Yields batches with their runs, see ``_load``, while threads load the next ones."""
    waiting: deque[tuple[_RunBatch, Future[list[Run] | None]]] = deque()
    with ThreadPoolExecutor(_THREADS, "journal") as pool:
        for batch in _batches(journals, _select_runs(journals, select, pool)):
            waiting.append((batch, pool.submit(_load, journals, batch)))
            if len(waiting) > _BATCHES_AHEAD:
                first, runs = waiting.popleft()
                yield first, runs.result()
        yield from ((batch, runs.result()) for batch, runs in waiting)


def _batches(journals: Journals, selected: dict[int, Segment | None]) -> Iterator[_RunBatch]:
    for segment, numbers in groupby(selected, selected.__getitem__):
        while some := [*islice(numbers, _RUNS_AT_ONCE)]:
            yield _RunBatch(segment, {n: journals.root / journals.run_id(n) for n in some})


def _load(journals: Journals, batch: _RunBatch) -> list[Run] | None:
    """Reads runs of a segment; ``None`` if they have folders, or if another segment has replaced it."""
    if batch.segment is None:
        return None
    try:
        return journals.segments.read(batch.segment, batch.folders)
    except (FatalError, OSError):
        if batch.segment.exists():
            raise
        return None


def _select_runs(
    journals: Journals, select: Select, pool: ThreadPoolExecutor
) -> dict[int, Segment | None]:
    """Selects the runs of ``read_runs``, oldest first, each with its segment if it has no folder."""

    def select_from(segment: Segment) -> list[tuple[int, Segment]]:
        return [(number, segment) for number in select(segment)]

    # folders first: a run that is moved after this line is found in a segment
    in_folders: dict[int, Segment | None] = dict.fromkeys(journals.numbers())
    in_segments: dict[int, Segment | None] = {}
    for found in journals.segments.read_each(select_from, pool.map):
        in_segments.update(found)
    return dict(sorted({**in_segments, **in_folders}.items()))
