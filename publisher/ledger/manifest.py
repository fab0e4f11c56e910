"""The plan of a run in plain values: its sources, their splits and options, the results of its lanes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from publisher import __version__
from publisher.ledger.file_entries import FileEntry
from publisher.ledger.lane_result import LaneResult
from publisher.model.change import Position
from publisher.model.event_ids import IdOrigin
from publisher.model.plain import fields_of, to_lines


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


@dataclass(frozen=True, slots=True)
class SourceReading:
    """Everything about a source that is needed to read positions."""

    name: str
    format: str
    options: dict[str, object]
    reading: dict[str, object]

    @classmethod
    def of(cls, entry: SourceEntry) -> SourceReading:
        """Takes the values from a source of a run."""
        return cls(entry.name, entry.format, entry.options, entry.reading)


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

    ``documents`` is the folder of the part files, relative to the ledger if it lies
    inside or beside the ledger."""

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
    """Identity of the job's ledger directory; ``None`` for a replay."""
    window: tuple[Position | None, Position | None] | None = None
    """First and last position that the run publishes; ``None``: all."""
    retried: tuple[RetriedRecord, ...] = ()
    """The rejected records that a retry reads again."""
    document_limit: int | None = None
    """With minimal modifies: after a document with more bytes, those of its object are planned in full."""
    program: str = f"xds-publisher {__version__}"

    @property
    def identity(self) -> str:
        """Distinguishes runs with equal names: identity of the job, or run digest of a replay."""
        return self.job_identity or self.run

    @property
    def is_masked(self) -> bool:
        """True if the ledger has masked values."""
        return "masking" in self.settings

    @property
    def is_minimal(self) -> bool:
        """True if documents are differences from the published state of their objects."""
        documents = self.settings.get("documents")
        return isinstance(documents, dict) and bool(documents.get("minimal"))

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
    target: str | None = None
    """The sink that has its documents."""
