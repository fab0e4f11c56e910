"""The manifest: its presence means that a run is planned completely.

Steps of a commit: the tasks stage and sync their files, the manifest is written and synced (the
commit point), then staged files are renamed to their places.  A start after a crash completes the
renames of a journal with a manifest, and discards the files of a journal without one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import filter as matching
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from publisher import __version__
from publisher.errors import FatalError
from publisher.journal.durable import (
    decode_versioned_text,
    read_versioned_file,
    sync,
    write_all_durably,
)
from publisher.journal.file_entries import FileEntry
from publisher.journal.lane_result import LaneNames, LaneResult
from publisher.journal.source_state import STATE, folder_of, secure
from publisher.journal.unpacked_runs import FilesInMemory, PlaceInSegment
from publisher.model.change import Position
from publisher.model.event_ids import IdOrigin
from publisher.model.plain import fields_of, restore, to_lines

T = TypeVar("T")

JOURNAL_FORMAT = 9
MANIFEST = "manifest.json"
STAGING = "staging"
SENT = "sent"
"""File that marks a journal whose run is sent and acknowledged completely."""
SENT_FORMAT = 1
DOCUMENT_STAGING = ".staging"
"""Folder of uncommitted documents, inside the folder of the documents."""


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A source of the run in plain values: its splits and options."""

    name: str
    format: str
    splits: tuple[dict[str, object], ...]
    options: dict[str, object]
    reading: dict[str, object]
    first_split: int
    """Number of its first split in the run."""
    table: str | None = None
    """The table of a live source."""
    files: tuple[FileEntry, ...] = ()
    """The files of a source of files."""
    again: int = 0
    """Number of records that an earlier run had held and that were read again."""
    notes: tuple[str, ...] = ()
    """Notes of the survey for operators."""
    identity: str | None = None
    """Identity of the table (``database.identity``), if its rows are acknowledged later."""
    database: str | None = None
    """Name of the table's database in messages."""
    reason: str | None = None
    """The reason of its documents, if they show no changes of the source."""
    origin: IdOrigin = field(kw_only=True)
    """The origin of its event ids."""


