"""What sources keep from one run to the next: held records, marks of what was published.

While it plans, a run writes the new state of a source as files of any kind into a folder of its
staging area.  The commit of the journal makes them the state, in the same step as all else of the run;
a run that is thrown away leaves none.  A run that writes no folder for a source leaves its state as it
was; an empty folder is the state of a source that keeps nothing.  When the journal that has the newest
state is removed, that state moves to the directory of the job, where no retention ends it.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from publisher.journal.durable import make_private, sync_folder

STATE = "state"
"""Folder of the states: in staging, in a committed journal, in the directory of a job."""
_NEW = ".new"
_LONGEST = 100
"""Characters of a folder's name; longer names of sources stand there as their digest."""


def folder_of(source: str) -> str:
    """The name of a source as the name of a folder."""
    name = quote(source, safe=" ")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST:
        return f"%{hashlib.sha256(source.encode()).hexdigest()}"  # no quoted name looks like that
    return name


def secure(folder: Path) -> None:
    """Makes all files of a state durable, and readable by their owner only."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o700)
            sync_folder(path)
        else:
            make_private(path)
    folder.chmod(0o700)
    sync_folder(folder)


@dataclass(frozen=True, slots=True)
class KeptStates:
    """States whose journals are gone, in the directory of a job: ``state/SOURCE/RUN``."""

    root: Path

    def of(self, source: str) -> Path | None:
        """The newest state of a source, ``None`` where there is none."""
        return max(self._of(source), key=number_of, default=None)

    def keep(self, source: str, run: str, state: Path) -> None:
        """Copies the state that a run has left; older ones go.  May be called again after a crash."""
        folder = self.root / STATE / folder_of(source)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = folder / run
        if not kept.exists():
            new = folder / _NEW
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(state, new)
            secure(new)
            new.replace(kept)
        for path in (folder, folder.parent, self.root):
            sync_folder(path)
        for older in self._of(source):
            if older != kept:
                shutil.rmtree(older)

    def _of(self, source: str) -> list[Path]:
        folder = self.root / STATE / folder_of(source)
        if not folder.is_dir():
            return []
        return [path for path in folder.iterdir() if path.name != _NEW]


def number_of(state: Path) -> int:
    """The number of the run that left a kept state."""
    return int(state.name.rpartition("-")[2])
