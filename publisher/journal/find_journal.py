"""Finds and opens journals, wherever they are: in a folder of their own or in a segment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from publisher.errors import UsageError
from publisher.journal.identity import IDENTITY
from publisher.journal.job_journals import JOURNAL, RUN, Journals
from publisher.journal.manifest import MANIFEST, Journal, Manifest
from publisher.journal.segments import Segment


@contextmanager
def open_journal(directory: Path) -> Iterator[Journal]:
    """Opens the journal of a directory: the directory itself, the journal of a ``replay`` in it, or the
    journal that its documents were published from.  A run in a segment is unpacked.

    Raises:
        UsageError: The directory has no journal.
        FatalError: A segment is damaged, or another version of the program wrote it.
    """
    root = find_journal(directory).absolute()
    number = None if (root / MANIFEST).exists() else _number_in_segment(root)
    if number is None:
        yield Journal(root)
        return
    with Journals(*_job_of(root)).segments.unpack(number, root) as journal:
        yield journal


def find_journal(directory: Path) -> Path:
    """Finds the directory of a journal, which may be in a segment now, see ``open_journal``.

    Raises:
        UsageError: There is none.
    """
    for root in (directory, directory / JOURNAL):
        if (root / MANIFEST).exists() or _number_in_segment(root) is not None:
            return root
    named = _journal_named_in(directory / RUN)
    if named is None:
        raise UsageError(
            f"{directory} is not a journal: give a journal, or a directory that this program wrote"
        )
    if not (named / MANIFEST).exists() and _number_in_segment(named) is None:
        raise UsageError(
            f"{directory} was published from the journal {named}, which does not exist: give the place "
            "to which it was moved"
        )
    return named


def open_runs(
    journals: Journals, select: Callable[[Segment], Iterable[int]]
) -> Iterator[tuple[Journal, Manifest]]:
    """Opens runs of a job one after the other, oldest first: all that have a folder of their own, and
    those that ``select`` chooses from each segment.

    Raises:
        FatalError: A journal is damaged, or another version of the program wrote it.
    """
    segments = journals.segments
    selected = {number for segment in segments.current() for number in select(segment)}
    with_folder = set(journals.numbers())
    for number in sorted(selected | with_folder):
        journal = journals.journal(journals.run_id(number))
        with ExitStack() as stack:
            if number not in with_folder:
                journal = stack.enter_context(segments.unpack(number, journal.root))
            manifest = journal.manifest()
            if manifest is not None:
                yield journal, manifest


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
    return number if number is not None and journals.segments.has(number) else None


def _journal_named_in(run: Path) -> Path | None:
    """The journal that a ``run.json`` names; ``None`` if it names none."""
    try:
        return Path(json.loads(run.read_text(encoding="utf-8"))["journal"])
    except (OSError, ValueError, KeyError, TypeError):  # a file of another program
        return None
