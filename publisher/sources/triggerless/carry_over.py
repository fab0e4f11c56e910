"""The state of a source, which one run leaves for the next.

A state is a folder: ``state.json`` describes the tables, ``known`` holds their rows, and ``found`` holds
the differences that the comparison found; the run and ``explain`` read them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from publisher.errors import FatalError
from publisher.ledger.durable import link_or_copy, read_versioned_file

MANIFEST = "state.json"
FOUND, KNOWN = "found", "known"
"""Folders of the differences, and of the known rows."""
UNPUBLISHED = "unpublished"
"""The entry of a table with its unpublished rows, and the beginning of the names of their files."""
FORMAT = 2
"""Version of the description; version 1 had no origins of tables."""


@dataclass(frozen=True, slots=True)
class TriggerlessState:
    """The state of a source: the content of its manifest, and its folder."""

    folder: Path
    keeps: str
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hinted: int | None = None
    """Time of the last sample that gave hints, in microseconds since 1970 UTC."""
    migration: Mapping[str, object] | None = None
    """The rows that the run of this state published as new."""

    @classmethod
    def empty(cls) -> TriggerlessState:
        """The state before the first comparison."""
        return cls(Path(), "")

    @classmethod
    def read(cls, folder: Path) -> TriggerlessState:
        """Reads a state.  Raises ``FatalError`` if it is damaged or of another version."""

        def decode(content: dict[str, Any]) -> TriggerlessState:
            return cls(
                folder, *map(content.__getitem__, ("keeps", "tables", "hinted", "migration"))
            )

        path = folder / MANIFEST
        remedy = "give the source another name, so that it starts over by startup_option"
        state = read_versioned_file(path, FORMAT, decode, remedy)
        if state is None:
            raise FatalError(f"{path} of the state is missing: restore it, or {remedy}")
        return state

    def has_compared(self, name: str, files: Sequence[object]) -> bool:
        """Tests whether files of this table, or child table, have been compared, by their identity."""
        known = self.tables.get(name)
        if known is not None and known["input"] == files:
            return True
        return any(table.get("children", {}).get(name) == files for table in self.tables.values())

    def carry_over(
        self, target: Path, compared: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Mapping[str, Any]]:
        """Links or copies files of uncompared tables, and of unpublished rows, into a new state."""
        tables: dict[str, Mapping[str, Any]] = {}
        for place, (name, plain) in enumerate(self.tables.items()):
            if name in compared:
                continue
            prefix = f"kept-{plain['generation']}-{place}"
            files = [f"{prefix}-{number}.parquet" for number in range(len(plain["files"]))]
            for old, new in zip(plain["files"], files, strict=True):
                link_or_copy(self.folder / KNOWN / old, target / KNOWN / new)
            tables[name] = {**plain, "files": files, "last": {"left": 0, "unreadable": 0}}
        for entry in [*compared.values(), *tables.values()]:
            if UNPUBLISHED in entry:
                file = entry[UNPUBLISHED]["file"]
                link_or_copy(self.folder / KNOWN / file, target / KNOWN / file)
        return tables


def write_state(target: Path, state: TriggerlessState) -> None:
    """Writes the description of a new state."""
    (target / MANIFEST).write_text(state_text(state), "utf-8")


def state_text(state: TriggerlessState) -> str:
    """Formats the description of a state."""
    content = {
        "format": FORMAT,
        "keeps": state.keeps,
        "hinted": state.hinted,
        "migration": state.migration,
        "tables": state.tables,
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def remove_replaced_rows(states: Iterable[Path]) -> None:
    """Removes the rows of replaced states, but not their differences; ``states`` begins with the newest.

    Stops at the first state without rows: the rows of all older states were removed earlier.
    """
    for state in states:
        if not (state / KNOWN).is_dir():
            return
        shutil.rmtree(state / KNOWN)


def identity_of(files: Sequence[Path]) -> list[list[object]]:
    """Path, size and modification time of each file; the same values mean the same files."""
    stats = [(path, path.stat()) for path in files]
    return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]
