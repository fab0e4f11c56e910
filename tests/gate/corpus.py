"""The inputs of the gate as files: cases of commands, and what stands in their directories before each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Step:
    """One command, and what changes before it."""

    words: Sequence[str]
    """The command without the name of the program; ``{root}`` is the directory of the case."""
    write: dict[str, str] = field(default_factory=dict)
    """Files to write before, and the digests of their contents."""
    remove: Sequence[str] = ()
    statements: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """SQL to run before, by the name of an SQLite database."""
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."
    """Where it runs."""
    kill_after: float | None = None
    """Seconds after which it is killed, if it still runs."""


@dataclass(slots=True)
class Case:
    """Commands that follow each other in one directory."""

    name: str
    group: str
    formats: Sequence[str]
    steps: list[Step]
    root: str = ""
    """The directory that texts among the files name; the directory of a run takes its place."""


class CorpusWriter:
    """Writes cases and the contents of their files below a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "blobs").mkdir(parents=True, exist_ok=True)
        (folder / "cases").mkdir(exist_ok=True)

    def keep(self, content: bytes) -> str:
        """Stores the content of a file and returns its digest."""
        digest = hashlib.sha256(content).hexdigest()[:32]
        path = self._folder / "blobs" / digest
        if not path.exists():
            path.write_bytes(content)
        return digest

    def add(self, case: Case) -> None:
        """Stores a case."""
        text = json.dumps(asdict(case), ensure_ascii=False, indent=1)
        digest = hashlib.sha256(f"{case.group} {case.name}".encode()).hexdigest()[:16]
        (self._folder / "cases" / f"{case.group}-{digest}.json").write_text(text, "utf-8")