class RetriedRecord(NamedTuple):
    """A rejected record of an earlier run that this run reads again in a corrected form."""

    id: str
    """``RUN:SPLIT:ROW`` of the rejected record."""
    source: int
    file: str
    row: int
    """Number of the corrected record in the file."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The plan of a run.

    ``documents`` is the folder of the part files, relative to the journal if it lies
    inside or beside the journal."""

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
    """The greatest record id that earlier runs have read from each live source, by its name."""
    states: tuple[str, ...] = ()
    """The sources whose state this run replaces (``source_state``)."""
    epochs: dict[str, int] = field(default_factory=dict)
    """The epoch in event ids of each source of the job, also of those that the run does not read."""
    job_identity: str | None = None
    """Identity of the job's journal directory; ``None`` for a replay."""
    window: tuple[Position | None, Position | None] | None = None
    """First and last position that the run publishes; ``None``: all."""
    retried: tuple[RetriedRecord, ...] = ()
    """The rejected records that a retry reads again."""
    document_limit: int | None = None
    """With minimal modifies: after a document with more bytes, those of its object are planned in full."""
    format: int = JOURNAL_FORMAT
    program: str = f"xds-publisher {__version__}"

    @property
    def identity(self) -> str:
        """Distinguishes runs with equal names: identity of the job, or run digest of a replay."""
        return self.job_identity or self.run

    @property
    def is_masked(self) -> bool:
        """True if the journal has masked values."""
        return "masking" in self.settings

    @property
    def is_minimal(self) -> bool:
        """True if documents are differences from the published state of their objects."""
        documents = self.settings.get("documents")
        return isinstance(documents, dict) and bool(documents.get("minimal"))

    def has_lookups(self, lane: int) -> bool:
        """Returns whether a lane has a file of look-ups."""
        return all(result.has_lookups for result in self.results if result.lane == lane)

    @property
    def is_in_place(self) -> bool:
        """True if all files were written to their places, so that the commit moves nothing."""
        return not self.states and not any(result.staged for result in self.results)

    @property
    def plan(self) -> str:
        """A digest of all planned documents: it covers every byte of every part file."""
        parts = [[r.lane, r.documents, r.bytes, r.digest] for r in self.results]
        text = json.dumps([self.run, self.lanes, parts])
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """Writes the manifest as JSON, one line for each field."""
        return to_lines(fields_of(self))


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The recorded end of a run."""

    idle: bool = False
    """True if the run found no change."""
    notes: tuple[str, ...] = ()
    """Notes of the acknowledgement."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase; empty for a run that a later start finished."""
    engine: str | None = None
    """The engine that planned the run; ``None`` if an earlier start did."""
    writes_status: bool = False
    """True if the acknowledgement wrote the statuses of rows."""
    deletes_rows: bool = False
    """True if it deleted processed rows instead."""

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> RunEnd:
        """Restores the content of the file ``sent``; older versions did not write all fields."""
        seconds, engine = content.get("seconds", {}), content.get("engine")
        notes = tuple(map(str, content["notes"]))
        flags = (bool(content.get(name)) for name in ("writes_status", "deletes_rows"))
        return cls(bool(content["idle"]), notes, dict(seconds), engine, *flags)

    def plain(self) -> dict[str, object]:
        """The plain values that ``from_plain`` restores."""
        plain: dict[str, object] = {"idle": self.idle, "notes": list(self.notes)}
        plain |= {"seconds": dict(self.seconds), "engine": self.engine}
        return plain | {"writes_status": self.writes_status, "deletes_rows": self.deletes_rows}


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal on disk, or in memory.

    ``unpacked_from`` is the place of a run in a segment, whose journal is unpacked for a short time."""

    root: Path
    unpacked_from: PlaceInSegment | None = None
    in_memory: FilesInMemory | None = None
    """The files by their names, if the run was read from a segment and they are not written."""

    @property
    def place(self) -> Path:
        """The place that users know."""
        return self.root if self.unpacked_from is None else self.unpacked_from.origin

    @property
    def staging(self) -> Path:
        """Folder in which tasks stage the journal's own files."""
        return self.root / STAGING

    def new_state(self, source: str) -> Path:
        """Folder of the new state of a source while the run plans."""
        return self.staging / STATE / folder_of(source)

    def committed_state(self, source: str) -> Path:
        """Folder of the new state of a source after the commit."""
        return self.root / STATE / folder_of(source)

    def state(self, source: str) -> Path | None:
        """Folder of the new state of a source; ``None`` if the run did not change it or is not committed."""
        if not (self.root / MANIFEST).exists():
            return None
        places = (self.committed_state(source), self.new_state(source))
        return next((path for path in places if path.is_dir()), None)

    @property
    def is_committed(self) -> bool:
        """True if the run is planned completely."""
        return (self.root / MANIFEST).exists()

    def manifest(self) -> Manifest | None:
        """Reads the manifest; ``None`` if the run is not committed.

        Raises:
            FatalError: The manifest is damaged, or of another version of the program.
        """
        remedy = "remove the journal and publish into a new directory"
        return self.decode(MANIFEST, JOURNAL_FORMAT, partial(restore, Manifest), remedy)

    def names(self, pattern: str) -> list[str]:
        """The names of the text files that match a pattern, ascending."""
        if self.in_memory is not None:
            return sorted(matching(self.in_memory.texts, pattern))
        return sorted(path.name for path in self.root.glob(pattern))

    def decode(
        self, name: str, version: int, decode: Callable[[dict[str, Any]], T], remedy: str
    ) -> T | None:
        """Reads a text file like ``read_versioned_file``."""
        if self.in_memory is None:
            return read_versioned_file(self.root / name, version, decode, remedy)
        text = self.in_memory.texts.get(name)
        if text is None:
            return None
        return decode_versioned_text(text, self.root / name, version, decode, remedy)

    def documents(self, manifest: Manifest) -> Path:
        """The folder of the part files."""
        folder = self.root / manifest.documents
        if folder.name == manifest.documents != "..":
            return folder.absolute()  # to resolve links takes longer
        return folder.resolve()

    def forget(self) -> None:
        """Removes the manifest, so that the run is planned again."""
        (self.root / MANIFEST).unlink(missing_ok=True)

    def mark_sent(
        self,
        end: RunEnd | None = None,
        others: Mapping[Path, str] = MappingProxyType({}),
        manifest: Manifest | None = None,
    ) -> None:
        """Records that the run is sent and acknowledged completely; makes its reports durable.

        ``others`` are the texts of files that are written together with the mark; without ``manifest`` it
        is read.
        """
        entry = {"format": SENT_FORMAT, **(end or RunEnd()).plain()}
        texts = {**others, self.root / SENT: json.dumps(entry) + "\n"}
        manifest = manifest or self.manifest()
        if manifest is not None:
            self.complete(manifest)
        reports = (path for path in self.root.glob("*.json") if path.name != MANIFEST)
        write_all_durably(texts, reports)

    @property
    def acknowledgement(self) -> RunEnd | None:
        """The record of ``mark_sent``; ``None`` if the run is not sent.

        Raises:
            FatalError: The record is damaged, or of another version of the program.
        """
        remedy = "remove it: the next start then acknowledges the run again"
        return self.decode(SENT, SENT_FORMAT, RunEnd.from_plain, remedy)

    @property
    def is_sent(self) -> bool:
        """True if the run is sent and acknowledged completely."""
        return (self.root / SENT).exists()

    @property
    def sent_at(self) -> float:
        """Time of ``mark_sent`` in seconds since 1970-01-01 UTC."""
        return (self.root / SENT).stat().st_mtime

    def begin(self, documents: Path) -> None:
        """Creates the folders of a run, and removes remains of a run that never committed."""
        for folder in (self.staging, documents / DOCUMENT_STAGING):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path in folder.iterdir():
                if path.is_dir():  # a file is the sink's mark of a run that has begun
                    shutil.rmtree(path, ignore_errors=True)

    def discard(self, results: Iterable[LaneResult], documents: Path) -> None:
        """Removes the files of lanes before the commit, so that they are planned again."""
        for result in results:
            if result.staged:
                for folder in (self.staging, documents / DOCUMENT_STAGING):
                    shutil.rmtree(result.folder(folder), ignore_errors=True)
            else:
                for path, _ in self._lane_renames(result, documents):
                    path.unlink(missing_ok=True)

    def commit(self, manifest: Manifest) -> None:
        """Writes the manifest, which is the commit point, then moves staged files to their places.

        All files are durable before the manifest appears.
        """
        for source in manifest.states:
            secure(self.new_state(source))
        documents = self.documents(manifest)
        # ``move`` refuses a plan of which a file is missing
        renames = (self._lane_renames(result, documents) for result in manifest.results)
        files = [path for path, _ in chain.from_iterable(renames) if path.exists()]
        folders = {path.parent for path in files} | {path.parent.parent for path in files}
        folders |= {self.root, self.root.parent, documents}
        write_all_durably({self.root / MANIFEST: manifest.to_json()}, [*files, *folders])
        if not manifest.is_in_place:
            self.move(manifest)

    def complete(self, manifest: Manifest) -> None:
        """Moves staged files to their places durably.  May be called any number of times."""
        is_complete = not self.staging.exists()
        self.move(manifest)
        if is_complete:
            return
        states = [self.root / STATE] if manifest.states else []
        sync([*states, self.root, self.documents(manifest)])
        shutil.rmtree(self.staging, ignore_errors=True)

    def move(self, manifest: Manifest) -> None:
        """Moves staged files to their places; after a loss of power the next start moves them again."""
        documents = self.documents(manifest)
        if manifest.states:
            (self.root / STATE).mkdir(exist_ok=True, mode=0o700)
        for staged, final in self._renames(manifest, documents):
            if staged != final and staged.exists():
                if final.is_dir():  # left by an earlier attempt of the same replay
                    shutil.rmtree(final)
                staged.replace(final)
            elif not final.exists():
                raise FatalError(
                    f"{final} of run {manifest.run} is missing, and so is {staged}: another program "
                    "changed the journal; remove it and publish again"
                )

    def _renames(self, manifest: Manifest, documents: Path) -> Iterator[tuple[Path, Path]]:
        for result in manifest.results:
            yield from self._lane_renames(result, documents)
        for source in manifest.states:
            yield self.new_state(source), self.committed_state(source)

    def _lane_renames(self, result: LaneResult, documents: Path) -> Iterator[tuple[Path, Path]]:
        """The files of a lane before and after ``move``; both are the same for files in their places."""
        if not result.staged:
            names = (*result.journal_files, LaneNames(result.lane).part)
            folders = (*[self.root] * (len(names) - 1), documents)
            yield from ((path, path) for path in map(Path, folders, names))
            return
        folder, part = result.folder(self.staging), LaneNames(result.lane).part
        for name in result.journal_files:
            yield folder / name, self.root / name
        yield result.folder(documents / DOCUMENT_STAGING) / part, documents / part
