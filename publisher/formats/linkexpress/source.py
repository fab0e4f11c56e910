"""The source of extraction data files (抽出データ格納ファイル), which lxextdb of Linkexpress writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError, UsageError
from publisher.formats.columns.byte_areas import Bytes
from publisher.formats.columns.record_batches import Place
from publisher.formats.contract import Context, PrepareContext, PreparedSource, Source
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split
from publisher.formats.files.mapped_file import map_file
from publisher.formats.files.options import SnapshotOptions
from publisher.formats.linkexpress.carry_over import (
    HeldTail,
    InputPart,
    read_held_parts,
    write_held_parts,
)
from publisher.formats.linkexpress.file_probe import ExtractFileForm, build_framer, recognise_file
from publisher.formats.linkexpress.framing import RecordFramer
from publisher.formats.linkexpress.headers import NoTable
from publisher.formats.linkexpress.layout import form_of
from publisher.formats.linkexpress.object_names import ExtractedTableNames
from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.formats.linkexpress.reject_messages import raw_text
from publisher.formats.linkexpress.splits import ExtractPart, ExtractSplit, join_transactions
from publisher.formats.linkexpress.to_changes import LinkexpressChangeBuilder
from publisher.model.catalogue import JobCatalogue, Table
from publisher.model.change import Outcome, Position
from publisher.redaction import hide_values


class _FilePart(NamedTuple):
    """A part of a file: first byte, byte after the last, form."""

    start: int
    stop: int
    form: ExtractFileForm


@dataclass(frozen=True, slots=True)
class Linkexpress(Source):
    """Files of one extraction: a table, a full extract of a group's table, differences of a group.

    Positions are ``FILE:OFFSET``, the byte at which a record begins.  Several files are read in the
    order of their names; in differences of a group a transaction may continue in the next file.
    """

    options: LinkexpressOptions
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    """Not used for these files."""
    format: str = "linkexpress"

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """Only the differences of a group have transactions, named after the position of the first record."""
        return ("transaction",) if self._in_transactions else ()

    def tables(self) -> tuple[Table, ...]:
        """Describes the tables of the settings."""
        return tuple(table.definition(self.options.schema) for table in self.options.tables)

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """Finds the files that paths name, whatever their suffix, in the order of their names; refuses two
        files of one name."""
        files = file_splits.every_file(paths, may_be_none=may_be_none)
        return sorted(files, key=lambda path: path.name)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[ExtractSplit]:
        """Divides files into splits.  Raises ``FatalError`` if a file as a whole does not fit."""
        return self._split(self._new_parts(paths), wanted)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``: also reads the records that the last run has held, and holds records
        for the next run."""
        carry_over = context.carry_over
        if carry_over is None:
            return Source.prepare(self, context)
        before = read_held_parts(carry_over.before)
        if before and not self._in_transactions:
            raise FatalError(
                f"{carry_over.before} has records of a group's differences that wait for their commit, "
                "but the source reads no differences of a group any more: restore unit and extract, or give"
                " it a new name"
            )
        splits = self._split([*before, *self._new_parts(context.paths)], context.wanted)
        held = [split for split in splits if split.payload.is_held]
        if before or held:
            write_held_parts(carry_over.after, held, self._read_tail)
        return PreparedSource(self, tuple(splits))

    def stand_alone(self, splits: Sequence[ExtractSplit]) -> bool:
        """As ``Source.stand_alone``: false if a transaction continues from or in another file."""
        parts = [split.payload for split in splits]
        return not any(
            part.origin.since is not None or part.form.state in ("held", "tail") for part in parts
        )

    def _read_tail(self, split: ExtractSplit) -> HeldTail:
        """Reads a tail, as a task does later, to find the records that are held."""
        # the task also knows the types of key columns from the job, so it may still reject one of these
        ctx = Context(0, 1, JobCatalogue(()))
        part = split.payload
        ranks = [np.zeros(0, np.int64)]
        rejected = part.origin.rejected
        rejects: list[dict[str, Any]] = []
        for batch in self.read(split, 0, ctx):
            outcomes = np.asarray(batch["outcome"].fill_null(0))
            ranks.append(np.asarray(batch["rank"])[outcomes == Outcome.HELD.value])
            wrong = pa.array(outcomes == Outcome.REJECTED.value)
            rejects += batch.select(["part", "high", "rank", "detail"]).filter(wrong).to_pylist()
        if rejects and not rejected:
            first = min(rejects, key=lambda reject: int(reject["rank"]))
            rejected = f"its record at {first['part']}:{first['high']}: "
            rejected += hide_values(first["detail"])
        offsets = np.concatenate(ranks) - part.first + part.start
        ranges: list[tuple[int, int]] = []
        for block in self._framer(split).blocks(part.start):
            chosen = np.isin(block.offsets, offsets)
            begins, ends = block.offsets[chosen], (block.offsets + block.lengths)[chosen]
            for start, stop in zip(begins.tolist(), ends.tolist(), strict=True):
                continues = ranges and ranges[-1][1] == start
                ranges.append((ranges.pop()[0] if continues else start, stop))
        return HeldTail(ranges, rejected)

    def _framer(self, split: ExtractSplit) -> RecordFramer:
        """Builds the framer of a split.  Raises ``FatalError`` if its file has changed."""
        data = map_file(split.path, split.length)
        return build_framer(self.options, data, split.payload.form, split.payload.stop)

    @property
    def _in_transactions(self) -> bool:
        return self.options.unit == "group" and self.options.extract == "diff"

    def _new_parts(self, paths: Sequence[str | os.PathLike[str]]) -> list[InputPart]:
        return [InputPart(path, Path(path).stat().st_size) for path in self.files(paths)]

    def _split(self, parts: Sequence[InputPart], wanted: int) -> list[ExtractSplit]:
        target = max(1, sum(part.size for part in parts) // max(1, wanted))
        splits: list[ExtractSplit] = []
        before = 0
        for part in parts:
            path, size = str(part.path), part.size
            data = map_file(path, size)
            file_form = part.form or recognise_file(self.options, data, path)
            for start, stop, form in self._cut(data, file_form, target):
                payload = ExtractPart(start, stop, before + start + 1, form, part.origin)
                splits.append(Split(path, stop - start, size, payload))
            before += size + 1
        return join_transactions(splits) if self._in_transactions else splits

    def _cut(self, data: Bytes, form: ExtractFileForm, target: int) -> Iterator[_FilePart]:
        size, has_length = len(data), form_of(self.options).has_length
        if not size or (not has_length and form.state == "no-rows"):
            yield _FilePart(0, size, form)
        elif not has_length:
            length = build_framer(self.options, data, form, size).tables[0].greatest
            step = max(1, -(-target // length)) * length
            for start in range(0, size, step):
                yield _FilePart(start, min(start + step, size), form)
        else:
            yield from self._cut_at_records(data, form, target)

    def _cut_at_records(
        self, data: Bytes, form: ExtractFileForm, target: int
    ) -> Iterator[_FilePart]:
        """Yields parts that begin at records, or in differences of a group at transactions.

        The tail after the last commit record is a separate part.
        """
        in_transactions = self._in_transactions
        size, start, committed = len(data), 0, 0
        if not in_transactions and target >= size:
            yield _FilePart(0, size, form)
            return
        framer = build_framer(self.options, data, form, size)
        for block in framer.blocks(0):
            places = block.offsets
            if in_transactions:
                is_mark = block.heads.table == NoTable.MARK
                places = block.offsets[is_mark] + block.lengths[is_mark]
                committed = int(places[-1]) if len(places) else committed
            while len(at := places[places >= start + target]):
                if int(at[0]) >= size:
                    break
                yield _FilePart(start, int(at[0]), form)
                start = int(at[0])
        if not in_transactions:
            yield _FilePart(start, size, form)
            return
        if committed > start:
            yield _FilePart(start, committed, form)
        if committed < size:
            yield _FilePart(committed, size, ExtractFileForm(form.order, form.logtype, "held"))

    def read(self, split: ExtractSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Reads batches of ``RECORD_SCHEMA``, the tally last."""
        part, framer = split.payload, self._framer(split)
        place = Place(ctx.source, number, split.path, ctx.lanes)
        case, schema = self.options.identifier_case, self.options.schema
        names = tuple(
            ExtractedTableNames.of_table(table, schema, ctx.catalogue, case)
            for table in self.options.tables
        )
        builder = LinkexpressChangeBuilder(
            place,
            self.options,
            framer,
            names,
            base=part.first - part.start - 1,
            held=part.is_held,
            origin=part.origin,
            reads_children=ctx.classes.child_row_events == "read",
        )
        if part.form.state == "no-rows" and not framer.form.has_length:
            yield from builder.empty_extract()
            return
        yield from builder.batches(framer.blocks(part.start), part.start)

    def position_text(self, position: Position) -> str:
        """Formats a position as ``FILE:OFFSET``."""
        return position.text()

    def parse_position(self, text: str) -> Position:
        """Parses a position.  Raises ``UsageError``."""
        part, _, offset = text.strip().rpartition(":")
        if not part or not offset.isascii() or not offset.isdigit():
            raise UsageError(f"{text!r} is not a position of an extract file; write FILE:OFFSET")
        return Position(part, int(offset), 0, 0)

    def raw_records(self, split: ExtractSplit, rows: frozenset[int]) -> dict[int, str]:
        """As ``Source.raw_records``: JSON text with the bytes in hex; numbers are offsets."""
        framer = self._framer(split)
        records = ((row, self._raw(framer, split.payload, row)) for row in rows)
        return {row: text for row, text in records if text is not None}

    def _raw(self, framer: RecordFramer, part: ExtractPart, row: int) -> str | None:
        offset = part.origin.own_offset(row)
        if offset is None or not part.start <= offset < part.stop:
            return None
        if part.form.state == "no-rows" and not framer.form.has_length:
            return raw_text(framer.data, 0, len(framer.data), row)
        length = int(framer.headers.read(np.array([offset], np.int64)).length[0])
        return raw_text(framer.data, offset, length, row)
