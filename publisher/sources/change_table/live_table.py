"""Change tables read live from their database, in the order of ``change_seq``.

So an UPDATE and its before image lie side by side.  Change tables have no status: what was read before
is left out by its change_seq (``marks``).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Self

import pyarrow as pa
from sqlalchemy import types

from publisher.database import Database, DatabaseOptions, copy
from publisher.database.identity import Verdict, identity_of
from publisher.database.ordered_ranges import Span
from publisher.model.catalogue import Catalogue
from publisher.model.change import Position
from publisher.sources.change_table import change_seq as seq
from publisher.sources.change_table import survey
from publisher.sources.change_table.carry_over import (
    FORM,
    KnownMasks,
    Mark,
    MarkOrigin,
    read_marks,
    write_marks,
)
from publisher.sources.change_table.extent import ExtentFinder, RunExtent
from publisher.sources.change_table.layout import ChangeTableLayout, arranged
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.origin import CurrentTable, known_rows, span_at
from publisher.sources.change_table.rows import ChangeRows, rows_of
from publisher.sources.change_table.source import ChangeTableReader
from publisher.sources.change_table.statements import statements_of
from publisher.sources.change_table.survey import SplitPlan
from publisher.sources.columns.record_batches import Place
from publisher.sources.contract import Context, Kept
from publisher.sources.files.frame import Frame
from publisher.sources.live import table_reader
from publisher.sources.live.table_reader import LiveTable, TableSplit

NEAR = 16
"""Rows of one change_seq lie side by side; more than these are records that stand there twice."""
FRAMES_SURVEYED = 4


@dataclass(frozen=True, slots=True)
class LiveChangeTable:
    """The source: a change table in a database.

    ``text_of`` gives the text form of a value that a database driver returns.
    """

    options: ChangeTableOptions
    database: DatabaseOptions
    table: str
    text_of: Callable[[Any], str | None]
    format: str = "change-table"
    catalogue: Catalogue | None = field(default=None, compare=False, repr=False)
    """What is known of tables, where the order of masks is found."""

    def with_catalogue(self, catalogue: Catalogue) -> Self:
        """As ``AsksCatalogue.with_catalogue``."""
        return replace(self, catalogue=catalogue)

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """As those of files: a change of the key is a delete and an add of one record."""
        return ("high", "low")

    @contextmanager
    def opened(self, wanted: int, kept: Kept | None = None) -> Iterator[tuple[TableSplit, ...]]:  # noqa: ARG002 - read in order
        """One split that sees the table as it is now, while the context is open: the rows that are newer
        than the mark of the last run, up to one that waits for its partner, and rows of the window below
        the mark that came late.  All rows of one change_seq that are there are read together.

        Raises ``FatalError`` where the table does not fit, or is another one than that of the mark,
        ``UnreachableError``.
        """
        marks = read_marks(kept.before) if kept is not None else {}
        mark = marks.get(self.table, Mark())
        with Database(self.database) as database:
            layout = self.layout(database)
            live = self._live(layout)
            now = self._now(database, layout, kept)
            verdict = now.verify(mark, by_rows=kept is not None and kept.by_rows)
            with table_reader.moment(database, live, 1) as (whole,):
                if verdict is Verdict.UNKNOWN and mark.change_seq is not None:
                    at_mark = self._rows_at(database, layout, whole, mark.change_seq)
                    now.verify_rows(mark, at_mark, list(layout.headers.values()))
                extent = self._extent(database, layout, whole, mark, kept)
                newer = extent.mark.others > mark.others
                name = table_reader.sorting(database, live)
                span = Span(name, FORM, extent.after, extent.upto, others=newer)
                split = replace(whole, span=span, notes=extent.notes)
                found, calibrated = self._surveyed(database, layout, split, mark.calibrated)
                if kept is not None:
                    origin = self._origin(database, layout, whole, now, (mark, extent.mark))
                    new = replace(extent.mark, calibrated=calibrated, origin=origin)
                    write_marks(kept.after, marks | {self.table: new})
                yield (
                    replace(
                        split, found=replace(found, chosen=extent.chosen, in_order=True).text()
                    ),
                )

    def _now(
        self, database: Database, layout: ChangeTableLayout, kept: Kept | None
    ) -> CurrentTable:
        """The table as it is now; without identity where nothing is kept of it."""
        if kept is None:
            return CurrentTable("", self.table, database.name, None)
        relation = table_reader.relation_of(database, self._live(layout))
        return CurrentTable(kept.source, self.table, database.name, identity_of(database, relation))

    def _rows_at(
        self, database: Database, layout: ChangeTableLayout, split: TableSplit, change_seq: str
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one change_seq."""
        name = table_reader.sorting(database, self._live(layout))
        place = replace(split, span=span_at(name, change_seq))
        return (frame.batch for frame in self._frames(database, layout, place))

    def _origin(
        self,
        database: Database,
        layout: ChangeTableLayout,
        split: TableSplit,
        now: CurrentTable,
        marks: tuple[Mark, Mark],
    ) -> MarkOrigin:
        """What the second mark, which follows the first, has to know of its table."""
        before, mark = marks
        if mark.change_seq is None:
            return now.origin(mark, before, ())
        headers = list(layout.headers.values())
        rows = self._rows_at(database, layout, split, mark.change_seq)
        return now.origin(
            mark, before, (row for batch in rows for row in known_rows(batch, headers))
        )

    def _extent(
        self,
        database: Database,
        layout: ChangeTableLayout,
        whole: TableSplit,
        mark: Mark,
        kept: Kept | None,
    ) -> RunExtent:
        """How far the table is read; to its end where nothing is kept of it."""
        live = self._live(layout)
        seen = table_reader.seen(database, live, whole, FORM, mark.floor)
        if kept is None:
            return RunExtent(None, seen.greatest or "", None, Mark(others=seen.others), ())
        statements = statements_of(database, live, self.options)
        measuring = ExtentFinder(
            self.table,
            statements,
            lambda statement: table_reader.ask(database, live, whole, statement),
            self.options,
        )
        return measuring.extent(mark, seen, kept.clock, one_moment=whole.snapshot is not None)

    def fits(self, database: Database) -> None:
        """As ``LiveSource.fits``."""
        self.layout(database)

    def layout(self, database: Database) -> ChangeTableLayout:
        """The columns of the table.  Raises ``FatalError`` where they do not do."""
        found = table_reader.describe(database, LiveTable(self.table))
        source = self.options.source_table or self.table.removesuffix(self.options.suffix)
        return arranged(found, source, self.options, f"table {self.table}")

    def read(self, split: TableSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        with Database(self.database) as database:
            layout = self.layout(database)
            place = Place(ctx.source, number, self.table, ctx.lanes)
            known = replace(self.options, binary_text="hex")  # as _frames gives them
            reader = ChangeTableReader(place, layout, SplitPlan.of(split.found), ctx, known)
            yield from reader.batches(self._frames(database, layout, split))

    def position_text(self, position: Position) -> str:
        """As ``Source.position_text``."""
        return seq.position_text(position)

    def parse_position(self, text: str) -> Position:
        """As ``Source.parse_position``."""
        return seq.position_of(text)

    def _surveyed(
        self,
        database: Database,
        layout: ChangeTableLayout,
        split: TableSplit,
        known: KnownMasks | None,
    ) -> tuple[SplitPlan, KnownMasks | None]:
        """How masks are read: as they were where that is sure, else as the first rows of the table and
        of the split tell; and what is to be kept of it."""
        settings = json.loads(json.dumps(asdict(self.options), default=str))
        if known is not None and (known.columns, known.options) == (layout.names, settings):
            return SplitPlan(known.order, known.headers, list(known.key), window=NEAR), known
        places = [split]
        if split.span is not None and split.span.after is not None:
            places.insert(0, replace(split, span=None))

        def first(_: int) -> Iterator[ChangeRows]:
            for place in places:
                for frame in islice(self._frames(database, layout, place), FRAMES_SURVEYED):
                    yield rows_of(frame, layout)

        found = survey.surveyed_table(
            layout, self.options, first, f"table {self.table}", NEAR, self.catalogue
        )
        if not found.sure or found.order is None:
            return found, None
        key = tuple(found.key)
        return found, KnownMasks(layout.names, settings, found.order, found.headers, key)

    def _frames(
        self, database: Database, layout: ChangeTableLayout, split: TableSplit
    ) -> Iterator[Frame]:
        """The rows as text, binary values in hex."""
        live = self._live(layout)
        found = table_reader.relation_of(database, live).types
        binary = [name for name, kind in found.items() if isinstance(kind, types.LargeBinary)]
        served = copy.serves(database)
        for frame in table_reader.read(database, live, split, self._hex_text_of):
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

    def _live(self, layout: ChangeTableLayout) -> LiveTable:
        return LiveTable(self.table, sorted_by=layout.headers["change_seq"])


def _hex(array: pa.Array) -> pa.Array:
    """Base64, as PostgreSQL writes binary columns here, as hex."""
    values = [None if v is None else base64.b64decode(v).hex() for v in array.to_pylist()]
    return pa.array(values, pa.string())
