"""The event log table of the IDM driver for JDBC, read from snapshots.

The table's and columns' names are free, their order, number and types are fixed (reference, event log
columns), so files without names are read by position, in one of two documented orders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError, OptionProblem, UsageError, refuse_options
from publisher.model.change import Position
from publisher.model.keys import IdentifierCase
from publisher.sources.columns.columns import texts
from publisher.sources.columns.object_names import Names
from publisher.sources.columns.record_batches import Place, as_json
from publisher.sources.contract import Context
from publisher.sources.event_log.normalise import Normaliser
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import Columns, SnapshotOptions
from publisher.xds.times import zone_problems

Layout = Literal["3.5", "2.x"]

LAYOUT: Mapping[Layout, tuple[str, ...]] = {
    "3.5": (
        "record_id",
        "table_key",
        "status",
        "event_type",
        "event_time",
        "perpetrator",
        "table_name",
        "column_name",
        "old_value",
        "new_value",
    ),
    "2.x": (
        "record_id",
        "status",
        "event_type",
        "event_time",
        "perpetrator",
        "table_name",
        "table_key",
        "column_name",
        "old_value",
        "new_value",
    ),
}
"""Columns by position, by driver version: 2.0 and 2.1; 3.5.1, 3.6 and 4.8."""

OPTIONAL = frozenset({"perpetrator", "column_name", "old_value", "new_value"})
"""Columns that may be NULL, and so may be absent from a JSON object."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an event log is to be read."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Custom column names: the name in the log = the documented name."""
    layout: Layout = "3.5"
    """Order of columns without names: that of driver 3.5 and later (key second), or of 2.x (status
    second)."""
    status: Literal["N", "any"] = "N"
    """Rows to read: new ones, or all, to replay a log that was processed. With ``any`` each
    ``publish`` of a live table publishes all rows again, and ``--follow`` is refused."""
    time_zone: str = "UTC"
    """IANA name of the time zone of event times that carry none."""
    schema: str | None = None
    """Schema of tables that the log names without one."""
    identifier_case: IdentifierCase = IdentifierCase.DATABASE
    """Case of schema, table and column names in keys and documents. ``database`` takes it from the
    database, ``[tables]`` or ``schema``, and keeps names that none of these knows as written."""

    def __post_init__(self) -> None:
        """Raises ``OptionsError`` for an unknown zone or a wrong mapping of columns."""
        problems = list(zone_problems(self.time_zone))
        known = LAYOUT[self.layout]
        unknown = sorted(set(self.columns.values()) - set(known))
        if unknown or len(set(self.columns.values())) < len(self.columns):
            text = (
                f"{', '.join(unknown) or 'a name'} is not one of {', '.join(known)}, or appears "
                "twice; map each custom name to one of these"
            )
            problems.append(OptionProblem("columns", text))
        refuse_options(problems)

    def wanted(self) -> Columns:
        """The columns to ask a file for."""
        written = {ours: theirs for theirs, ours in self.columns.items()}
        return Columns(LAYOUT[self.layout], written, OPTIONAL)


def options_of(**plain: Any) -> Options:
    """The options from their plain values, as a journal keeps them."""
    return Options(**plain | {"identifier_case": IdentifierCase(plain["identifier_case"])})


@dataclass(frozen=True, slots=True)
class EventLog:
    """The source: snapshots of an event log."""

    options: Options = field(default_factory=Options)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "event-log"

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """The files of a snapshot, of the kinds that are known by their names."""
        return file_splits.files(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split]:
        """The parts that tasks read."""
        return file_splits.splits(paths, self.snapshot, self.options.wanted(), wanted)

    def read(self, split: Split, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``, the tally last."""
        return read_frames(self._frames(split), split.path, number, ctx, self.options)

    def position_text(self, position: Position) -> str:
        """A position as users write it."""
        return position.text()

    def parse_position(self, text: str) -> Position:
        """The position that a user wrote."""
        return position_of(text)

    def raw(self, split: Split, row: int) -> str | None:
        """One record as JSON text, read again."""
        rest = file_splits.narrowed(split, row, self.snapshot)
        for frame in file_splits.frames(rest, self.snapshot, self.options.wanted()):
            if len(frame.rows) and frame.rows[0] > row and not frame.broken:
                return None
            for broken in frame.broken:
                if broken.row == row:
                    return as_json(broken.raw)
            hits = (frame.rows == row).nonzero()[0]
            if len(hits):
                return as_json(frame.batch.slice(int(hits[0]), 1).to_pylist()[0])
        return None

    def _frames(self, split: Split) -> Iterator[Frame]:
        columns = self.options.wanted()
        frames = file_splits.frames(split, self.snapshot, columns)
        if file_splits.by_position(split, self.snapshot, columns):
            return _with_layout_checked(frames, split.path, self.options.layout)
        return frames


def read_frames(
    frames: Iterator[Frame],
    file: str,
    number: int,
    ctx: Context,
    options: Options,
    *,
    fingerprints: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Batches of ``RECORD_SCHEMA`` of frames that hold the documented columns, and their tally.

    ``file`` names the input in the positions of records that have no usable record_id;
    ``fingerprints``: of rows that are acknowledged later.
    """
    place = Place(ctx.source, number, file, ctx.lanes)
    case = options.identifier_case
    names = Names(ctx.catalogue, options.schema, case, ctx.lanes, ctx.excludes)
    normaliser = Normaliser(
        place,
        names,
        any_status=options.status == "any",
        time_zone=options.time_zone,
        fingerprints=fingerprints,
    )
    return normaliser.batches(frames)


def _with_layout_checked(frames: Iterator[Frame], path: str, layout: Layout) -> Iterator[Frame]:
    """Refuse a file whose status column holds no status letter in its first records."""
    checked = False
    for frame in frames:
        if not checked and frame.batch.num_rows:
            _check_layout(frame.batch, path, layout)
            checked = True
        yield frame


def _check_layout(batch: pa.RecordBatch, path: str, layout: Layout) -> None:
    if _has_status(batch, LAYOUT[layout].index("status")):
        return
    other: Layout = "2.x" if layout == "3.5" else "3.5"
    fits = _has_status(batch, LAYOUT[other].index("status"))
    advice = f'set layout = "{other}"' if fits else "name the columns in the file"
    raise FatalError(
        f"{path}: none of the first {batch.num_rows} records has a status letter"
        f" where the layout {layout} has it; {advice}"
    )


def _has_status(batch: pa.RecordBatch, column: int) -> bool:
    text = pc.utf8_trim_whitespace(texts(batch.column(column))[0])
    letters = pc.and_(pc.equal(pc.utf8_length(text), 1), pc.utf8_is_alpha(text))
    return bool(pc.any(letters).as_py())


def position_of(text: str) -> Position:
    """``4711`` is a record_id; ``events.csv:17`` a record without one, by its place.

    Raises ``UsageError`` for anything else.
    """
    part, _, number = text.strip().rpartition(":")
    if not number.isascii() or not number.isdigit():
        raise UsageError(
            f"{text!r} is no position of an event log; write a record_id or FILE:NUMBER"
        )
    return Position(part, int(number), 0, 0)


SOURCE = EventLog
"""What the registry makes a source of this format from."""
