"""Sources whose records are rows of known columns, in files or in a table: a format of three functions.

A format says which columns its rows have, decodes the rows of a frame, and turns decoded rows into changes.
Splits, snapshots, positions, rows that are read again and tallies are the same for all of these formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.database.connection import Database
from publisher.formats.columns.object_names import Names
from publisher.formats.columns.record_batches import Place, as_json, broken, find_records, tally
from publisher.formats.contract import (
    AnySplit,
    Context,
    PrepareContext,
    PreparedSource,
    RowNow,
    Source,
)
from publisher.formats.files import file_splits
from publisher.formats.files.digest import digest_of_text
from publisher.formats.files.file_splits import FileRange, Split
from publisher.formats.files.frame import Frame
from publisher.formats.files.options import ExpectedColumns, SnapshotOptions
from publisher.formats.live import table_reader
from publisher.formats.live.find_table import LiveTable, describe
from publisher.formats.live.table_split import DatabaseTable, TableSplit
from publisher.model.change import Outcome, Position, Reason
from publisher.model.keys import IdentifierCase

Fingerprints = npt.NDArray[np.int64]


class RowOptions(Protocol):
    """The settings that a format of rows needs at least."""

    @property
    def schema(self) -> str | None:
        """Schema of tables that the source names without one."""

    @property
    def identifier_case(self) -> IdentifierCase:
        """Case of schema, table and column names."""

    @property
    def joins_keys(self) -> bool:
        """True if changes of keys are published, so that the keys of an object must share a lane."""

    def expected_columns(self) -> ExpectedColumns:
        """Returns the documented columns under their names in the input."""


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The functions of a format of rows; all of them are known by name, so that tasks can load them."""

    name: str
    decode: Callable[[Frame, Place, Any, Fingerprints | None], Any]
    """Decodes the rows of a frame with the documented columns: each gets its position, and a fault if it
    cannot be used.  Knows no other row, no catalogue."""
    changes: Callable[[Any, Names, Context, Any], Iterator[pa.RecordBatch]]
    """Turns decoded rows into batches of ``RECORD_SCHEMA``: one row for each change, and one for each record
    that is none."""
    table: Callable[[Any, str], LiveTable]
    """The rows of a table to read, by the options and its name; they are divided by the position."""
    parse_position: Callable[[str], Position]
    """Parses a position as users write it.  Raises ``UsageError``."""
    fingerprints: Callable[[pa.RecordBatch], Fingerprints]
    """Computes the fingerprints of the rows of a table, by which acknowledgement recognises them."""
    check: Callable[[Iterator[Frame], str, Any], Iterator[Frame]]
    """Passes the frames of a file without column names on.  Raises ``FatalError`` if they do not fit."""


