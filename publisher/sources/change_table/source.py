"""Change tables as files: CSV (with or without ``.dfm``), JSON lines, Parquet.

Splits are cut anywhere between records.  An UPDATE and its before image that fall into different
splits are found by one pass over the header columns where splits are made (``survey``): the task of the
UPDATE fetches that before image, the other task leaves it out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError
from publisher.model.catalogue import Catalogue
from publisher.model.change import Position
from publisher.sources.change_table import change_seq, message_splits, survey
from publisher.sources.change_table.before_images import PairedRows, PairJoiner, Strays
from publisher.sources.change_table.change_seq import Flags
from publisher.sources.change_table.chosen import RowSelector
from publisher.sources.change_table.copies import CopyFinder, numbered_copies
from publisher.sources.change_table.holding import HeldRows, held_rows
from publisher.sources.change_table.layout import ChangeTableLayout, layout_of
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.rows import ChangeRows, rows_of
from publisher.sources.change_table.survey import SplitPlan
from publisher.sources.change_table.to_changes import ChangeTableChangeBuilder
from publisher.sources.change_table.values import DataColumns, key_of
from publisher.sources.columns.object_names import Names
from publisher.sources.columns.record_batches import Place, as_json, broken, tally
from publisher.sources.contract import Context, Kept
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import SnapshotOptions

_HEADERS_SURVEYED = ("change_seq", "change_oper", "operation", "change_mask")


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """The source: change tables in files."""

    options: ChangeTableOptions = field(default_factory=ChangeTableOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "change-table"
    catalogue: Catalogue | None = field(default=None, compare=False, repr=False)
    """What is known of tables, where the order of masks is found."""

    def with_catalogue(self, catalogue: Catalogue) -> Self:
        """As ``AsksCatalogue.with_catalogue``."""
        return replace(self, catalogue=catalogue)

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """The change_seq: a change of the key is a delete and an add of one record."""
        return ("high", "low")

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """The data files, of the kinds that are known by their names."""
        return file_splits.files(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split]:
        """The parts that tasks read, with what was found out about all of them."""
        found = self.files(paths)
        if self.options.layout == "messages":
            return message_splits.splits(found, self.options, self.snapshot, wanted)
        return self._surveyed(*self._parts(found, wanted))

    def continued(
        self, paths: Sequence[str | os.PathLike[str]], wanted: int, kept: Kept
    ) -> list[Split]:
        """The same after the rows that the last run has held; rows that wait now are kept."""
        if self.options.layout == "messages":
            return self.splits(paths, wanted)
        holding = HeldRows(self.options, kept.before, kept.clock)
        found = self.files(paths) if paths else []
        splits, layouts = self._parts([*holding.files, *found], wanted)
        made = self._surveyed(splits, layouts, holding)
        holding.keep(splits, layouts, kept.after)
        return made

    def _parts(
        self, paths: Sequence[Path], wanted: int
    ) -> tuple[list[Split], list[ChangeTableLayout]]:
        """The splits of files, and the layout of each."""
        size = max(1, sum(path.stat().st_size for path in paths))
        splits, layouts = [], []
        for path in paths:
            layout = layout_of(path, self.options, self.snapshot)
            share = max(1, wanted * path.stat().st_size // size)
            cut = file_splits.splits([path], layout.reading, layout.columns(), share)
            splits += cut
            layouts += [layout] * len(cut)
        return splits, layouts

    def _surveyed(
        self, splits: list[Split], layouts: list[ChangeTableLayout], holding: HeldRows | None = None
    ) -> list[Split]:
        def headers_of(number: int) -> Iterator[ChangeRows]:
            layout = layouts[number]
            names = [layout.headers[n] for n in _HEADERS_SURVEYED if n in layout.headers]
            for frame in file_splits.frames(splits[number], layout.reading, layout.columns(names)):
                yield rows_of(frame, layout)

        def all_of(number: int) -> Iterator[ChangeRows]:
            layout = layouts[number]
            for frame in file_splits.frames(splits[number], layout.reading, layout.columns()):
                yield rows_of(frame, layout)

        return survey.surveyed(
            splits, layouts, self.options, headers_of, all_of, holding, self.catalogue
        )

    def read(self, split: Split, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``, the tally last."""
        place = Place(ctx.source, number, split.path, ctx.lanes)
        if self.options.layout == "messages":
            return message_splits.read(split, place, ctx, self.options, self.snapshot)
        layout = self._layout(split)
        found = SplitPlan.of(split.found)
        reader = ChangeTableReader(place, layout, found, ctx, self.options)
        strays = self._strays(found, reader)
        frames = file_splits.frames(split, layout.reading, layout.columns())
        return reader.batches(frames, strays)

    def position_text(self, position: Position) -> str:
        """The change_seq."""
        return change_seq.position_text(position)

    def parse_position(self, text: str) -> Position:
        """The position that a user wrote."""
        return change_seq.position_of(text)

    def raw(self, split: Split, row: int) -> str | None:
        """One record as JSON text, read again."""
        if self.options.layout == "messages":
            return message_splits.raw(split, row, self.snapshot)
        layout = self._layout(split)
        for frame in self._from(split, row, layout):
            for piece in frame.broken:
                if piece.row == row:
                    return as_json(piece.raw)
            if len(frame.rows) and frame.rows[0] > row:
                return None
            hits = np.flatnonzero(frame.rows == row)
            if len(hits):
                one = Frame(frame.batch.slice(int(hits[0]), 1), frame.rows[hits[:1]])
                return as_json(rows_of(one, layout).batch.to_pylist()[0])
        return None

    def _layout(self, split: Split) -> ChangeTableLayout:
        return layout_of(Path(split.path), self.options, self.snapshot)

    def _from(self, split: Split, row: int, layout: ChangeTableLayout) -> Iterator[Frame]:
        rest = file_splits.narrowed(split, row, layout.reading)
        return file_splits.frames(rest, layout.reading, layout.columns())

    def _strays(self, found: SplitPlan, reader: ChangeTableReader) -> Strays | None:
        if not found.given and not found.taking:
            return None
        given = np.array(found.given, np.int64)
        fetched: dict[tuple[int, int], pa.RecordBatch] = {}
        for index, plain in enumerate(found.from_):
            wanted = np.array([row for _, from_, row in found.taking if from_ == index])
            split = Split(**plain)  # type: ignore[arg-type]
            for row, one in self._fetched(split, wanted, reader):
                fetched[index, row] = one
        taking, batches, splits, numbers = [], [], [], []
        for update, from_, row in found.taking:
            if (from_, row) not in fetched:
                raise FatalError(
                    f"{reader.place.file} has changed since the run began; start again"
                )
            taking.append(update)
            batches.append(fetched[from_, row])
            splits.append(found.steps[from_])
            numbers.append(row)
        columns = (np.array(column, np.int64) for column in (taking, splits, numbers))
        taken, steps, rows = columns
        if not batches:
            return Strays(given, taken, None, steps, rows)
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        return Strays(given, taken, whole, steps, rows)

    def _fetched(
        self, split: Split, wanted: np.ndarray, reader: ChangeTableReader
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Before images of another split, row by row, under the columns of the reader's."""
        layout = self._layout(split)
        last = int(wanted.max())
        for frame in self._from(split, int(wanted.min()), layout):
            hits = np.flatnonzero(np.isin(frame.rows, wanted))
            if len(hits):
                rows = rows_of(
                    Frame(frame.batch.take(pa.array(hits)), frame.rows[hits]), layout, reader.text
                )
                aligned = _aligned(rows.batch, reader.layout)
                for at, row in enumerate(frame.rows[hits].tolist()):
                    yield row, aligned.slice(at, 1)
            if len(frame.rows) and frame.rows[-1] >= last:
                return


class ChangeTableReader:
    """Reads the frames of one split of a change table."""

    def __init__(
        self,
        place: Place,
        layout: ChangeTableLayout,
        found: SplitPlan,
        ctx: Context,
        options: ChangeTableOptions,
    ) -> None:
        """Raises ``FatalError`` where the table or its key is not known."""
        self.place = place
        self.layout = layout
        names = Names(ctx.catalogue, options.schema, options.identifier_case, ctx.lanes)
        columns = DataColumns(layout, names, options, place.file)
        known = columns.target.known
        key = key_of(layout, found.key, known.key if known else (), options, place.file)
        self.text = columns.text
        self._window = found.window
        self._finder = CopyFinder() if found.in_order else None
        self._known_copies = found.copies
        self._cut = found.cut
        self._chooser = None if found.chosen is None else RowSelector(found.chosen)
        self._meaning = ChangeTableChangeBuilder(
            place, layout, found.reading, key, columns, names, options, found.ranking
        )

    def batches(
        self, frames: Iterator[Frame], strays: Strays | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``, the tally last."""
        joiner, framed = PairJoiner(self._window, strays), 0
        for frame in map(self._chosen, frames):
            framed += frame.batch.num_rows + len(frame.broken)
            if frame.broken:
                yield broken(frame, self.place)
            rows = rows_of(frame, self.layout, self.text)
            if self._cut is not None and (held := held_rows(rows, self._cut)).any():
                yield self._meaning.rejects.held(rows.take(np.flatnonzero(held)), self._cut)
                rows = rows.without(held)
            if rows.faults:
                yield self._meaning.rejects.of_rows(rows)
                good = np.ones(len(rows), bool)
                good[list(rows.faults)] = False
                rows = rows.take(np.flatnonzero(good))
            yield from self._joined(joiner, *self._copies(rows))
        if self._finder is not None and (last := self._finder.rest()) is not None:
            yield from self._joined(joiner, *last)
        yield from self._records(joiner.rest())
        yield tally(self.place, framed)

    def _copies(self, rows: ChangeRows) -> tuple[ChangeRows, Flags]:
        """The rows that can be read now, and which of them are copies."""
        if self._finder is not None:
            return self._finder.add(rows)
        return rows, numbered_copies(rows, self._known_copies)

    def _joined(
        self, joiner: PairJoiner, rows: ChangeRows, copies: Flags
    ) -> Iterator[pa.RecordBatch]:
        """The records of rows, without their copies."""
        if copies.any():
            yield self._meaning.rejects.copies(rows.take(np.flatnonzero(copies)))
            rows = rows.take(np.flatnonzero(~copies))
        yield from self._records(joiner.add(rows))

    def _chosen(self, frame: Frame) -> Frame:
        """The rows of a frame that are to be read."""
        if self._chooser is None:
            return frame
        flags = self._chooser.flags(rows_of(frame, self.layout, self.text))
        if flags.all():
            return frame
        return frame._replace(batch=frame.batch.filter(pa.array(flags)), rows=frame.rows[flags])

    def _records(self, operations: Iterator[PairedRows]) -> Iterator[pa.RecordBatch]:
        for one in operations:
            yield from self._meaning.records(one)


def _aligned(batch: pa.RecordBatch, layout: ChangeTableLayout) -> pa.RecordBatch:
    """The batch with the columns of a layout; those that it has not are NULL."""
    have = set(batch.schema.names)
    arrays = [
        batch.column(name) if name in have else pa.nulls(batch.num_rows, pa.string())
        for name in layout.names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(layout.names))
