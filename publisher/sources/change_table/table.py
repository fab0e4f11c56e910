"""Change tables read live from their database, in the order of ``change_seq``.

So an UPDATE and its before image lie side by side.  Change tables have no status: what was published is
left out by its change_seq (``after``).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa
from sqlalchemy import types

from publisher.change import Position
from publisher.database import Database, DatabaseOptions, copy
from publisher.sources import tables
from publisher.sources.change_table import seq, survey
from publisher.sources.change_table.layout import Layout, arranged
from publisher.sources.change_table.options import Options
from publisher.sources.change_table.rows import Rows, rows_of
from publisher.sources.change_table.source import Reader
from publisher.sources.change_table.survey import Found
from publisher.sources.contract import Context
from publisher.sources.frames import Frame
from publisher.sources.record_batches import Place
from publisher.sources.tables import LiveTable, TableSplit

NEAR = 16
"""Rows of one change_seq lie side by side; more than these are records that stand there twice."""
FRAMES_SURVEYED = 4


@dataclass(frozen=True, slots=True)
class LiveChangeTable:
    """The source: a change table in a database.

    ``text_of`` gives the text form of a value that a database driver returns; ``after`` is the last
    change_seq that was published.
    """

    options: Options
    database: DatabaseOptions
    table: str
    text_of: Callable[[Any], str | None]
    after: str | None = None
    format: str = "change-table"

    @contextmanager
    def opened(self, wanted: int) -> Iterator[tuple[TableSplit, ...]]:  # noqa: ARG002 - read in order
        """One split that sees the table as it is now, while the context is open.

        Raises ``FatalError`` where the table does not fit, ``UnreachableError``.
        """
        with Database(self.database) as database:
            layout = self.layout(database)
            with tables.moment(database, self._live(layout), 1) as (split,):
                found = self._surveyed(database, layout, split)
                yield (replace(split, found=found.text()),)

    def layout(self, database: Database) -> Layout:
        """The columns of the table.  Raises ``FatalError`` where they do not do."""
        found = tables.describe(database, LiveTable(self.table))
        source = self.options.source_table or self.table.removesuffix(self.options.suffix)
        return arranged(found, source, self.options, f"table {self.table}")

    def read(self, split: TableSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        with Database(self.database) as database:
            layout = self.layout(database)
            place = Place(ctx.source, number, self.table, ctx.lanes)
            known = replace(self.options, binary_text="hex")  # as _frames gives them
            reader = Reader(place, layout, Found.of(split.found), ctx, known)
            yield from reader.batches(self._frames(database, layout, split))

    def position_text(self, position: Position) -> str:
        """As ``Source.position_text``."""
        return seq.position_text(position)

    def parse_position(self, text: str) -> Position:
        """As ``Source.parse_position``."""
        return seq.position_of(text)

    def _surveyed(self, database: Database, layout: Layout, split: TableSplit) -> Found:
        """How masks are read, told by the first rows."""

        def first(_: int) -> Iterator[Rows]:
            for frame in islice(self._frames(database, layout, split), FRAMES_SURVEYED):
                yield rows_of(frame, layout)

        return survey.surveyed_table(layout, self.options, first, f"table {self.table}", NEAR)

    def _frames(self, database: Database, layout: Layout, split: TableSplit) -> Iterator[Frame]:
        """The rows as text, binary values in hex."""
        live = self._live(layout)
        found = tables.relation_of(database, live).types
        binary = [name for name, kind in found.items() if isinstance(kind, types.LargeBinary)]
        served = copy.serves(database)
        for frame in tables.read(database, live, split, self._hex_text_of):
            if not (served and binary):
                yield frame
                continue
            arrays = [
                _hex(array) if name in binary else array
                for name, array in zip(frame.batch.schema.names, frame.batch.columns, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, names=frame.batch.schema.names)
            yield frame._replace(batch=batch)

    def _hex_text_of(self, value: Any) -> str | None:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value).hex()
        return self.text_of(value)

    def _live(self, layout: Layout) -> LiveTable:
        return LiveTable(self.table, sorted_by=layout.headers["change_seq"], after=self.after)


def _hex(array: pa.Array) -> pa.Array:
    """Base64, as PostgreSQL writes binary columns here, as hex."""
    values = [None if v is None else base64.b64decode(v).hex() for v in array.to_pylist()]
    return pa.array(values, pa.string())
