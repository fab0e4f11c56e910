"""The event log table of the IDM driver for JDBC, read live from its database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from publisher.change import Position
from publisher.database import Database, DatabaseOptions
from publisher.sources import tables
from publisher.sources.contract import Context, Kept
from publisher.sources.event_log import Options, position_of, read_frames
from publisher.sources.frames import Frame
from publisher.sources.tables import LiveTable, TableSplit


@dataclass(frozen=True, slots=True)
class EventLogTable:
    """The source: an event log in a database.  Only rows of the wanted status are read.

    ``text_of`` gives the log's text form of a value that a database driver returns.
    """

    options: Options
    database: DatabaseOptions
    table: str
    text_of: Callable[[Any], str | None]
    format: str = "event-log"

    @contextmanager
    def opened(
        self,
        wanted: int,
        kept: Kept | None = None,  # noqa: ARG002 - rows say themselves what became of them
    ) -> Iterator[tuple[TableSplit, ...]]:
        """Splits that all see the table as it is now, while the context is open.

        Raises ``FatalError`` where the table does not fit, ``UnreachableError``.
        """
        with Database(self.database) as database:
            self.places(database)
            with tables.moment(database, self._live(), wanted) as splits:
                yield splits

    def fits(self, database: Database) -> None:
        """As ``LiveSource.fits``."""
        self.places(database)

    def places(self, database: Database) -> list[int]:
        """Index of each documented column in the table.  Raises ``FatalError`` where one is missing."""
        found = tables.describe(database, self._live())
        return self.options.wanted().locate(found, f"table {self.table}")

    def read(self, split: TableSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        with Database(self.database) as database:
            frames = self._frames(database, split)
            yield from read_frames(frames, self.table, number, ctx, self.options)

    def position_text(self, position: Position) -> str:
        """As ``Source.position_text``."""
        return position.text()

    def parse_position(self, text: str) -> Position:
        """As ``Source.parse_position``."""
        return position_of(text)

    def _frames(self, database: Database, split: TableSplit) -> Iterator[Frame]:
        places = self.places(database)
        names = self.options.wanted().names
        for frame in tables.read(database, self._live(), split, self.text_of):
            columns = [frame.batch.column(place) for place in places]
            yield frame._replace(batch=pa.RecordBatch.from_arrays(columns, names=list(names)))

    def _live(self) -> LiveTable:
        written = self.options.wanted().written
        status = (written.get("status", "status"), self.options.status)
        return LiveTable(
            name=self.table,
            order=written.get("record_id", "record_id"),
            where=None if self.options.status == "any" else status,
        )
