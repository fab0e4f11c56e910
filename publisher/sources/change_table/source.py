"""Change tables in files: CSV (with or without ``.dfm``), JSON lines, Parquet.

Files are split anywhere between records.  If an UPDATE and its before image are in different splits, one pass
over the header columns finds the pair, in a task of its own (``survey``): the task of the UPDATE fetches the
before image, and the other task leaves it out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError
from publisher.model.catalogue import Catalogue
from publisher.model.change import Position
from publisher.sources.change_table import change_seq, message_splits, survey
from publisher.sources.change_table.before_images import PairedRows, PairJoiner, Strays
from publisher.sources.change_table.change_seq import Flags, Integers
from publisher.sources.change_table.child_rows import builder_class
from publisher.sources.change_table.copies import CopyFinder, copies_by_number
from publisher.sources.change_table.data_columns import DataColumns
from publisher.sources.change_table.extent import RowSelector
from publisher.sources.change_table.held_rows import HeldRows, are_held, is_wait_over
from publisher.sources.change_table.keys import key_of
from publisher.sources.change_table.layout import ChangeTableLayout, layout_of
from publisher.sources.change_table.message_splits import MessageLines
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.retry import BEFORE_IMAGE, find_before_images
from publisher.sources.change_table.rows import ChangeRows, rows_of
from publisher.sources.change_table.survey import PlannedRows, SplitPlan
from publisher.sources.columns.object_names import Names
from publisher.sources.columns.record_batches import Place, as_json, broken, find_records, tally
from publisher.sources.contract import (
    Context,
    PendingContext,
    PrepareContext,
    PreparedSource,
    Source,
    SourceInput,
)
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import FileRange, RowGroups, Split, TextRange
from publisher.sources.files.frame import Frame
from publisher.sources.files.options import SnapshotOptions

ChangeTablePart = PlannedRows | MessageLines

_HEADERS_SURVEYED = ("change_seq", "change_oper", "operation", "change_mask")


class _SurveyInput(NamedTuple):
    """All splits of a run, which one task surveys in their order."""

    splits: list[Split[FileRange]]
    layouts: list[ChangeTableLayout]
    held: HeldRows | None


class _SurveyResult(NamedTuple):
    """The plans of all splits, and the decision about held rows."""

    plans: list[SplitPlan]
    held: HeldRows | None


@dataclass(frozen=True, slots=True)
class ChangeTable(Source):
    """The source of change tables in files."""

    options: ChangeTableOptions = field(default_factory=ChangeTableOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "change-table"

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """The change_seq: a change of the key gives two changes from one record."""
        return ("high", "low")

    @property
    def joins_keys(self) -> bool:
        """As ``Source.joins_keys``."""
        return self.options.joins_keys

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """The data files; their kinds are recognised by their names."""
        return file_splits.files(paths, may_be_none=may_be_none)

    def splits(
        self, paths: Sequence[str | os.PathLike[str]], wanted: int
    ) -> list[Split[FileRange]]:
        """The parts that tasks read, before the survey."""
        files = self.files(paths)
        if self.options.layout == "messages":
            return [*message_splits.make_splits(files, self.snapshot)]
        return self._split_files(files, wanted)[0]

    def pending(self, context: PendingContext) -> SourceInput:
        """As ``Source.pending``: new files, or held rows that have waited long enough."""
        is_over = is_wait_over(context.state(), self.options, context.clock)
        new = Source.pending(self, context)
        return replace(new, reads=new.reads or is_over)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``: surveys all splits, those with held rows first, and plans each.

        Holds the rows that must wait for a partner."""
        files = self.files(context.paths) if context.paths else []
        if self.options.layout == "messages":
            lines = context.limit(message_splits.make_splits(files, self.snapshot))
            where = str(files[0]) if files else ""
            read = message_splits.with_mask_reading(
                lines, self.options, self.snapshot, context.catalogue, where
            )
            return PreparedSource(self, tuple(read))
        carry_over, held = context.carry_over, None
        if carry_over is not None:
            held = HeldRows(self.options, carry_over.before, carry_over.clock)
            files = [*held.files, *files]
        parts, layouts = self._split_files(files, context.wanted)
        splits = context.limit(parts)
        work = _SurveyInput(splits, layouts, held)
        ((plans, held),) = context.tasks.survey(self._survey, [work])
        if carry_over is not None and held is not None:
            held.write(splits, layouts, carry_over.after)
        planned = (
            split.with_payload(PlannedRows(split.payload, plan))
            for split, plan in zip(splits, plans, strict=True)
        )
        return PreparedSource(self, tuple(planned))

    def _split_files(
        self, paths: Sequence[Path], wanted: int
    ) -> tuple[list[Split[FileRange]], list[ChangeTableLayout]]:
        """Divides files into splits; returns the splits, and the layout of each."""
        size = max(1, sum(path.stat().st_size for path in paths))
        splits, layouts = [], []
        for path in paths:
            layout = layout_of(path, self.options, self.snapshot)
            share = max(1, wanted * path.stat().st_size // size)
            parts = file_splits.splits([path], layout.reading, layout.columns(), share)
            splits += parts
            layouts += [layout] * len(parts)
        return splits, layouts

    def _survey(self, parts: _SurveyInput, catalogue: Catalogue) -> _SurveyResult:
        """Returns the plans of all splits, and the decision about held rows."""
        splits, layouts, held = parts

        def headers_of(number: int) -> Iterator[ChangeRows]:
            layout = layouts[number]
            match splits[number].payload:
                case TextRange("jsonl") | RowGroups():
                    # the whole row must be read: any column may make it unreadable
                    yield from all_of(number)
                    return
            names = [layout.headers[n] for n in _HEADERS_SURVEYED if n in layout.headers]
            for frame in file_splits.frames(splits[number], layout.reading, layout.columns(names)):
                yield rows_of(frame, layout)

        def all_of(number: int) -> Iterator[ChangeRows]:
            layout = layouts[number]
            for frame in file_splits.frames(splits[number], layout.reading, layout.columns()):
                yield rows_of(frame, layout)

        plans = survey.survey_splits(
            splits, layouts, self.options, headers_of, all_of, held, catalogue
        )
        return _SurveyResult(plans, held)

    def read(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Yields batches of ``RECORD_SCHEMA``, the tally last."""
        place = Place(ctx.source, number, split.path, ctx.lanes)
        payload: ChangeTablePart = split.payload
        if isinstance(payload, MessageLines):
            return message_splits.read(split, place, ctx, self.options, self.snapshot)
        layout = self._layout(split)
        reader = ChangeTableReader(place, layout, payload.plan, ctx, self.options)
        strays = self._fetch_strays(payload.plan, reader)
        own = split.with_payload(payload.rows)
        frames = file_splits.frames(own, layout.reading, layout.columns())
        return reader.batches(frames, strays)

    def position_text(self, position: Position) -> str:
        """The change_seq."""
        return change_seq.position_text(position)

    def parse_position(self, text: str) -> Position:
        """Parses a position."""
        return change_seq.parse_position(text)

    def raw_records(self, split: Split[ChangeTablePart], rows: frozenset[int]) -> dict[int, str]:
        """As ``Source.raw_records``."""
        match split.payload:
            case MessageLines() as part:
                return message_splits.raw_records(split.with_payload(part), rows, self.snapshot)
            case PlannedRows(planned):
                return self._raw_rows(split.with_payload(planned), rows)

    def raw_operations(self, split: Split[ChangeTablePart], rows: frozenset[int]) -> dict[int, str]:
        """As ``Source.raw_operations``: an UPDATE has its before image."""
        raws = self.raw_records(split, rows)
        if not isinstance(split.payload, PlannedRows):
            return raws
        planned, plan = split.payload.rows, split.payload.plan
        layout, own = self._layout(split), split.with_payload(planned)

        def read() -> Iterator[ChangeRows]:
            for frame in file_splits.frames(own, layout.reading, layout.columns()):
                yield rows_of(frame, layout)

        strangers = {*plan.given, *(image.update for image in plan.taking)}
        images = dict(find_before_images(rows - strangers, read, strangers))
        others = dict(plan.others)
        for update, step, row in plan.taking:
            if update in rows:
                other = others[step]
                found = self._raw_rows(other, frozenset([row]))
                images[update] = json.loads(found[row])
        for row, image in images.items():
            raws[row] = as_json({**json.loads(raws[row]), BEFORE_IMAGE: image})
        return raws

    def _raw_rows(self, split: Split[FileRange], rows: frozenset[int]) -> dict[int, str]:
        layout = self._layout(split)
        frames = self._frames_from(split, min(rows), layout)
        return dict(find_records(frames, rows, lambda frame: rows_of(frame, layout).batch))

    def _layout(self, split: Split[object]) -> ChangeTableLayout:
        return layout_of(Path(split.path), self.options, self.snapshot)

    def _frames_from(
        self, split: Split[FileRange], row: int, layout: ChangeTableLayout
    ) -> Iterator[Frame]:
        remaining = file_splits.narrow(split, row)
        return file_splits.frames(remaining, layout.reading, layout.columns())

    def _fetch_strays(self, plan: SplitPlan, reader: ChangeTableReader) -> Strays | None:
        """Fetches the before images that the plan names, from other splits or distant rows."""
        if not plan.given and not plan.taking:
            return None
        fetched: dict[tuple[int, int], pa.RecordBatch] = {}
        for step, split in plan.others:
            wanted = np.array([image.row for image in plan.taking if image.step == step])
            for row, image in self._fetch(split, wanted, reader):
                fetched[step, row] = image
        if any((image.step, image.row) not in fetched for image in plan.taking):
            raise FatalError(f"{reader.place.file} has changed since the run began; start again")
        batches = [fetched[image.step, image.row] for image in plan.taking]
        images = None
        if batches:
            images = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        updates, steps, rows = np.array(plan.taking, np.int64).reshape(-1, 3).T
        return Strays(np.array(plan.given, np.int64), updates, images, steps, rows)

    def _fetch(
        self, split: Split[FileRange], wanted: np.ndarray, reader: ChangeTableReader
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Fetches before images of another split, row by row, with the columns of the reader."""
        layout = self._layout(split)
        last = int(wanted.max())
        for frame in self._frames_from(split, int(wanted.min()), layout):
            hits = np.flatnonzero(np.isin(frame.rows, wanted))
            if len(hits):
                rows = rows_of(
                    Frame(frame.batch.take(pa.array(hits)), frame.rows[hits]), layout, reader.text
                )
                aligned = _align(rows.batch, reader.layout)
                for at, row in enumerate(frame.rows[hits].tolist()):
                    yield row, aligned.slice(at, 1)
            if len(frame.rows) and frame.rows[-1] >= last:
                return


class ChangeTableReader:
    """Reads the frames of one split as records."""

    def __init__(
        self,
        place: Place,
        layout: ChangeTableLayout,
        plan: SplitPlan,
        ctx: Context,
        options: ChangeTableOptions,
    ) -> None:
        """Raises ``FatalError`` if the table or its key is not known."""
        self.place = place
        self.layout = layout
        names = Names(ctx.catalogue, options.schema, options.identifier_case, ctx.lanes)
        columns = DataColumns(layout, names, options, place.file)
        key = key_of(layout, plan.key, columns.target, options, place.file)
        self.text = columns.text
        self._window = plan.window
        self._finder = CopyFinder() if plan.in_order else None
        self._known_copies, self._doubles = plan.copies, plan.doubles
        self._cut = plan.cut
        self._selector = None if plan.chosen is None else RowSelector(plan.chosen)
        self._builder = builder_class(columns.target, ctx.classes)(
            place, layout, plan.reading, key, columns, names, options, plan.ranking
        )

    def batches(
        self, frames: Iterator[Frame], strays: Strays | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields batches of ``RECORD_SCHEMA``, the tally last."""
        joiner, record_count = PairJoiner(self._window, strays), 0
        for frame in map(self._select, frames):
            record_count += frame.batch.num_rows + len(frame.broken)
            if frame.broken:
                yield broken(frame, self.place)
            rows = rows_of(frame, self.layout, self.text)
            if self._cut is not None and (held := are_held(rows, self._cut)).any():
                yield self._builder.rejects.hold(rows.take(np.flatnonzero(held)), self._cut)
                rows = rows.without(held)
            for number, fault in self._doubles:
                rows.reject(rows.numbers == number, fault)
            if rows.faults:
                yield self._builder.rejects.reject_rows(rows)
                rows = rows.take(_without_fault(rows))
            yield from self._join(joiner, *self._mark_copies(rows))
        if self._finder is not None and (last := self._finder.finish()) is not None:
            yield from self._join(joiner, *last)
        yield from self._records(joiner.finish())
        yield tally(self.place, record_count)

    def _mark_copies(self, rows: ChangeRows) -> tuple[ChangeRows, Flags]:
        """The rows that can be read now, with a mark on each copy."""
        if self._finder is not None:
            return self._finder.add(rows)
        return rows, copies_by_number(rows, self._known_copies)

    def _join(
        self, joiner: PairJoiner, rows: ChangeRows, copies: Flags
    ) -> Iterator[pa.RecordBatch]:
        """Joins rows into operations and yields their records; ignores copies."""
        if rows.faults:
            yield self._builder.rejects.reject_rows(rows)
            good = _without_fault(rows)
            rows, copies = rows.take(good), copies[good]
        if copies.any():
            yield self._builder.rejects.ignore_copies(rows.take(np.flatnonzero(copies)))
            rows = rows.take(np.flatnonzero(~copies))
        yield from self._records(joiner.add(rows))

    def _select(self, frame: Frame) -> Frame:
        """The rows of a frame that this run reads."""
        if self._selector is None:
            return frame
        flags = self._selector.select(rows_of(frame, self.layout, self.text))
        if flags.all():
            return frame
        return frame._replace(batch=frame.batch.filter(pa.array(flags)), rows=frame.rows[flags])

    def _records(self, operations: Iterator[PairedRows]) -> Iterator[pa.RecordBatch]:
        for pairs in operations:
            yield from self._builder.records(pairs)


def _without_fault(rows: ChangeRows) -> Integers:
    """Returns the indices of the rows that are not rejected."""
    return np.setdiff1d(np.arange(len(rows)), np.array(sorted(rows.faults), np.int64))


def _align(batch: pa.RecordBatch, layout: ChangeTableLayout) -> pa.RecordBatch:
    """Adds missing columns of a layout, all NULL; returns the columns in the order of the layout."""
    present = set(batch.schema.names)
    arrays = [
        batch.column(name) if name in present else pa.nulls(batch.num_rows, pa.string())
        for name in layout.names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(layout.names))
