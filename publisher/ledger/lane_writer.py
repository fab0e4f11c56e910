"""Collects the plan of one lane: in memory while it is small, else in files under the name of the attempt."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from publisher.ledger.documents import DocumentLog
from publisher.ledger.durable import sync
from publisher.ledger.lane_result import Count, LaneResult, part_name
from publisher.ledger.lane_rows import LaneRows
from publisher.ledger.lookups import LookupLog
from publisher.ledger.records import PositionText, RecordLog, SplitCounts
from publisher.ledger.table_writer import TableWriter
from publisher.ledger.tables import TABLES
from publisher.model.change import Outcome
from publisher.model.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class LaneSpace:
    """The places in which the tasks of a run put the rows of its lanes."""

    staging: Path
    """Folder for the ledger's files; each attempt of a task makes one of its own there."""
    documents: Path
    """Folder for part files, in the same way."""
    to_sink: bool = False
    """True if the part files are those of the sink."""
    rows: int = 0
    """Records of a lane that stay in memory."""
    bytes: int = 0
    """Bytes of all rows of a lane that stay in memory."""
    syncs: bool = False
    """True if tasks must make their files durable, because they may run on other machines than the commit."""


class PlannedLane(NamedTuple):
    """A planned lane: its report, its rows, and the outcomes of the records of each split."""

    result: LaneResult
    rows: LaneRows
    splits: SplitCounts

    @property
    def objects(self) -> Path:
        """The file with the published states of objects, if there are any."""
        return _objects_of(self.rows.folder, self.rows.lane)


class LaneWriter:
    """Collects the plan of one lane.  Files are private (0600), because they contain personal data."""

    def __init__(
        self,
        lane: int,
        space: LaneSpace,
        position_texts: Sequence[PositionText],
        convert: Callable[[str], str] | None = None,
    ) -> None:
        """``position_texts`` format the positions of each source; ``convert`` gives documents another form
        than XML."""
        self._lane = lane
        self._space = space
        self._started = time.monotonic()
        attempt = f"{secrets.token_hex(8)}-{lane:05d}"
        self._folder, self._parts = space.staging / attempt, space.documents / attempt
        if space.to_sink:
            self._parts.mkdir(parents=True)
        self._tables = [TableWriter(self._folder / t.file_of(lane), t) for t in TABLES]
        records, documents, lookups = self._tables
        part = self._parts / part_name(lane)
        self._documents = DocumentLog(documents, part, convert, to_sink=space.to_sink)
        self._records = RecordLog(records, position_texts)
        self.lookups = LookupLog(lookups)
        self._is_spilled = False
        self._tallies: list[tuple[int, int]] = []

    @property
    def objects(self) -> Path:
        """The file for the published states of objects."""
        return _objects_of(self._folder, self._lane)

    def add_arrivals(self, batch: pa.RecordBatch) -> int:
        """Adds the next arrivals; returns the row number of the first."""
        return self._records.add_arrivals(batch)

    def add_tally(self, split: int, records: int) -> None:
        """Records the number of records of a split."""
        self._tallies.append((split, records))

    def add_plan(
        self, source: int, documents: Sequence[pa.RecordBatch], outcomes: Sequence[Outcomes]
    ) -> None:
        """Adds documents in their order, and the outcomes of changes without one."""
        for batch in documents:
            self._records.publish(batch, self._documents.write(source, batch))
        for each in outcomes:
            self._records.decide(each)

    def advance(self) -> None:
        """Takes complete batches; called once for each batch of arrivals.  Too many rows go to files."""
        self._records.advance()
        self._limit_memory()

    def _limit_memory(self) -> None:
        rows = max(table.count for table in self._tables)
        size = sum(table.bytes_in_memory for table in self._tables)
        if self._is_spilled or (rows <= self._space.rows and size <= self._space.bytes):
            return
        for folder in (self._folder, self._parts):
            folder.mkdir(parents=True, exist_ok=True)
        self._documents.spill()
        for table in self._tables:
            table.spill()
        self._is_spilled = True

    def close(self, objects: int = 0) -> PlannedLane:
        """Completes the rows.

        ``objects`` is the number of written states of objects.

        Raises:
            InternalError: A change has no decision.
        """
        self._records.close()
        self.lookups.close()
        self._limit_memory()
        self._documents.close()
        closed = {table.table.name: table.close() for table in self._tables}
        tables = None if self._is_spilled else closed
        rows = LaneRows(self._lane, self._folder, self._parts, tables)
        result = LaneResult(
            lane=self._lane,
            documents=self._documents.count,
            bytes=self._documents.bytes,
            operations=tuple(sorted(self._documents.operations.items())),
            counts=tuple(_counts(self._records.counts)),
            tallies=tuple(self._tallies),
            digest=self._documents.digest,
            objects=objects,
            seconds=round(time.monotonic() - self._started, 3),
            span=self._records.span,
            published=tuple(
                sorted((*key, *bounds) for key, bounds in self._records.published.items())
            ),
        )
        if objects:
            self.objects.chmod(0o600)
        parts = [rows.part] if self._is_spilled or self._space.to_sink else []
        files = [*rows.files, *parts, *([self.objects] if objects else [])]
        if self._space.syncs:
            folders = {path.parent for path in files}
            sync([*files, *folders, *(folder.parent for folder in folders)])
        return PlannedLane(result, rows, self._records.counts)

    def abandon(self) -> None:
        """Closes the files of a failed attempt; the next start removes them from the staging folders."""
        for close in (self._documents.close, *(table.abandon for table in self._tables)):
            with suppress(OSError):  # a full disk, for example: the first error is reported
                close()


def _objects_of(folder: Path, lane: int) -> Path:
    return folder / f"lane-{lane:05d}.objects.db"


def _counts(splits: SplitCounts) -> list[Count]:
    """Sums the records of a lane by source, outcome and reason."""
    sums: dict[tuple[int, int, str], int] = {}
    for (source, _, outcome, reason), records in splits.items():
        kind = source, outcome, reason or ""
        sums[kind] = sums.get(kind, 0) + records
    return [
        Count(source, Outcome(outcome), reason or None, records)
        for (source, outcome, reason), records in sorted(sums.items())
    ]
