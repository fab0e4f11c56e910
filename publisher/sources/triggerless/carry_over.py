"""The state of a source: which tables it knows, and the files that hold their rows.

It is a folder: ``state.json`` describes the tables, ``known`` holds their rows, ``found`` what the
comparison that wrote it has found, which the run reads and ``explain`` looks into.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.journal.durable import read_versioned

MANIFEST = "state.json"
FOUND, KNOWN = "found", "known"
"""Folders of what is found, and of what is known."""
FORMAT = 2
"""Of the description; 1 had no origin of its tables."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a source: what its manifest says, by the names of tables in it."""

    folder: Path
    keeps: str
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hinted: int | None = None
    """Time of the last sample that was asked for hints, in microseconds since 1970 UTC."""
    migration: Mapping[str, object] | None = None
    """Which rows the run has published as new that wrote it."""

    @classmethod
    def empty(cls) -> State:
        """What is known before the first comparison."""
        return cls(Path(), "")

    @classmethod
    def read(cls, folder: Path) -> State:
        """Raises ``FatalError`` where it is damaged or of another version."""

        def decode(content: dict[str, Any]) -> State:
            return cls(
                folder, *map(content.__getitem__, ("keeps", "tables", "hinted", "migration"))
            )

        path = folder / MANIFEST
        remedy = "give the source another name, so that it starts over by startup_option"
        state = read_versioned(path, FORMAT, decode, remedy)
        if state is None:
            raise FatalError(f"{path} of the state is missing: restore it, or {remedy}")
        return state

    def carried(
        self, target: Path, described: Mapping[str, object]
    ) -> dict[str, Mapping[str, Any]]:
        """The tables that were not compared, their files linked or copied into a new state."""
        found: dict[str, Mapping[str, Any]] = {}
        for place, (name, plain) in enumerate(self.tables.items()):
            if name in described:
                continue
            files = [f"kept-{plain['generation']}-{place}-{old}" for old in plain["files"]]
            for old, new in zip(plain["files"], files, strict=True):
                linked(self.folder / KNOWN / old, target / KNOWN / new)
            found[name] = {**plain, "files": files, "last": {"left": 0, "unreadable": 0}}
        return found


def write_state(target: Path, state: State) -> None:
    """Writes the description of a new state."""
    content = {
        "format": FORMAT,
        "keeps": state.keeps,
        "hinted": state.hinted,
        "migration": state.migration,
        "tables": state.tables,
    }
    (target / MANIFEST).write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


_STAGED = f"{os.sep}staging{os.sep}state{os.sep}"
_COMMITTED = f"{os.sep}state{os.sep}"


def committed(folder: Path) -> Path:
    """Where a folder of a state lies when its journal is committed."""
    return Path(_COMMITTED.join(str(folder).rsplit(_STAGED, 1)))


def present(folder: Path) -> Path:
    """Where that folder lies now: there, or still among what the run has staged."""
    staged = Path(_STAGED.join(str(folder).rsplit(_COMMITTED, 1)))
    return folder if folder.exists() or not staged.exists() else staged


def forget_rows(states: Iterable[Path]) -> None:
    """Removes the rows of states that a later one has replaced, newest first; what was found stays.

    Ends with the first that has none any more: those before it were done before.
    """
    for state in states:
        if not (state / KNOWN).is_dir():
            return
        shutil.rmtree(state / KNOWN)


def identity_of(files: Sequence[Path]) -> list[list[object]]:
    """What tells that files are the same as before: path, bytes, time of the last change."""
    found: list[list[object]] = []
    for path in files:
        stat = path.stat()
        found.append([str(path), stat.st_size, stat.st_mtime_ns])
    return found


def linked(old: Path, new: Path) -> None:
    """Gives a file another name, or copies it where the disk does not do that."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)
