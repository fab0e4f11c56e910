"""The state of sources between runs: held records, marks of published rows.

While it plans, a run writes the new state of a source as files of any kind into a folder of its
staging area.  The commit of the journal makes these files the state, together with the rest of the run;
a discarded run changes no state.  A run that writes no folder for a source keeps its state; an empty
folder is an empty state.  Before the journal with the newest state is removed, the state is copied to the
directory of the job, where retention does not remove it.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from publisher.journal.durable import link_or_copy, make_private, sync_folder

STATE = "state"
"""Folder of the states: in staging, in a committed journal, in the directory of a job."""
PUBLISHED_OBJECTS = ""
"""The name in place of a source's for the published states of objects (``object_states``)."""
_NEW = ".new"
_LONGEST = 100
"""Maximum characters of a folder's name; longer names of sources are replaced by their digest."""


def folder_of(source: str) -> str:
    """Converts the name of a source to the name of a folder."""
    if source == PUBLISHED_OBJECTS:
        return "%objects"  # a quoted name never has this form
    name = quote(source, safe=" ")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST:
        return f"%{hashlib.sha256(source.encode()).hexdigest()}"  # nor this one
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
class StateArchive:
    """States of removed journals in the directory of a job: ``state/SOURCE/RUN``."""

    root: Path

    def newest(self, source: str) -> Path | None:
        """The newest archived state of a source; ``None`` if no state is archived."""
        return max(self._states(source), key=number_of, default=None)

    def add(self, source: str, run: str, state: Path) -> None:
        """Copies the state of a run and removes older states.  May be repeated after a crash."""
        folder = self.root / STATE / folder_of(source)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        archived = folder / run
        if not archived.exists():
            new = folder / _NEW
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(state, new, copy_function=link_or_copy)
            secure(new)
            new.replace(archived)
        for path in (folder, folder.parent, self.root):
            sync_folder(path)
        for older in self._states(source):
            if older != archived:
                shutil.rmtree(older)

    def _states(self, source: str) -> list[Path]:
        folder = self.root / STATE / folder_of(source)
        if not folder.is_dir():
            return []
        return [path for path in folder.iterdir() if path.name != _NEW]


def number_of(state: Path) -> int:
    """The number of the run that wrote an archived state."""
    return int(state.name.rpartition("-")[2])
