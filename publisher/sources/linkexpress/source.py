"""The source of extraction data files (抽出データ格納ファイル), which lxextdb of Linkexpress writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import JobCatalogue, Table
from publisher.model.change import Outcome, Position
from publisher.sources.columns.byte_areas import Bytes
from publisher.sources.columns.record_batches import Place
from publisher.sources.contract import Context, PrepareContext, PreparedSource, Source
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.mapped_file import map_file
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.linkexpress.carry_over import (
    HeldTail,
    InputPart,
    accept_completed,
    read_held_parts,
    write_held_parts,
)
from publisher.sources.linkexpress.ended_files import (
    EndedFile,
    drop_own_rejects,
    find_ended_earlier,
    find_ended_files,
    read_ended_files,
    reject_ended,
    write_ended_files,
)
from publisher.sources.linkexpress.file_probe import ExtractFileForm, build_framer, recognise_file
from publisher.sources.linkexpress.framing import RecordFramer
from publisher.sources.linkexpress.headers import MARK
from publisher.sources.linkexpress.layout import form_of
from publisher.sources.linkexpress.object_names import ExtractedTableNames
from publisher.sources.linkexpress.options import LinkexpressOptions
from publisher.sources.linkexpress.reject_messages import raw_text
from publisher.sources.linkexpress.splits import ExtractPart, ExtractSplit, join_transactions
from publisher.sources.linkexpress.to_changes import LinkexpressChangeBuilder


class _FilePart(NamedTuple):
    """A part of a file: first byte, byte after the last, form."""

    start: int
    stop: int
    known: ExtractFileForm


@dataclass(frozen=True, slots=True)
class Linkexpress(Source):
    """Files of one extraction: a table, a full extract of a group's table, differences of a group.

    Positions are ``FILE:OFFSET``, the byte at which a record begins.  Several files are read in the
    order of their names; in differences of a group a transaction may continue in the next.
    """

    options: LinkexpressOptions
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    """Not used for these files."""
    format: str = "linkexpress"

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """The position of its first record; only the differences of a group have transactions."""
        return ("transaction",) if self._in_transactions else ()

    def tables(self) -> tuple[Table, ...]:
        """The tables by their extraction definitions."""
        return tuple(table.definition(self.options.schema) for table in self.options.tables)

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """The files in paths, with any suffix; no two with the same name."""
        return file_splits.every_file(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[ExtractSplit]:
        """The parts that tasks read.  Raises ``FatalError`` if a file as a whole does not fit."""
        return self._split(self._new_parts(paths), wanted)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``SourceBase.prepare``: reads the records that the last run has held, too, and holds
        records for the next run."""
        carry_over = context.carry_over
        if carry_over is None:
            return Source.prepare(self, context)
        before, ended = read_held_parts(carry_over.before), read_ended_files(carry_over.before)
        if before and not self._in_transactions:
            raise FatalError(
                f"{carry_over.before} has records of a group's differences that wait for their commit, "
                "but the source is of another kind now: restore unit and extract, or give it a new name"
            )
        new = self._new_parts(context.paths)
        again = {path: part for part in new if (path := str(part.path.resolve())) in ended}
        accepted = accept_completed(before, new)
        accepted = list(drop_own_rejects(accepted, [ended[path] for path in again]))
        splits = self._split([*accepted, *new], context.wanted, ended)
        held = [split for split in splits if split.payload.is_held]
        if before or held or ended:
            write_held_parts(carry_over.after, held, self._read_tail)
            more = find_ended_earlier(accepted, splits)
            write_ended_files(carry_over.after, [*ended.values(), *more])
        return PreparedSource(self, tuple(splits))

    def forget(self, splits: Sequence[ExtractSplit], refused: Sequence[bool], folder: Path) -> None:
        """Remembers the refused files of which a transaction ended, instead."""
        if self._in_transactions:
            write_ended_files(folder, find_ended_files(splits, refused))

    def _read_tail(self, split: ExtractSplit) -> HeldTail:
        """Reads a tail, as a task does later, to find the records that are held."""
        # with kinds of key columns that only the job knows, the task may still reject one of them
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
        cut = b""
        if rejects and not rejected:
            first = min(rejects, key=lambda reject: int(reject["rank"]))
            rejected = f"its record at {first['part']}:{first['high']}: {first['detail']}"
            cut = self._cut_record(split, first["rank"]) if len(rejects) == 1 else b""
        offsets = np.concatenate(ranks) - part.first + part.start
        ranges: list[tuple[int, int]] = []
        for block in self._framer(split).blocks(part.start):
            chosen = np.isin(block.offsets, offsets)
            begins, ends = block.offsets[chosen], (block.offsets + block.lengths)[chosen]
            for start, stop in zip(begins.tolist(), ends.tolist(), strict=True):
                continues = ranges and ranges[-1][1] == start
                ranges.append((ranges.pop()[0] if continues else start, stop))
        is_whole = part.start == 0 and part.stop == split.length
        return HeldTail(ranges, rejected, cut, is_whole and bool(rejects) and not ranges)

    def _cut_record(self, split: ExtractSplit, rank: int) -> bytes:
        """The beginning of a record with which the file ends; empty if it is little more than a header."""
        framer = self._framer(split)
        at = rank - split.payload.first + split.payload.start
        size = int(framer.one(at).lengths[0])
        if at + size < split.length or size < 2 * framer.form.size:
            return b""
        return framer.data[at : at + size].tobytes()

    def _framer(self, split: ExtractSplit) -> RecordFramer:
        """The framer of a split.  Raises ``FatalError`` if its file has changed."""
        data = map_file(split.path, split.length)
        return build_framer(self.options, data, split.payload.form, split.payload.stop)

    @property
    def _in_transactions(self) -> bool:
        return self.options.unit == "group" and self.options.extract == "diff"

    def _new_parts(self, paths: Sequence[str | os.PathLike[str]]) -> list[InputPart]:
        files = sorted(self.files(paths), key=lambda path: path.name)
        return [InputPart(path, path.stat().st_size) for path in files]

    def _split(
        self,
        parts: Sequence[InputPart],
        wanted: int,
        ended: Mapping[str, EndedFile] = MappingProxyType({}),
    ) -> list[ExtractSplit]:
        target = max(1, sum(part.size for part in parts) // max(1, wanted))
        splits: list[ExtractSplit] = []
        apart: list[ExtractSplit] = []
        before = 0
        for part in parts:
            path, size = str(part.path), part.size
            data = map_file(path, size)
            known = part.known or recognise_file(self.options, data, path)
            own: list[ExtractSplit] = []
            for start, stop, form in self._cut(data, known, target):
                payload = ExtractPart(start, stop, before + start + 1, form, part.origin)
                own.append(Split(path, stop - start, size, payload))
            before += size + 1
            rejects = ended.get(str(part.path.resolve()))
            if rejects is None:
                splits += own
            else:
                (apart if rejects.last else splits).extend(reject_ended(own, rejects))
        return [*apart, *join_transactions(splits)] if self._in_transactions else splits

    def _cut(self, data: Bytes, known: ExtractFileForm, target: int) -> Iterator[_FilePart]:
        size, form = len(data), form_of(self.options)
        if not size or (not form.has_length and known.state == "no-rows"):
            yield _FilePart(0, size, known)
        elif not form.has_length:
            length = build_framer(self.options, data, known, size).tables[0].greatest
            step = max(1, -(-target // length)) * length
            for start in range(0, size, step):
                yield _FilePart(start, min(start + step, size), known)
        else:
            yield from self._cut_at_records(data, known, target)

    def _cut_at_records(
        self, data: Bytes, known: ExtractFileForm, target: int
    ) -> Iterator[_FilePart]:
        """Parts that begin at records, in differences of a group at transactions.

        The tail behind the last commit is a part of its own.
        """
        in_transactions = self._in_transactions
        size, start, committed = len(data), 0, 0
        if not in_transactions and target >= size:
            yield _FilePart(0, size, known)
            return
        finder = build_framer(self.options, data, known, size)
        for block in finder.blocks(0):
            good = block.good
            places = block.offsets[good]
            if in_transactions:
                is_mark = good & (block.heads.table == MARK)
                places = block.offsets[is_mark] + block.lengths[is_mark]
                committed = int(places[-1]) if len(places) else committed
                places = places[finder.heads(places).good]  # bytes after a commit may be damaged
            while len(at := places[places >= start + target]):
                if int(at[0]) >= size:
                    break
                yield _FilePart(start, int(at[0]), known)
                start = int(at[0])
        if not in_transactions:
            yield _FilePart(start, size, known)
            return
        if committed > start:
            yield _FilePart(start, committed, known)
        if committed < size:
            yield _FilePart(committed, size, ExtractFileForm(known.order, known.logtype, "held"))

    def read(self, split: ExtractSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``, the tally last."""
        part, finder = split.payload, self._framer(split)
        place = Place(ctx.source, number, split.path, ctx.lanes)
        case, schema = self.options.identifier_case, self.options.schema
        names = tuple(
            ExtractedTableNames.of_table(table, schema, ctx.catalogue, case)
            for table in self.options.tables
        )
        if part.start and finder.form.has_length:
            head = finder.heads(np.array([part.start], np.int64))
            if part.form.state == "whole" and not head.good[0]:
                raise FatalError(
                    f"{split.path} has no record at byte {part.start} any more; it has changed since the run"
                    " began: start again"
                )
        builder = LinkexpressChangeBuilder(
            place,
            self.options,
            finder,
            names,
            base=part.first - part.start - 1,
            held=part.is_held,
            no_rows=part.form.state == "no-rows",
            origin=part.origin,
        )
        if builder.no_rows and not finder.form.has_length:
            yield from builder.empty_extract()
            return
        yield from builder.batches(finder.blocks(part.start), part.start)

    def position_text(self, position: Position) -> str:
        """``FILE:OFFSET``."""
        return position.text()

    def parse_position(self, text: str) -> Position:
        """Parses a position.  Raises ``UsageError``."""
        part, _, offset = text.strip().rpartition(":")
        if not part or not offset.isascii() or not offset.isdigit():
            raise UsageError(f"{text!r} is not a position of an extract file; write FILE:OFFSET")
        return Position(part, int(offset), 0, 0)

    def raw(self, split: ExtractSplit, row: int) -> str | None:
        """Reads the record at an offset again, as JSON text with its bytes in hex."""
        part = split.payload
        offset = part.origin.own_offset(row)
        if offset is None or not part.start <= offset < part.stop:
            return None
        finder = self._framer(split)
        if part.form.state == "no-rows" and not finder.form.has_length:
            return raw_text(finder.data, 0, len(finder.data), row)
        block = finder.one(offset)
        return raw_text(finder.data, offset, int(block.lengths[0]), row)
