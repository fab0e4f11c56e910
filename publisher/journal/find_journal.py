"""Finds and opens journals, in folders of their own or in segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from publisher.errors import FatalError, UsageError
from publisher.journal.identity import IDENTITY
from publisher.journal.job_journals import JOURNAL, RUN, Journals
from publisher.journal.manifest import MANIFEST, Journal

T = TypeVar("T")


@contextmanager
def open_journal(directory: Path) -> Iterator[Journal]:
    """Opens the journal of a directory: the directory itself, the journal of a ``replay`` in it, or the
    journal that its documents were published from.  A run in a segment is unpacked, see ``Segments``.

    Raises:
        UsageError: The directory has no journal.
        FatalError: A segment is damaged, or another version of the program wrote it.
    """
    root, number = _find_place(directory)
    if number is None:
        yield Journal(root)
        return
    with Journals(*_job_of(root)).segments.unpack(number, root) as journal:
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
        if directory.suffix == ".toml":
            raise UsageError(
                f"{directory} is not a journal: name a job file with -c {directory}, or give a journal"
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
    """Reads a journal that is found like ``open_journal``, in memory if it is in a segment; reads it again
    if it was moved in the meantime.

    Raises:
        UsageError: The directory has no journal.
        FatalError: The journal is damaged, or another version of the program wrote it.
    """
    while True:
        folder = _present_folder(directory)
        try:
            return read(_load_journal(directory))
        except (FatalError, UsageError, OSError):
            if _present_folder(directory) == folder:
                raise


def _find_place(directory: Path) -> tuple[Path, int | None]:
    """Finds the directory of a journal, and the number of its run if that is in a segment."""
    root = find_journal(directory).absolute()
    return root, None if (root / MANIFEST).exists() else _number_in_segment(root)


def _load_journal(directory: Path) -> Journal:
    root, number = _find_place(directory)
    if number is None:
        return Journal(root)
    return Journals(*_job_of(root)).segments.read_run(number, root)[0]


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
