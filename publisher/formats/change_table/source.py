"""Change tables in files: CSV (with or without ``.dfm``), JSON lines, Parquet.

Files are split anywhere between records.  The rows of a change_seq meet in one partition (``relate``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from publisher.formats.change_table import change_seq, message_splits
from publisher.formats.change_table.child_rows import create_builder
from publisher.formats.change_table.decode import decode
from publisher.formats.change_table.facts import (
    ChangedTable,
    HeaderFacts,
    InputFacts,
    InputFile,
    MaskFacts,
    infer_masks,
    join_masks,
    ranking_of,
    survey_headers,
)
from publisher.formats.change_table.layout import ChangeTableLayout, layout_of
from publisher.formats.change_table.message_splits import MessageLines
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.relate import relate
from publisher.formats.change_table.retry import BEFORE_IMAGE, find_before_images
from publisher.formats.change_table.rows import GROUP_COLUMNS, ChangeRows, rows_of
from publisher.formats.change_table.to_changes import ChangeTableChangeBuilder
from publisher.formats.change_table.waiting import OpenPairs, is_wait_over, write_waiting
from publisher.formats.columns.record_batches import Place, as_json, find_records
from publisher.formats.contract import (
    CarryOver,
    Context,
    PendingContext,
    PrepareContext,
    PreparedSource,
    Source,
    SourceInput,
)
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import FileRange, RowGroups, Split, TextRange
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.grouping import read_alone
from publisher.model.catalogue import Catalogue
from publisher.model.change import Position

ChangeTablePart = FileRange | MessageLines

_HEADERS_SURVEYED = ("change_seq", "change_oper", "operation", "change_mask")


class _SplitOfFile(NamedTuple):
    """A split of a file, and the layout of the file."""

    split: Split[FileRange]
    layout: ChangeTableLayout


@dataclass(frozen=True, slots=True)
class ChangeTable(Source):
    """The source of change tables in files."""

    options: ChangeTableOptions = field(default_factory=ChangeTableOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "change-table"
    facts: InputFacts = field(default_factory=InputFacts)
    """Known after ``prepare``."""

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """The change_seq: a change of the key gives two changes from one record."""
        return ("high", "low")

    @property
    def joins_keys(self) -> bool:
        """As ``Source.joins_keys``."""
        return self.options.joins_keys

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The change_seq, which an UPDATE shares with its before image; a message has both."""
        return () if self.options.layout == "messages" else GROUP_COLUMNS

    def splits(self, paths: Sequence[str | PathLike[str]], wanted: int) -> list[Split[Any]]:
        """As ``Source.splits``."""
        files = self.files(paths)
        if self.options.layout == "messages":
            return [*message_splits.make_splits(files, self.snapshot)]
        return [part.split for part in self._parts(files, wanted)]

    def pending(self, context: PendingContext) -> SourceInput:
        """As ``Source.pending``: new files, or rows that have waited long enough."""
        is_over = is_wait_over(context.state(), self.options, context.clock)
        new = Source.pending(self, context)
        return replace(new, reads=new.reads or is_over)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``: surveys the header columns of all splits, those with waiting rows first."""
        files = self.files(context.paths) if context.paths else []
        if self.options.layout == "messages":
            lines = context.limit(message_splits.make_splits(files, self.snapshot))
            where = str(files[0]) if files else ""
            read = message_splits.with_mask_reading(
                lines, self.options, self.snapshot, context.catalogue, where
            )
            return PreparedSource(self, tuple(read))
        carry_over = context.carry_over or CarryOver(None, context.staged)
        options = self.options if context.carry_over else replace(self.options, pair_wait=0)
        waiting = OpenPairs(options, carry_over.before, carry_over.clock)
        parts = self._parts([*waiting.files, *files], context.wanted)
        parts = parts if context.sample is None else parts[:1]
        survey = partial(_survey, seconds=options.pair_wait)
        headers = context.tasks.survey(survey, parts)
        facts = self._find_facts(parts, headers, waiting, context.catalogue)
        if context.carry_over is not None:
            waiting.write_index(carry_over.after)
            _write_waiting(parts, headers, facts.cut, carry_over.after)
        return PreparedSource(replace(self, facts=facts), tuple(part.split for part in parts))

    def _parts(self, paths: Sequence[Path], wanted: int) -> list[_SplitOfFile]:
        """Divides files into splits."""
        size = max(1, sum(path.stat().st_size for path in paths))
        parts = []
        for path in paths:
            layout = layout_of(path, self.options, self.snapshot)
            share = max(1, wanted * path.stat().st_size // size)
            splits = file_splits.splits([path], layout.reading, layout.columns(), share)
            parts += [_SplitOfFile(split, layout) for split in splits]
        return parts

    def _find_facts(
        self,
        parts: Sequence[_SplitOfFile],
        headers: Sequence[HeaderFacts],
        waiting: OpenPairs,
        catalogue: Catalogue,
    ) -> InputFacts:
        """Finds the facts of the whole input from those of its splits.

        Files with the same columns share a reading of masks."""
        masks: dict[tuple[str, ...], MaskFacts] = {}
        tables: dict[tuple[object, ...], ChangedTable] = {}
        numbers: dict[str, int] = {}
        for split, layout in parts:
            names = layout.names
            if names not in masks:
                alike = [at for at, part in enumerate(parts) if part.layout.names == names]
                masks[names] = infer_masks(
                    join_masks(headers[at] for at in alike),
                    layout,
                    self.options,
                    partial(_read_all, [parts[at] for at in alike]),
                    split.path,
                    catalogue,
                    waiting.readings.get(names),
                )
                if (reading := masks[names].reading) is not None:
                    waiting.readings[names] = reading
            table = (names, layout.table, layout.key)
            tables.setdefault(table, ChangedTable(layout, masks[names], split.path))
            numbers.setdefault(split.path, list(tables).index(table))
        files = (InputFile(path, Path(path).name, number) for path, number in numbers.items())
        cut = waiting.find_cut(headers)
        return InputFacts(tuple(tables.values()), tuple(files), ranking_of(headers), cut)

    def read(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.read``."""
        if isinstance(split.payload, MessageLines):
            place = Place(ctx.source, number, split.path, ctx.lanes)
            return message_splits.read(split, place, ctx, self.options, self.snapshot)
        return read_alone(self, split, number, ctx)

    def decode(self, split: Any, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.decode``."""
        layout = self._layout(split)
        frames = file_splits.frames(split, layout.reading, layout.columns())
        place = Place(ctx.source, number, split.path, ctx.lanes)
        file, table = self.facts.file_of(split.path)
        builder = self.builder_of(table, place, ctx, self.options)
        return decode(frames, place, layout, builder, file, self.facts.cut)

    def relate(self, rows: Sequence[pa.RecordBatch], ctx: Context) -> Iterator[pa.RecordBatch]:
        """As ``Source.relate``."""

        def builder_of(number: int) -> ChangeTableChangeBuilder:
            table = self.facts.tables[number]
            place = Place(ctx.source, 0, table.where, ctx.lanes)
            return self.builder_of(table, place, ctx, self.options)

        return relate(rows, self.facts, builder_of)

    def builder_of(
        self, table: ChangedTable, place: Place, ctx: Context, options: ChangeTableOptions
    ) -> ChangeTableChangeBuilder:
        """Creates the builder of changes of a table, as ``create_builder``."""
        masks = table.masks
        return create_builder(
            table.layout, masks.reading, masks.key, place, ctx, options, self.facts.ranking
        )

    def position_text(self, position: Position) -> str:
        """The change_seq."""
        return change_seq.position_text(position)

    def parse_position(self, text: str) -> Position:
        """Parses a position."""
        return change_seq.parse_position(text)

    def raw_records(self, split: Split[ChangeTablePart], rows: frozenset[int]) -> dict[int, str]:
        """As ``Source.raw_records``."""
        payload = split.payload
        if isinstance(payload, MessageLines):
            return message_splits.raw_records(split.with_payload(payload), rows, self.snapshot)
        layout = self._layout(split)
        remaining = file_splits.narrow(split.with_payload(payload), min(rows))
        frames = file_splits.frames(remaining, layout.reading, layout.columns())
        return dict(find_records(frames, rows, lambda frame: rows_of(frame, layout).batch))

    def raw_operations(
        self, splits: Sequence[Split[ChangeTablePart]], number: int, rows: frozenset[int]
    ) -> dict[int, str]:
        """As ``Source.raw_operations``: an UPDATE has its before image."""
        raws = self.raw_records(splits[number], rows)
        if self.options.layout == "messages":
            return raws
        own = Path(splits[number].path)
        others = dict.fromkeys(Path(split.path) for split in splits if Path(split.path) != own)
        files = [own, *(path for path in others if path.exists())]
        read = [partial(_read_all, self._parts([path], 1)) for path in files]
        for row, image in find_before_images(rows & raws.keys(), read):
            raws[row] = as_json({**json.loads(raws[row]), BEFORE_IMAGE: image})
        return raws

    def _layout(self, split: Split[object]) -> ChangeTableLayout:
        return layout_of(Path(split.path), self.options, self.snapshot)


def _survey(part: _SplitOfFile, _catalogue: Catalogue, seconds: float) -> HeaderFacts:
    """Surveys a split in a task of its own."""
    split, layout = part
    columns = layout.columns()
    match split.payload:
        case TextRange("jsonl") | RowGroups():
            pass  # the whole row must be read: any column may make it unreadable
        case _:
            headers = [layout.headers[n] for n in _HEADERS_SURVEYED if n in layout.headers]
            columns = layout.columns(headers)
    frames = file_splits.frames(split, layout.reading, columns)
    return survey_headers((rows_of(frame, layout) for frame in frames), layout, seconds)


def _read_all(parts: Iterable[_SplitOfFile]) -> Iterator[ChangeRows]:
    """Reads all columns of some splits."""
    for number, (split, layout) in enumerate(parts):
        for frame in file_splits.frames(split, layout.reading, layout.columns()):
            yield rows_of(frame, layout, split=number)


def _write_waiting(
    parts: Sequence[_SplitOfFile], headers: Sequence[HeaderFacts], cut: str | None, folder: Path
) -> None:
    """Writes the rows that wait from ``cut`` on, from the splits that have some."""
    if cut is None:
        return
    bound = change_seq.parts_of(cut)
    for number, (part, facts) in enumerate(zip(parts, headers, strict=True)):
        if facts.youngest is not None and facts.youngest >= bound:
            write_waiting(part.split, part.layout, cut, folder / f"held-{number:06d}.parquet")
