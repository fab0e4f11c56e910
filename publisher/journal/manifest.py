"""The manifest: the one file whose presence says that a run is planned completely.

Steps of a commit: the tasks stage and sync their files, the manifest is written and synced (the
commit point), then staged files are renamed to their places.  A start after a crash completes the
renames of a journal that has a manifest, and throws away what a journal without one has staged.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from publisher import __version__
from publisher.errors import FatalError
from publisher.journal.durable import read_versioned, sync_folder, write_durably
from publisher.journal.file_entries import FileEntry
from publisher.journal.lane_writer import LaneNames, LaneResult
from publisher.journal.source_state import STATE, folder_of, secure

JOURNAL_FORMAT = 3
MANIFEST = "manifest.json"
STAGING = "staging"
SENT = "sent"
SENT_FORMAT = 1
"""Mark of a journal whose run the sink has wholly."""
DOCUMENT_STAGING = ".staging"
"""Folder beside the documents for those that are not committed yet."""


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source of the run, as plain values: its splits and the options that it was read with."""

    name: str
    format: str
    splits: tuple[dict[str, object], ...]
    options: dict[str, object]
    reading: dict[str, object]
    first_split: int
    """Number of its first split in the run."""
    table: str | None = None
    """The table, where it was read live."""
    files: tuple[FileEntry, ...] = ()
    """The files, where it was read from files."""
    again: int = 0
    """Records that an earlier run had read and held, and that were read again."""
    notes: tuple[str, ...] = ()
    """What its survey found that operators should know."""
    identity: str | None = None
    """Identity of the table (``database.identity``), where its rows are acknowledged later."""
    database: str | None = None
    """The table's database as messages name it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run planned.  ``documents`` is the folder of the part files, relative to the journal
    where it lies beside or in it."""

    run: str
    job: str
    lanes: int
    clock: str
    settings: dict[str, object]
    sources: tuple[SourceEntry, ...]
    results: tuple[LaneResult, ...]
    documents: str
    records_read: int
    behind: dict[str, int] = field(default_factory=dict)
    """The greatest record id that earlier runs have read of each live source, by its name."""
    states: tuple[str, ...] = ()
    """The sources whose state this run replaces (``journal.state``)."""
    job_identity: str | None = None
    """That of the job's journal directory (``journal.identity``); ``None`` for a replay."""
    format: int = JOURNAL_FORMAT
    program: str = f"xds-publisher {__version__}"

    @property
    def identity(self) -> str:
        """Distinguishes runs with equal names: the job's identity, for a replay its run digest."""
        return self.job_identity or self.run

    @property
    def plan(self) -> str:
        """A digest of all planned documents: it covers every byte of every part file."""
        parts = [[r.lane, r.documents, r.bytes, r.digest] for r in self.results]
        text = json.dumps([self.run, self.lanes, parts])
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """Indented JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, path: Path) -> Manifest | None:
        """Reads a manifest; ``None`` if there is no such file.

        Raises:
            FatalError: It is damaged, or another version of the program wrote it.
        """
        remedy = "remove the journal and publish into a new directory"
        return read_versioned(path, JOURNAL_FORMAT, cls._decode, remedy)

    @classmethod
    def _decode(cls, content: dict[str, Any]) -> Manifest:
        lists = {
            "sources": tuple(map(_decode_source, content["sources"])),
            "results": tuple(map(LaneResult.from_plain, content["results"])),
            "states": tuple(content.get("states", ())),
        }
        return cls(**content | lists)


def _decode_source(entry: dict[str, Any]) -> SourceEntry:
    lists = {name: tuple(entry.get(name, ())) for name in ("splits", "notes")}
    files = tuple(FileEntry(**file) for file in entry.get("files", ()))
    return SourceEntry(**entry | lists | {"files": files})


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The end of a run, as its journal records it."""

    idle: bool
    """Whether the run has found nothing changed."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal on disk."""

    root: Path

    @property
    def staging(self) -> Path:
        """Where tasks stage the journal's own files."""
        return self.root / STAGING

    def new_state(self, source: str) -> Path:
        """Where the state that this run leaves of a source is written while it plans."""
        return self.staging / STATE / folder_of(source)

    def state(self, source: str) -> Path | None:
        """The state that this run has left of a source; ``None`` where it left it as it was, or is
        not committed."""
        if not (self.root / MANIFEST).exists():
            return None
        places = (self.root / STATE / folder_of(source), self.new_state(source))
        return next((path for path in places if path.is_dir()), None)

    @property
    def is_committed(self) -> bool:
        """Whether the run is planned completely."""
        return (self.root / MANIFEST).exists()

    def manifest(self) -> Manifest | None:
        """The manifest, or ``None`` where nothing was committed.

        Raises:
            FatalError: It is of another version, or damaged.
        """
        return Manifest.read(self.root / MANIFEST)

    def documents(self, manifest: Manifest) -> Path:
        """The folder of the part files."""
        return (self.root / manifest.documents).resolve()

    def forget(self) -> None:
        """Takes the run back, so that it is planned anew."""
        (self.root / MANIFEST).unlink(missing_ok=True)

    def mark_sent(self, notes: Sequence[str] = (), *, idle: bool = False) -> None:
        """Records that the sink has the run completely, and that the rows of its logs know it.

        ``notes`` are what the acknowledgement had to say; an ``idle`` run has found nothing changed.
        """
        entry = {"format": SENT_FORMAT, "idle": idle, "notes": list(notes)}
        write_durably(self.root / SENT, json.dumps(entry) + "\n")

    @property
    def acknowledgement(self) -> Acknowledgement | None:
        """What ``mark_sent`` recorded; ``None`` before.

        Raises:
            FatalError: It is damaged, or of another version of the program.
        """

        def decode(content: dict[str, Any]) -> Acknowledgement:
            return Acknowledgement(bool(content["idle"]), tuple(map(str, content["notes"])))

        remedy = "remove it: the next start then acknowledges the run again"
        return read_versioned(self.root / SENT, SENT_FORMAT, decode, remedy)

    @property
    def is_sent(self) -> bool:
        """Whether that was noted."""
        return (self.root / SENT).exists()

    @property
    def sent_at(self) -> float:
        """When it was noted that the sink has the run, in seconds since 1970-01-01 UTC."""
        return (self.root / SENT).stat().st_mtime

    def begin(self, documents: Path) -> None:
        """Makes the folders of a run, without what a run that never committed has left."""
        for folder in (self.staging, documents / DOCUMENT_STAGING):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in folder.iterdir():
                if left.is_dir():  # the sink's mark of the run that was begun is a file
                    shutil.rmtree(left, ignore_errors=True)

    def discard(self, results: Iterable[LaneResult], documents: Path) -> None:
        """Removes what lanes have staged, so that they are planned again."""
        for result in results:
            for folder in (self.staging, documents / DOCUMENT_STAGING):
                shutil.rmtree(folder / result.staged, ignore_errors=True)

    def commit(self, manifest: Manifest) -> None:
        """The commit point, then everything to its place."""
        for source in manifest.states:
            secure(self.new_state(source))
        write_durably(self.root / MANIFEST, manifest.to_json())
        self.complete(manifest)

    def complete(self, manifest: Manifest) -> None:
        """Renames what is still staged.  May be called any number of times."""
        documents = self.documents(manifest)
        if manifest.states:
            (self.root / STATE).mkdir(exist_ok=True, mode=0o700)
        for staged, final in self._renames(manifest, documents):
            if staged.exists():
                if final.is_dir():  # a folder that a replay has left, which is done again
                    shutil.rmtree(final)
                staged.replace(final)
            elif not final.exists():
                raise FatalError(
                    f"{final} of run {manifest.run} is missing, and so is {staged}: the journal was "
                    "damaged from outside; remove it and publish again"
                )
        states = [self.root / STATE] if manifest.states else []
        for folder in (*states, self.root, documents):
            sync_folder(folder)
        shutil.rmtree(self.staging, ignore_errors=True)

    def _renames(self, manifest: Manifest, documents: Path) -> Iterator[tuple[Path, Path]]:
        for result in manifest.results:
            names = LaneNames(result.lane)
            for name in names.journal_files():
                yield self.staging / result.staged / name, self.root / name
            staged = documents / DOCUMENT_STAGING / result.staged / names.part
            yield staged, documents / names.part
        for source in manifest.states:
            yield self.new_state(source), self.root / STATE / folder_of(source)