@dataclass(frozen=True, slots=True)
class RowSource(Source):
    """A source of rows in files, or in a table of a database."""

    rows: RowFormat
    options: Any
    """``RowOptions``."""
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    table: DatabaseTable | None = None
    reported: frozenset[int] = frozenset()
    """Digests of rejected rows without position that earlier runs have reported; their status stays N."""

    @property
    def format(self) -> str:
        """As ``Source.format``."""
        return self.rows.name

    @property
    def joins_keys(self) -> bool:
        """As ``Source.joins_keys``."""
        return bool(self.options.joins_keys)

    @property
    def _columns(self) -> ExpectedColumns:
        columns: ExpectedColumns = self.options.expected_columns()
        return columns

    def splits(self, paths: Sequence[str | PathLike[str]], wanted: int) -> list[Split[FileRange]]:
        """As ``Source.splits``."""
        return file_splits.splits(paths, self.snapshot, self._columns, wanted)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``; all splits of a table read the same snapshot of it."""
        if self.table is None:
            return Source.prepare(self, context)
        database = context.stack.enter_context(Database(self.table.database))
        self.fits(database)
        moment = table_reader.moment(
            database, self._live(), context.wanted, is_read_once=not self.joins_keys
        )
        splits = context.stack.enter_context(moment)
        return PreparedSource(replace(self, reported=context.reported), splits)

    def read_until(self, split: AnySplit, last: int) -> AnySplit:
        """As ``Source.read_until``: without a snapshot, leaves later rows of a table to the next run."""
        if isinstance(split, TableSplit) and split.snapshot is None:
            return replace(split, high=last + 1)
        return split

    def read(self, split: AnySplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        name = self.file_of(split) if self.table is None else self.table.name
        place = Place(ctx.source, number, name, ctx.lanes)
        case = self.options.identifier_case
        names = Names(ctx.catalogue, self.options.schema, case, ctx.lanes, ctx.excludes)
        count = 0
        for frame in self._frames(split):
            count += frame.batch.num_rows + len(frame.broken)
            if frame.broken:
                yield broken(frame, place)
            if frame.batch.num_rows:
                fingerprints = None if self.table is None else self.rows.fingerprints(frame.batch)
                rows = self.rows.decode(frame, place, self.options, fingerprints)
                for batch in self.rows.changes(rows, names, ctx, self.options):
                    yield _ignore_reported(batch, self.reported) if self.reported else batch
        yield tally(place, count)

    def position_text(self, position: Position) -> str:
        """As ``Source.position_text``."""
        return position.text()

    def parse_position(self, text: str) -> Position:
        """As ``Source.parse_position``."""
        return self.rows.parse_position(text)

    def raw_records(self, split: Split[FileRange], rows: frozenset[int]) -> dict[int, str]:
        """As ``Source.raw_records``."""
        remaining = file_splits.narrow(split, min(rows))
        return dict(find_records(file_splits.frames(remaining, self.snapshot, self._columns), rows))

    def fits(self, database: Database) -> None:
        """As ``Source.fits``."""
        self._places(database)

    def rows_at(self, position: Position) -> list[RowNow]:
        """As ``Source.rows_at``."""
        live = self._live()
        assert live.order is not None
        rows: list[RowNow] = []
        at_position = replace(live, where=(live.order, str(position.high)))
        for frame in self._table_frames(TableSplit(0), at_position):
            texts = map(as_json, frame.batch.to_pylist())
            rows += map(RowNow, texts, self.rows.fingerprints(frame.batch).tolist())
        return rows if not position.part else []

    def _frames(self, split: AnySplit) -> Iterator[Frame]:
        if isinstance(split, TableSplit):
            return self._table_frames(split, self._live())
        frames = file_splits.frames(split, self.snapshot, self._columns)
        if file_splits.by_position(split, self.snapshot, self._columns):
            return self.rows.check(frames, split.path, self.options)
        return frames

    def _table_frames(self, split: TableSplit[None], live: LiveTable) -> Iterator[Frame]:
        assert self.table is not None
        with Database(self.table.database) as database:
            places = self._places(database)
            for frame in table_reader.read(database, live, split, self.table.text_of):
                columns = [frame.batch.column(place) for place in places]
                batch = pa.RecordBatch.from_arrays(columns, names=list(self._columns.names))
                yield frame._replace(batch=batch)

    def _places(self, database: Database) -> list[int]:
        """Finds the index of each documented column.  Raises ``FatalError`` if one is missing."""
        live = self._live()
        return self._columns.locate(describe(database, live), f"table {live.name}", is_file=False)

    def _live(self) -> LiveTable:
        assert self.table is not None
        return self.rows.table(self.options, self.table.name)


def _ignore_reported(batch: pa.RecordBatch, reported: frozenset[int]) -> pa.RecordBatch:
    """Ignores rejects that earlier runs reported, instead of reporting them again."""
    rejected = pc.fill_null(pc.equal(batch["outcome"], int(Outcome.REJECTED)), False)
    if not pc.any(rejected).as_py():
        return batch
    nameless = pc.not_equal(pc.fill_null(batch["part"], ""), "")
    known = [
        candidate and digest_of_text(raw or "") in reported
        for candidate, raw in zip(
            pc.and_(rejected, nameless).to_pylist(), batch["raw"].to_pylist(), strict=True
        )
    ]
    ignored = {"outcome": int(Outcome.IGNORED), "reason": str(Reason.REPORTED)}
    for name, value in ignored.items():
        index = batch.schema.get_field_index(name)
        field_ = batch.schema.field(index)
        column = pc.if_else(pa.array(known), pa.scalar(value, field_.type), batch[name])
        batch = batch.set_column(index, field_, column)
    return batch
