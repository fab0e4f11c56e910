"""Finds and opens journals, in folders of their own or in segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from publisher.errors import FatalError, UsageError
from publisher.journal.identity import IDENTITY
from publisher.journal.job_journals import JOURNAL, RUN, Journals
from publisher.journal.manifest import MANIFEST, Journal, Manifest
from publisher.journal.segments import Segment

T = TypeVar("T")


@contextmanager
def open_journal(directory: Path, *, in_memory: bool = False) -> Iterator[Journal]:
    """Opens the journal of a directory: the directory itself, the journal of a ``replay`` in it, or the
    journal that its documents were published from.  A run in a segment is unpacked, see ``Segments``.

    Raises:
        UsageError: The directory has no journal.
        FatalError: A segment is damaged, or another version of the program wrote it.
    """
    root = find_journal(directory).absolute()
    number = None if (root / MANIFEST).exists() else _number_in_segment(root)
    if number is None:
        yield Journal(root)
        return
    segments = Journals(*_job_of(root)).segments
    with segments.unpack(number, root, in_memory=in_memory) as journal:
        yield journal


def find_journal(directory: Path) -> Path:
    """Finds the directory of a journal, which may be in a segment now, see ``open_journal``.

    Raises:
        UsageError: The directory has no journal.
    """
    for root in (directory, directory / JOURNAL):
        if (root / MANIFEST).exists() or _number_in_segment(root) is not None:
            return root
    named = _journal_named_in(directory / RUN)
    if named is None:
        if not directory.exists():
            raise UsageError(
                f"{directory} is not a journal: it does not exist; publish first, or give another journal"
            )
        raise UsageError(
            f"{directory} is not a journal: give a journal, or a directory that this program wrote"
        )
    if not (named / MANIFEST).exists() and _number_in_segment(named) is None:
        raise UsageError(
            f"{directory} was published from the journal {named}, which does not exist: give the place "
            "to which it was moved"
        )
    return named


def read_journal(directory: Path, read: Callable[[Journal], T]) -> T:
    """Opens a journal like ``open_journal`` and reads it; reads it again if it was moved in the meantime.

    Raises:
        UsageError: The directory has no journal.
        FatalError: The journal is damaged, or another version of the program wrote it.
    """
    while True:
        folder = _present_folder(directory)
        try:
            with open_journal(directory, in_memory=True) as journal:
                return read(journal)
        except (FatalError, UsageError, OSError):
            if _present_folder(directory) == folder:
                raise


def read_runs(
    journals: Journals,
    select: Callable[[Segment], Iterable[int]],
    read: Callable[[Journal, Manifest], T],
) -> Iterator[T]:
    """Reads runs of a job, oldest first: all that have a folder of their own, and those that ``select``
    chooses from each segment.

    Raises:
        FatalError: A journal is damaged, or another version of the program wrote it.
    """

    def read_with_manifest(journal: Journal) -> T | None:
        manifest = journal.manifest()
        return None if manifest is None else read(journal, manifest)

    for root in _select_runs(journals, select):
        with suppress(UsageError):  # a run that is not planned yet, or was deleted in the meantime
            result = read_journal(root, read_with_manifest)
            if result is not None:
                yield result


def open_runs(
    journals: Journals, select: Callable[[Segment], Iterable[int]]
) -> Iterator[tuple[Journal, Manifest]]:
    """Opens the runs of ``read_runs`` one after the other."""
    for root in _select_runs(journals, select):
        with ExitStack() as stack:
            try:
                journal = stack.enter_context(open_journal(root))
            except UsageError:  # as in ``read_runs``
                continue
            manifest = journal.manifest()
            if manifest is not None:
                yield journal, manifest


def _select_runs(journals: Journals, select: Callable[[Segment], Iterable[int]]) -> list[Path]:
    """Lists the folders that the runs of ``read_runs`` have or had, oldest first."""
    # folders first: a run that is moved after this line is found in a segment
    numbers = set(journals.numbers())
    segments, seen = journals.segments, set[Path]()
    while unseen := [segment for segment in segments.current() if segment.folder not in seen]:
        for segment in unseen:  # in the next round: segments that have replaced others since
            seen.add(segment.folder)
            try:
                numbers.update(select(segment))
            except FatalError:
                if segment.exists():
                    raise
    return [journals.root / journals.run_id(number) for number in sorted(numbers)]


def _present_folder(directory: Path) -> Path | None:
    """The folder that has the journal now: its own, or its segment; ``None`` if there is none."""
    try:
        root = find_journal(directory)
    except UsageError:
        return None
    if (root / MANIFEST).exists():
        return root
    journals, number = Journals(*_job_of(root)), _number_in_segment(root)
    segment = None if number is None else journals.segments.find(number)
    return None if segment is None else segment.folder


def find_job(directory: Path) -> Journals | None:
    """The journals of a job, if this is its journal directory; otherwise ``None``."""
    if not (directory / IDENTITY).exists():
        return None
    return Journals(directory, directory.resolve().name)


def _job_of(root: Path) -> tuple[Path, str]:
    """The journal directory and the name of the job of a run."""
    return root.absolute().parent, root.name.rpartition("-")[0]


def _number_in_segment(root: Path) -> int | None:
    """The number of a run that is in a segment; ``None`` for other directories."""
    journals = Journals(*_job_of(root))
    number = journals.number_of(root.name)
    return number if number is not None and journals.segments.find(number) else None


def _journal_named_in(run: Path) -> Path | None:
    """The journal that a ``run.json`` names; ``None`` if it names none."""
    try:
        return Path(json.loads(run.read_text(encoding="utf-8"))["journal"])
    except (OSError, ValueError, KeyError, TypeError):  # a file of another program
        return None
