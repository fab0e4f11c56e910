"""The published states of a job's objects from run to run.

Each run of a job with ``minimal`` leaves a state (``source_state``) that names all files of objects' states;
files of earlier runs are linked into it.  A state counts for the next run only: after a run without
``minimal``, for another sink, and after a recovery, all states are unknown.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.ledger.durable import link_or_copy, make_private, read_versioned_file, sync_folder
from publisher.ledger.job import Ledger
from publisher.ledger.lane_writer import PlannedLane
from publisher.ledger.manifest import Manifest
from publisher.ledger.object_states import (
    StatesBefore,
    count_to_merge,
    merge_states,
    name_in_source,
    write_unknown,
)
from publisher.ledger.parts import parts_of
from publisher.ledger.runs import LedgerRun
from publisher.ledger.source_state import PUBLISHED_OBJECTS

FORMAT = 2
_MANIFEST = "objects.json"
_FILES = "files"
_REFUSED = "refused.db"
_REMEDY = (
    "publish once with minimal = false in [documents], after which all values count as unknown"
)


@dataclass(frozen=True, slots=True)
class StoredStates:
    """The published states of a job's objects after a run."""

    target: str
    """The sink that has the documents."""
    is_complete: bool = False
    """See ``StatesBefore``."""
    by_source: bool = False
    """See ``StatesBefore``."""
    files: tuple[tuple[Path, int], ...] = ()
    """Files of objects' states, newest first, with the numbers of their rows."""
    is_hidden: bool = False
    """True if the next run publishes its objects as if their states were unknown."""
    limit: int | None = None
    """See ``StatesBefore``."""

    def forget(self) -> StoredStates:
        """The states of which none is known any more."""
        return StoredStates(self.target, by_source=self.by_source, limit=self.limit)

    def hide(self) -> StoredStates:
        """The states before a run that publishes in full, whatever the sink has."""
        return self.forget() if self.by_source else replace(self, is_hidden=True)

    def before(self) -> StatesBefore:
        """The states as the tasks of the next run read them."""
        if self.is_hidden:
            return StatesBefore(by_source=self.by_source, limit=self.limit)
        files = tuple(str(path) for path, _ in self.files)
        return StatesBefore(files, self.is_complete, self.by_source, self.limit)


def read_stored_states(
    ledger: Ledger, number: int, target: str, *, by_source: bool
) -> StoredStates:
    """Reads the states that count for the run ``number`` of a job and its sink.

    Raises ``FatalError`` if they are damaged, or of another version of the program."""
    unknown = StoredStates(target, is_complete=number == 1, by_source=by_source)
    folder = ledger.state_of(PUBLISHED_OBJECTS)
    if folder is None:
        return unknown

    doubted = ledger.doubted

    def decode(content: dict[str, Any]) -> StoredStates:
        origin = [content[name] for name in ("run", "target", "by_source")]
        if origin != [number - 1, target, by_source] or number <= doubted + 1:
            return unknown
        files = tuple((folder / _FILES / name, int(rows)) for name, rows in content["files"])
        refused = folder / _FILES / _REFUSED
        if refused.exists():
            files = ((refused, 0), *files)
        return replace(unknown, is_complete=bool(content["is_complete"]), files=files)

    stored = read_versioned_file(folder / _MANIFEST, FORMAT, decode, _REMEDY)
    if stored is None:
        raise FatalError(f"{folder / _MANIFEST} is missing: restore it, or {_REMEDY}")
    return stored


def doubt_states(ledger: Ledger, target: str) -> None:
    """Makes all states unknown if the job's topic gets documents of earlier runs again."""
    folder = ledger.state_of(PUBLISHED_OBJECTS)
    if folder is None:
        return
    own = json.loads((folder / _MANIFEST).read_text("utf-8"))["target"]
    if own.rpartition("/")[2] == target.rpartition("/")[2]:
        ledger.doubt()


def store_states(
    ledger_run: LedgerRun, number: int, before: StoredStates, lanes: Sequence[PlannedLane]
) -> None:
    """Writes the states after the run ``number`` from those before it and those of its lanes."""
    target = ledger_run.state_folder(PUBLISHED_OBJECTS)
    shutil.rmtree(target, ignore_errors=True)
    (target / _FILES).mkdir(parents=True)
    files = [(lane.objects, lane.result.objects) for lane in lanes if lane.result.objects]
    files += before.files
    count = count_to_merge([rows for _, rows in files])
    if count > 1:
        merged = target / _FILES / f"{number}-merged.db"
        paths = [path for path, _ in files[:count]]
        rows = merge_states(paths, merged, is_oldest=count == len(files))
        files[:count] = [(merged, rows)]
    content = {
        "format": FORMAT,
        "run": number,
        "target": before.target,
        "by_source": before.by_source,
        "is_complete": before.is_complete,
        "files": [[_keep(path, target / _FILES, number), rows] for path, rows in files],
    }
    (target / _MANIFEST).write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


def _keep(path: Path, folder: Path, number: int) -> str:
    """Links or copies a file into a new state; returns its name there."""
    name = path.name if path.name[:1].isdigit() else f"{number}-{path.name}"
    if path.parent != folder:
        link_or_copy(path, folder / name)
    return name


def forget_refused(
    ledger_run: LedgerRun, manifest: Manifest, refused: Iterable[tuple[int, int]]
) -> None:
    """Makes the states of objects unknown whose documents the sink has refused, by lane and document."""
    places = set(refused)
    state, run = ledger_run.state(PUBLISHED_OBJECTS), ledger_run.load()
    if state is None or run is None or not places:
        return
    by_source = json.loads((state / _MANIFEST).read_text("utf-8"))["by_source"]
    names: set[str] = set()
    columns = ("number", "source", "association", "new_association")
    is_refused = pc.field("number").isin(sorted({number for _, number in places}))
    for part in parts_of([run]):
        for row in part.documents(columns, is_refused).to_pylist():
            if (row["lane"], row["number"]) in places:
                source = manifest.sources[row["source"]].name
                for name in {row["association"], row["new_association"]} - {None}:
                    names.add(name_in_source(name, source) if by_source else name)
    new = state / f"{_REFUSED}.new"
    write_unknown(new, sorted(names))
    make_private(new)
    new.replace(state / _FILES / _REFUSED)
    sync_folder(state / _FILES)
