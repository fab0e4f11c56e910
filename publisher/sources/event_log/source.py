"""Reads event logs in files.

The table and its columns may have any names; order, number and types of the columns are fixed.  So files
without column names are read by position, in one of two documented orders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from publisher.errors import UsageError
from publisher.model.change import Position
from publisher.sources.columns.object_names import Names
from publisher.sources.columns.record_batches import Place, find_records
from publisher.sources.contract import Context, Source
from publisher.sources.event_log.check_layout import check_layout
from publisher.sources.event_log.options import EventLogOptions
from publisher.sources.event_log.to_changes import EventLogChangeBuilder
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import FileRange, Split
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import SnapshotOptions


@dataclass(frozen=True, slots=True)
class EventLog(Source):
    """An event log of the IDM driver for JDBC in files."""

    options: EventLogOptions = field(default_factory=EventLogOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "event-log"

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """As ``Source.files``: the files of known kinds."""
        return file_splits.files(paths, may_be_none=may_be_none)

    def splits(
        self, paths: Sequence[str | os.PathLike[str]], wanted: int
    ) -> list[Split[FileRange]]:
        """As ``Source.splits``."""
        return file_splits.splits(paths, self.snapshot, self.options.expected_columns(), wanted)

    @property
    def joins_keys(self) -> bool:
        """As ``SourceBase.joins_keys``."""
        return self.options.joins_keys

    def read(self, split: Split[FileRange], number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        frames = self._frames(split)
        return read_frames(frames, split.path, number, ctx, self.options)

    def position_text(self, position: Position) -> str:
        """As ``Source.position_text``."""
        return position.text()

    def parse_position(self, text: str) -> Position:
        """As ``Source.parse_position``."""
        return position_of(text)

    def raw_records(self, split: Split[FileRange], rows: frozenset[int]) -> dict[int, str]:
        """As ``Source.raw_records``."""
        remaining = file_splits.narrow(split, min(rows))
        columns = self.options.expected_columns()
        return dict(find_records(file_splits.frames(remaining, self.snapshot, columns), rows))

    def _frames(self, split: Split[FileRange]) -> Iterator[Frame]:
        columns = self.options.expected_columns()
        frames = file_splits.frames(split, self.snapshot, columns)
        if file_splits.by_position(split, self.snapshot, columns):
            return check_layout(frames, split.path, self.options.layout)
        return frames


def read_frames(
    frames: Iterator[Frame],
    file: str,
    number: int,
    ctx: Context,
    options: EventLogOptions,
    *,
    fingerprints: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Turns frames of the documented columns into batches of ``RECORD_SCHEMA`` and a tally.

    ``file`` names the input in positions of records without a usable record_id; ``fingerprints`` adds
    fingerprints of rows that are acknowledged later.
    """
    place = Place(ctx.source, number, file, ctx.lanes)
    case = options.identifier_case
    names = Names(ctx.catalogue, options.schema, case, ctx.lanes, ctx.excludes)
    builder = EventLogChangeBuilder(
        place,
        names,
        any_status=options.status == "any",
        time_zone=options.time_zone,
        child_row_events=ctx.classes.child_row_events,
        key_change=options.key_change,
        fingerprints=fingerprints,
    )
    return builder.batches(frames)


def position_of(text: str) -> Position:
    """Parses a record_id (``4711``), or the place of a record without record_id (``events.csv:17``).

    Raises ``UsageError`` for anything else.
    """
    part, _, number = text.strip().rpartition(":")
    if not number.isascii() or not number.isdigit():
        raise UsageError(
            f"{text!r} is not a position of an event log; write a record_id or FILE:NUMBER"
        )
    return Position(part, int(number), 0, 0)
