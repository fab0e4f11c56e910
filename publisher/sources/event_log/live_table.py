"""Reads event log tables in databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.model.change import Outcome, Position, Reason
from publisher.sources.columns.record_batches import as_json
from publisher.sources.contract import (
    Context,
    LiveSource,
    PrepareContext,
    PreparedSource,
    RowNow,
)
from publisher.sources.event_log.fingerprints import FINGERPRINTED, fingerprints_of
from publisher.sources.event_log.options import EventLogOptions
from publisher.sources.event_log.source import position_of, read_frames
from publisher.sources.files.digest import digest_of_text
from publisher.sources.files.file_splits import Split
from publisher.sources.files.frame import Frame
from publisher.sources.live import table_reader
from publisher.sources.live.find_table import LiveTable, describe
from publisher.sources.live.table_split import TableSplit


@dataclass(frozen=True, slots=True)
class LiveEventLog(LiveSource):
    """An event log in a database.  Only rows of the configured status are read.

    ``text_of`` converts a value of the database driver to the text form of logs.
    """

    options: EventLogOptions
    database: DatabaseOptions
    table: str
    text_of: Callable[[Any], str | None]
    format: str = "event-log"
    reported: frozenset[int] = frozenset()
    """Digests of rejected rows without record_id that earlier runs have reported; their status stays N."""

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``SourceBase.prepare``; all splits read the same snapshot of the table."""
        database = context.stack.enter_context(Database(self.database))
        self.places(database)
        moment = table_reader.moment(
            database,
            self._live(),
            context.wanted,
            is_read_once=not self.joins_keys,
        )
        splits = context.stack.enter_context(moment)
        source = replace(self, reported=context.reported)
        return PreparedSource(source, splits)

    @property
    def joins_keys(self) -> bool:
        """As ``SourceBase.joins_keys``."""
        return self.options.joins_keys

    def read_until(
        self, split: Split[Any] | TableSplit[Any], last: int
    ) -> Split[Any] | TableSplit[Any]:
        """As ``SourceBase.read_until``: without a snapshot, leaves later rows to the next run."""
        if isinstance(split, TableSplit) and split.snapshot is None:
            return replace(split, high=last + 1)
        return split

    def fits(self, database: Database) -> None:
        """As ``LiveSource.fits``."""
        self.places(database)

    def places(self, database: Database) -> list[int]:
        """Finds the index of each documented column.  Raises ``FatalError`` if one is missing."""
        names = describe(database, self._live())
        return self.options.expected_columns().locate(names, f"table {self.table}", is_file=False)

    def read(self, split: TableSplit[None], number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        with Database(self.database) as database:
            frames = self._frames(database, split)
            records = read_frames(frames, self.table, number, ctx, self.options, fingerprints=True)
            for batch in records:
                yield _ignore_known_rejects(batch, self.reported) if self.reported else batch

    def position_text(self, position: Position) -> str:
        """As ``Source.position_text``."""
        return position.text()

    def parse_position(self, text: str) -> Position:
        """As ``Source.parse_position``."""
        return position_of(text)

    def rows_at(self, position: Position) -> list[RowNow]:
        """As ``LiveSource.rows_at``."""
        column = self.options.expected_columns().written_name("record_id")
        live = replace(self._live(), where=(column, str(position.high)))
        rows: list[RowNow] = []
        with Database(self.database) as database:
            for frame in self._frames(database, TableSplit(0), live):
                fingerprints = fingerprints_of([frame.batch.column(n) for n in FINGERPRINTED])
                texts = map(as_json, frame.batch.to_pylist())
                rows += map(RowNow, texts, fingerprints.tolist())
        return rows if not position.part else []

    def _frames(
        self, database: Database, split: TableSplit[None], live: LiveTable | None = None
    ) -> Iterator[Frame]:
        places = self.places(database)
        names = self.options.expected_columns().names
        for frame in table_reader.read(database, live or self._live(), split, self.text_of):
            columns = [frame.batch.column(place) for place in places]
            batch = pa.RecordBatch.from_arrays(columns, names=list(names))
            yield frame._replace(batch=batch)

    def _live(self) -> LiveTable:
        written_name = self.options.expected_columns().written_name
        status = (written_name("status"), self.options.status)
        return LiveTable(
            name=self.table,
            order=written_name("record_id"),
            where=None if self.options.status == "any" else status,
        )


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
