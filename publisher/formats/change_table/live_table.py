"""Change tables read live from their database, in the order of ``change_seq``.

Change tables have no status: rows that were read before are skipped by their change_seq (``carry_over``).
Otherwise their rows are decoded and related as those of files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import pyarrow as pa
from sqlalchemy import types

from publisher.database.connection import Database
from publisher.database.identity import TableOrigin, identity_of
from publisher.database.ordered_ranges import Span
from publisher.formats.change_table import change_seq as seq
from publisher.formats.change_table.carry_over import (
    FORM,
    KnownMasks,
    Mark,
    read_marks,
    write_marks,
)
from publisher.formats.change_table.decode import decode
from publisher.formats.change_table.extent import (
    ExtentFinder,
    RowSelection,
    RunExtent,
    select_rows,
)
from publisher.formats.change_table.facts import (
    ChangedTable,
    InputFacts,
    InputFile,
    MaskFacts,
    infer_masks,
    survey_headers,
)
from publisher.formats.change_table.layout import ChangeTableLayout, build_layout
from publisher.formats.change_table.masks import MaskReading
from publisher.formats.change_table.rows import ChangeRows, rows_of
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.change_table.statements import statements_of
from publisher.formats.columns.record_batches import Place, as_json
from publisher.formats.contract import (
    CarryOver,
    Context,
    PrepareContext,
    PreparedSource,
    RowNow,
)
from publisher.formats.files.frame import Frame
from publisher.formats.grouping import read_alone
from publisher.formats.live import table_reader
from publisher.formats.live.find_table import LiveTable, describe, relation_of, sorting
from publisher.formats.live.table_split import DatabaseTable, TableSplit
from publisher.model.catalogue import Catalogue
from publisher.model.change import Position

_SURVEYED_FRAMES = 4


@dataclass(frozen=True, slots=True)
class LiveChangeTable(ChangeTable):
    """The source of one change table in a database."""

    table: DatabaseTable = field(kw_only=True)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``: one split that sees the table as it is now."""
        opened = self._open_split(context.carry_over, context.catalogue)
        split, table = context.stack.enter_context(opened)
        file = InputFile(self.table.name, "", 0)
        return PreparedSource(replace(self, facts=InputFacts((table,), (file,))), (split,))

    @contextmanager
    def _open_split(
        self, carry_over: CarryOver | None, catalogue: Catalogue
    ) -> Iterator[tuple[TableSplit[RowSelection | None], ChangedTable]]:
        """Opens the split, which sees the table as it is now while the context is open.

        The split contains the rows above the mark of the last run, up to the first row that waits for its
        partner, and the late rows in the window below the mark.  All present rows of one change_seq are read
        together.

        Raises:
            FatalError: The table is not a change table, or not the table of the mark.
            UnreachableError: The database does not answer.
        """
        marks = read_marks(carry_over.before) if carry_over is not None else {}
        mark = marks.get(self.table.name, Mark())
        with Database(self.table.database) as database:
            layout = self.layout(database)
            live = self._live(layout)
            origin = TableOrigin()
            notes: tuple[str, ...] = ()
            if carry_over is not None:
                relation = relation_of(database, live)
                origin = TableOrigin(identity_of(database, relation), database.name)
                place = f"source {carry_over.source}: table {self.table.name}"
                notes = mark.check_table(place, origin, accepts=carry_over.accepts_database)
            with table_reader.moment(database, live, 1) as (whole,):
                extent = self._extent(database, layout, whole, mark, carry_over)
                has_others = extent.mark.others > mark.others
                name = sorting(database, live)
                span = Span(name, FORM, extent.after, extent.upto, others=has_others)
                newest = replace(whole, span=span)
                masks, known = self._infer_masks(
                    database, layout, newest, mark.calibrated, catalogue
                )
                if carry_over is not None:
                    new = replace(extent.mark, calibrated=known, origin=origin)
                    write_marks(carry_over.after, marks | {self.table.name: new})
                notes += extent.notes
                split: TableSplit[RowSelection | None] = TableSplit(
                    whole.number, whole.snapshot, span=span, notes=notes, payload=extent.selection
                )
                yield split, ChangedTable(layout, masks, f"table {self.table.name}")

    def _rows_at(
        self,
        database: Database,
        layout: ChangeTableLayout,
        split: TableSplit[None],
        change_seq: str,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one change_seq."""
        name = sorting(database, self._live(layout))
        place = replace(split, span=_span_at(name, change_seq))
        return (frame.batch for frame in self._frames(database, layout, place))

    def _extent(
        self,
        database: Database,
        layout: ChangeTableLayout,
        whole: TableSplit[None],
        mark: Mark,
        carry_over: CarryOver | None,
    ) -> RunExtent:
        """The rows to read; all of the table if the run leaves no mark."""
        live = self._live(layout)
        extent = table_reader.measure_extent(database, live, whole, FORM, mark.floor)
        if carry_over is None:
            return RunExtent(None, extent.greatest or "", None, Mark(others=extent.others), ())
        statements = statements_of(database, live, self.options)
        finder = ExtentFinder(
            self.table.name,
            statements,
            lambda statement: table_reader.ask(database, live, whole, statement),
            self.options,
        )
        return finder.find_extent(
            mark, extent, carry_over.clock, one_moment=whole.snapshot is not None
        )

    def fits(self, database: Database) -> None:
        """As ``Source.fits``."""
        self.layout(database)

    def layout(self, database: Database) -> ChangeTableLayout:
        """The columns of the table.  Raises ``FatalError`` if header columns are wrong."""
        names = describe(database, LiveTable(self.table.name))
        source = self.options.source_table or self.table.name.removesuffix(self.options.suffix)
        return build_layout(names, source, self.options, f"table {self.table.name}")

    def read(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        return read_alone(self, split, number, ctx)

    def decode(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.decode``."""
        place = Place(ctx.source, number, self.table.name, ctx.lanes)
        options = replace(self.options, binary_text="hex")  # as _frames writes binary values
        (table,) = self.facts.tables
        with Database(self.table.database) as database:
            frames = self._frames(database, table.layout, split)
            if split.payload is not None:
                frames = select_rows(frames, split.payload, table.layout)
            yield from decode(
                frames, place, table.layout, self.builder_of(table, place, ctx, options)
            )

    def rows_at(self, position: Position) -> list[RowNow]:
        """As ``Source.rows_at``; the rows of a change_seq are one record."""
        if position.part:
            return []
        with Database(self.table.database) as database:
            layout, text = self.layout(database), self.position_text(position)
            batches = self._rows_at(database, layout, TableSplit(0), text)
            rows = [row for batch in batches for row in batch.to_pylist()]
        return [RowNow(as_json(rows[0] if len(rows) == 1 else rows))] if rows else []

    def _infer_masks(
        self,
        database: Database,
        layout: ChangeTableLayout,
        split: TableSplit[None],
        known: KnownMasks | None,
        catalogue: Catalogue,
    ) -> tuple[MaskFacts, KnownMasks | None]:
        """Infers how masks are read: as the last run did if that is still valid, else from the first rows.

        Also returns what the next run may use.
        """
        settings = json.loads(json.dumps(asdict(self.options), default=str))
        if known is not None and (known.columns, known.options) == (layout.names, settings):
            return MaskFacts(MaskReading(known.order, known.headers), known.key), known
        places = [split]
        if split.span is not None and split.span.after is not None:
            places.insert(0, replace(split, span=None))

        def read_first() -> Iterator[ChangeRows]:
            for place in places:
                for frame in islice(self._frames(database, layout, place), _SURVEYED_FRAMES):
                    yield rows_of(frame, layout)

        counts = survey_headers(read_first(), layout, 0).masks
        where = f"table {self.table.name}"
        masks = infer_masks(counts, layout, self.options, read_first, where, catalogue)
        if not masks.sure or masks.reading is None:
            return masks, None
        return masks, KnownMasks(layout.names, settings, *masks.reading, masks.key)

    def _frames(
        self, database: Database, layout: ChangeTableLayout, split: TableSplit[object]
    ) -> Iterator[Frame]:
        """The rows as text, binary values in hex."""
        live = self._live(layout)
        kinds = relation_of(database, live).types
        binary = [name for name, kind in kinds.items() if isinstance(kind, types.LargeBinary)]
        is_copied = database.can_copy
        for frame in table_reader.read(database, live, split, self._hex_text_of):
            if not (is_copied and binary):
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
        return self.table.text_of(value)

    def _live(self, layout: ChangeTableLayout) -> LiveTable:
        return LiveTable(self.table.name, sorted_by=layout.headers["change_seq"])


def _span_at(column: str, change_seq: str) -> Span:
    """The rows of one change_seq."""
    number = int(change_seq)
    before = f"{number - 1:0{seq.TIME_DIGITS + seq.NUMBER_DIGITS}d}" if number else None
    return Span(column, FORM, before, change_seq, others=False)


def _hex(array: pa.Array) -> pa.Array:
    """Converts binary columns from Base64, as PostgreSQL returns them here, to hex."""
    values = [None if v is None else base64.b64decode(v).hex() for v in array.to_pylist()]
    return pa.array(values, pa.string())
