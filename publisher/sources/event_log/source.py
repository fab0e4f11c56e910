"""Reads event logs, in files or in a table of a database.

The table and its columns may have any names; order, number and types of the columns are fixed.  So files
without column names are read by position, in one of two documented orders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from publisher.database.connection import Database
from publisher.errors import UsageError
from publisher.model.change import Outcome, Position, Reason
from publisher.sources.columns.object_names import Names
from publisher.sources.columns.record_batches import Place, as_json, find_records
from publisher.sources.contract import (
    AnySplit,
    Context,
    PrepareContext,
    PreparedSource,
    RowNow,
    Source,
)
from publisher.sources.event_log.check_layout import check_layout
from publisher.sources.event_log.fingerprints import FINGERPRINTED, fingerprints_of
from publisher.sources.event_log.options import EventLogOptions
from publisher.sources.event_log.to_changes import EventLogChangeBuilder
from publisher.sources.files import file_splits
from publisher.sources.files.digest import digest_of_text
from publisher.sources.files.file_splits import FileRange, Split
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.live import table_reader
from publisher.sources.live.find_table import LiveTable, describe
from publisher.sources.live.table_split import TableInput, TableSplit


@dataclass(frozen=True, slots=True)
class EventLog(Source):
    """An event log of the IDM driver for JDBC.  Of a table only rows of the configured status are read."""

    options: EventLogOptions = field(default_factory=EventLogOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    table: TableInput | None = None
    reported: frozenset[int] = frozenset()
    """Digests of rejected rows without record_id that earlier runs have reported; their status stays N."""
    format: str = "event-log"

    @property
    def joins_keys(self) -> bool:
        """As ``Source.joins_keys``."""
        return self.options.joins_keys

    def splits(
        self, paths: Sequence[str | os.PathLike[str]], wanted: int
    ) -> list[Split[FileRange]]:
        """As ``Source.splits``."""
        return file_splits.splits(paths, self.snapshot, self.options.expected_columns(), wanted)

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
        frames = self._table_rows(split) if isinstance(split, TableSplit) else self._rows(split)
        name = self.table.name if self.table is not None else self.file_of(split)
        place = Place(ctx.source, number, name, ctx.lanes)
        names = Names(
            ctx.catalogue,
            self.options.schema,
            self.options.identifier_case,
            ctx.lanes,
            ctx.excludes,
        )
        builder = EventLogChangeBuilder(
            place,
            names,
            any_status=self.options.status == "any",
            time_zone=self.options.time_zone,
            child_row_events=ctx.classes.child_row_events,
            key_change=self.options.key_change,
            fingerprints=self.table is not None,
        )
        for batch in builder.batches(frames):
            yield _ignore_known_rejects(batch, self.reported) if self.reported else batch

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

    def fits(self, database: Database) -> None:
        """As ``Source.fits``."""
        self._column_places(database)

    def rows_at(self, position: Position) -> list[RowNow]:
        """As ``Source.rows_at``."""
        column = self.options.expected_columns().written_name("record_id")
        live = replace(self._live(), where=(column, str(position.high)))
        rows: list[RowNow] = []
        for frame in self._table_rows(TableSplit(0), live):
            fingerprints = fingerprints_of([frame.batch.column(n) for n in FINGERPRINTED])
            texts = map(as_json, frame.batch.to_pylist())
            rows += map(RowNow, texts, fingerprints.tolist())
        return rows if not position.part else []

    def _rows(self, split: Split[FileRange]) -> Iterator[Frame]:
        columns = self.options.expected_columns()
        frames = file_splits.frames(split, self.snapshot, columns)
        if file_splits.by_position(split, self.snapshot, columns):
            return check_layout(frames, split.path, self.options.layout)
        return frames

    def _table_rows(
        self, split: TableSplit[None], live: LiveTable | None = None
    ) -> Iterator[Frame]:
        assert self.table is not None
        names = list(self.options.expected_columns().names)
        with Database(self.table.database) as database:
            places = self._column_places(database)
            for frame in table_reader.read(
                database, live or self._live(), split, self.table.text_of
            ):
                columns = [frame.batch.column(place) for place in places]
                yield frame._replace(batch=pa.RecordBatch.from_arrays(columns, names=names))

    def _column_places(self, database: Database) -> list[int]:
        """Finds the index of each documented column.  Raises ``FatalError`` if one is missing."""
        live = self._live()
        names = describe(database, live)
        return self.options.expected_columns().locate(names, f"table {live.name}", is_file=False)

    def _live(self) -> LiveTable:
        assert self.table is not None
        written_name = self.options.expected_columns().written_name
        status = (written_name("status"), self.options.status)
        return LiveTable(
            name=self.table.name,
            order=written_name("record_id"),
            where=None if self.options.status == "any" else status,
        )


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


def _ignore_known_rejects(batch: pa.RecordBatch, reported: frozenset[int]) -> pa.RecordBatch:
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
        field = batch.schema.field(index)
        column = pc.if_else(pa.array(known), pa.scalar(value, field.type), batch[name])
        batch = batch.set_column(index, field, column)
    return batch
