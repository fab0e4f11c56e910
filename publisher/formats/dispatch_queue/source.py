"""The source of exports of the LINTER replication table DISPATCH_QUEUE."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from publisher.errors import InternalError, UsageError
from publisher.formats.columns.record_batches import Place
from publisher.formats.contract import Context, PrepareContext, PreparedSource, Source
from publisher.formats.dispatch_queue.as_json import raw_of
from publisher.formats.dispatch_queue.lost import (
    broken_operations,
    lost_as_facts,
    lost_rows_of_operations,
    rows_of_open_transactions,
    write_lost_rows,
)
from publisher.formats.dispatch_queue.object_names import QueueNames, describe_table
from publisher.formats.dispatch_queue.operations import Operations, OperationUse, RowKind
from publisher.formats.dispatch_queue.options import DispatchQueueOptions, QueueTable
from publisher.formats.dispatch_queue.owners import (
    SourceTable,
    refuse_shared_names,
    remembered_nodes,
    source_tables,
    tables_as_facts,
    tables_of_facts,
)
from publisher.formats.dispatch_queue.rows import delimited_text as text
from publisher.formats.dispatch_queue.rows.file_probe import (
    LIST_A_ONLY,
    cut_rows,
    detect_stride,
    index_of,
    join_indexes,
    parts_reading,
)
from publisher.formats.dispatch_queue.rows.layout import OperationCode
from publisher.formats.dispatch_queue.rows.rows import (
    Codes,
    Destination,
    LostRow,
    QueueRows,
    binary_rows,
    whole_rows,
)
from publisher.formats.dispatch_queue.splits import (
    BinaryRows,
    QueueSplit,
    StateRows,
    TextRows,
    has_marks,
)
from publisher.formats.dispatch_queue.to_records import (
    NO_ROW,
    DispatchQueueRecordBuilder,
    faults_of,
)
from publisher.formats.dispatch_queue.transactions import carry_over as queue_state
from publisher.formats.dispatch_queue.transactions.destinations import (
    collapse_copies,
    exclude_operations,
)
from publisher.formats.dispatch_queue.transactions.facts import (
    ListEvidence,
    TransactionRows,
    address_text,
    facts_of,
    of_transactions,
    signed_address,
    unsigned_address,
)
from publisher.formats.dispatch_queue.transactions.fates import Fates
from publisher.formats.dispatch_queue.transactions.joining import join_rows
from publisher.formats.dispatch_queue.transactions.resolve import resolve_fates
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split
from publisher.formats.files.mapped_file import map_file
from publisher.formats.files.options import SnapshotOptions
from publisher.model.catalogue import Catalogue, Table
from publisher.model.change import Position

_PART_BYTES = 64 << 20
"""Maximum bytes of a split, unless a single operation is longer; a task holds a whole split in memory."""
_INDEXED_BYTES = 64 << 20
"""Bytes of a file whose rows are indexed at once."""
_ALL = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class DispatchQueue(Source):
    """Binary or text exports of DISPATCH_QUEUE.

    Positions are ``DATABASE:ADDRESS@COMMIT`` with addresses as FILE.ADDRESS.  COMMIT itself and operations
    without one have ``DATABASE:ADDRESS``, and a piece that is not a row has ``FILE:NUMBER``.
    """

    options: DispatchQueueOptions = field(default_factory=DispatchQueueOptions)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "dispatch-queue"
    fates: Fates | None = None
    """Fates of the transactions; ``None`` before ``prepare``."""
    source_tables: tuple[SourceTable, ...] = ()
    """The tables of operations; empty before ``prepare``."""

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """Database, number and COMMIT address of a transaction, because numbers are reused."""
        return ("part", "transaction", "high")

    @property
    def joins_keys(self) -> bool:
        """As ``Source.joins_keys``."""
        return self.options.joins_keys

    def tables(self) -> tuple[Table, ...]:
        """Describes the replicated tables; tables without a name in the settings only after the survey."""
        tables = []
        for table in self.options.tables:
            destinations = {("", "")} if table.name else self._destinations(table)
            for owner, name in sorted(destinations):
                tables.append(describe_table(table, Destination("", owner, name), self.options))
        return tuple(tables)

    def _destinations(self, table: QueueTable) -> set[tuple[str, str]]:
        """Returns owners and names at the destinations of a table without a name in the settings."""
        return {
            (source.owner, source.destination)
            for source in self.source_tables
            if source.destination and self.options.table(source.node, source.number) == table
        }

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """Finds the files that paths name, whatever their suffix; refuses two files of one name."""
        return file_splits.every_file(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[QueueSplit]:
        """Divides files into splits, none of which cuts an operation.

        Raises ``FatalError`` if a file does not fit."""
        files = self.files(paths)
        sizes = [path.stat().st_size for path in files]
        target = min(max(1, sum(sizes) // max(1, wanted)), _PART_BYTES)
        splits: list[QueueSplit] = []
        for path, size in zip(files, sizes, strict=True):
            if self._is_text(path):
                splits += text.splits(path, self.options, self.snapshot, target)
            else:
                splits += self._binary_splits(str(path), size, target)
        return splits

    def _is_text(self, path: Path) -> bool:
        if self.options.layout == "auto":
            return file_splits.kind_of(path) == "csv"
        return self.options.layout == "text"

    def _binary_splits(self, path: str, size: int, target: int) -> Iterator[QueueSplit]:
        data = map_file(path, size)
        stride = detect_stride(self.options, data, path)
        count = whole_rows(size, stride)
        step = max(1, _INDEXED_BYTES // stride)
        blocks = (
            binary_rows(
                data, first * stride, min((first + step) * stride, size), stride, self.options, 1
            )
            for first in range(0, count, step)
        )
        index = join_indexes(index_of(rows) for rows in blocks)
        reading = parts_reading(self.options, index)
        firsts = cut_rows(index, -(-target // stride))
        ends = [first * stride for first in firsts[1:]] + [size]
        for first, stop in zip(firsts, ends, strict=True):
            rows = BinaryRows(first * stride, stop, first + 1, stride, reading)
            yield Split(path, stop - rows.start, size, rows)

    def prepare(self, context: PrepareContext) -> PreparedSource:
        """As ``Source.prepare``: resolves the fates of transactions over all splits; the first splits
        are the files that the last run left."""
        carry_over = context.carry_over
        splits = context.limit(self.splits(context.paths, context.wanted))
        if carry_over is not None and carry_over.before is not None:
            splits = [*queue_state.splits_of(carry_over.before), *splits]
        facts = context.tasks.survey(self.survey, splits)
        source = self._with_facts(facts)
        if carry_over is not None:
            source.write_carry_over(splits, carry_over.after)
        return PreparedSource(source, tuple(splits))

    def write_carry_over(self, splits: Sequence[QueueSplit], folder: Path) -> None:
        """Writes the rows of open transactions, and the marks of ended transactions."""
        assert self.fates is not None  # the survey is over
        folder.mkdir(parents=True)
        before = [split.path for split in splits if has_marks(split)]
        tables = tables_as_facts(self.source_tables)
        queue_state.write_marks(folder, before, self.fates, tables)
        lost: list[LostRow] = []
        with queue_state.OpenRowWriter(folder) as writer:
            for number in self.fates.open_parts:
                operations = self._operations(splits[number])
                self._write_open(operations, writer)
                lost += rows_of_open_transactions(lost_rows_of_operations(operations), self.fates)
        write_lost_rows(folder, lost)

    def _write_open(self, operations: Operations, writer: queue_state.OpenRowWriter) -> None:
        assert self.fates is not None
        is_open = self.fates.spans_of(operations) < 0
        is_open &= (operations.kind == RowKind.OPERATION) & (
            operations.use != OperationUse.EXCLUDED
        )
        is_open[broken_operations(operations)] = False
        numbers = np.flatnonzero(is_open).tolist()
        places = [row for number in numbers for row in operations.rows_of(number)]
        writer.write(operations.rows, np.array(places, np.int64), operations.reading)

    def forget(self, splits: Sequence[QueueSplit], refused: Sequence[bool], folder: Path) -> None:
        """Removes the marks and lost rows of refused files, so that a later run reads these again."""
        assert self.fates is not None  # the survey is over
        spans: dict[bool, set[int]] = {True: set(), False: set()}
        refused_rows: list[LostRow] = []
        for split, is_refused in zip(splits, refused, strict=True):
            if not has_marks(split):
                operations = self._operations(split)
                spans[is_refused] |= self._spans(operations)
                refused_rows += lost_rows_of_operations(operations) if is_refused else ()
        queue_state.forget_lost_rows(folder, refused_rows)
        queue_state.remove_marks(folder, self.fates, spans[True] - spans[False])

    def _spans(self, operations: Operations) -> set[int]:
        """Returns the spans of the operations that belong to ended transactions."""
        assert self.fates is not None
        span = self.fates.spans_of(operations)
        used = (operations.kind == RowKind.OPERATION) & (operations.use != OperationUse.EXCLUDED)
        return set(np.unique(span[used & (span >= 0)]).tolist())

    def survey(self, split: QueueSplit, catalogue: Catalogue) -> pa.RecordBatch:
        """Collects facts about the transactions in a split."""
        if has_marks(split):
            return queue_state.facts_of_marks(split.path)
        operations = self._operations(split)
        names = QueueNames(self.options, catalogue)
        faults = faults_of(operations, names)
        chosen = np.flatnonzero(operations.use == OperationUse.COUNTED)
        place = {int(number): at for at, number in enumerate(chosen)}
        facts = facts_of(
            TransactionRows(
                kind=operations.kind[chosen],
                node=operations.node[chosen],
                nodes=operations.rows.nodes,
                transaction=operations.column("TRANSACT_ID")[chosen],
                address=operations.address[chosen],
                lists=_evidence(operations)[chosen],
                faults={place[at]: detail for at, detail in faults.items() if at in place},
            )
        )
        tables = tables_as_facts(source_tables(operations, names))
        lost = lost_as_facts(operations.rows.lost)
        return pa.concat_batches([facts, *lost, tables])

    def _with_facts(self, parts: Sequence[pa.RecordBatch]) -> DispatchQueue:
        """Returns the source with the fates of all transactions, resolved from the facts of all splits.

        Raises ``FatalError`` if two databases have a table of one name."""
        fates = resolve_fates([of_transactions(part) for part in parts])
        # a row with a damaged DBNODE has no COMMIT, and must not stop the others
        active = fates.active_nodes() | {node for part in parts for node in remembered_nodes(part)}
        surveyed = {table for part in parts for table in tables_of_facts(part)}
        tables = tuple(sorted(table for table in surveyed if table.node in active))
        refuse_shared_names(tables, self.options.nodes)
        return replace(self, fates=fates, source_tables=tables)

    def read(self, split: QueueSplit, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Reads batches of ``RECORD_SCHEMA``, the tally last."""
        if self.fates is None:
            raise InternalError("a dispatch queue was read before its survey: report this")
        place = Place(ctx.source, number, split.path, ctx.lanes)
        names = QueueNames(self.options, ctx.catalogue)
        builder = DispatchQueueRecordBuilder(
            place, self.options, self._operations(split), names, self.fates
        )
        yield from builder.batches()

    def _operations(self, split: QueueSplit) -> Operations:
        setting = self.options.parts  # overrides the reading that an earlier run detected
        reading = split.payload.reading if setting == "auto" else setting
        operations = join_rows(self._rows(split), self.options, reading)
        exclude_operations(operations, self.options)
        collapse_copies(operations, self.options)
        return operations

    def _rows(self, split: QueueSplit) -> QueueRows:
        match split.payload:
            case TextRows(lines):
                return text.rows(split.with_payload(lines), self.options, self.snapshot)
            case StateRows(file):
                return queue_state.rows_of(split.path, file)
            case BinaryRows(start, stop, first, stride):
                data = map_file(split.path, split.length)
                return binary_rows(data, start, stop, stride, self.options, first)

    def position_text(self, position: Position) -> str:
        """Formats a position as ``DATABASE:ADDRESS@COMMIT``."""
        if position.ordinal == NO_ROW:
            return f"{position.part}:{position.high}"
        low = f"{position.part}:{address_text(unsigned_address(position.low))}"
        if position.low == position.high:
            return low
        return f"{low}@{address_text(unsigned_address(position.high))}"

    def parse_position(self, text: str) -> Position:
        """Parses a position that a user wrote.  Raises ``UsageError``."""
        part, _, where = text.strip().rpartition(":")
        low, _, high = where.partition("@")
        try:
            if "." not in low:
                return Position(part, int(low), 0, NO_ROW)
            return Position(part, _address(high or low), _address(low), 0)
        except ValueError:
            raise UsageError(
                f"{text!r} is not a position of a dispatch queue; write"
                " DATABASE:FILE.ADDRESS@FILE.ADDRESS, the log addresses of the operation and of its COMMIT"
            ) from None

    def is_short(self, text: str) -> bool:
        """Tests whether a position omits the address of the COMMIT."""
        return "@" not in text and "." in text.rpartition(":")[2]

    def raw_records(self, split: QueueSplit, rows: frozenset[int]) -> dict[int, str]:
        """As ``Source.raw_records``: an operation has the numbers of all its rows."""
        operations = self._operations(split)
        records = {piece.row: piece.raw for piece in operations.rows.broken if piece.row in rows}
        wanted = np.flatnonzero(np.isin(operations.rows.numbers, sorted(rows - records.keys())))
        of_first = dict(zip(operations.first.tolist(), range(len(operations)), strict=True))
        of_later = {
            place: number
            for number in np.flatnonzero(operations.group >= 0).tolist()
            for place in operations.rows_of(number)
        }
        for place in wanted.tolist():
            number = of_first.get(place, of_later.get(place))
            if number is not None:
                records[int(operations.rows.numbers[place])] = raw_of(operations, number)
        return records


def _address(text: str) -> int:
    file, dot, address = text.partition(".")
    if not dot or not (file.isdecimal() and address.isdecimal() and text.isascii()):
        raise ValueError(text)
    number = (int(file) << 32) | int(address)
    if int(address) >> 32 or number > _ALL:
        raise ValueError(text)
    return signed_address(number)


def _evidence(operations: Operations) -> Codes:
    """Returns the evidence of each faultless operation for one of the two lists of TYP."""
    typ = operations.column("TYP")
    evidence = np.where(np.isin(typ, LIST_A_ONLY), ListEvidence.LIST_A, 0)
    is_four = typ == OperationCode.COMMIT
    with_data = is_four & (operations.kind == RowKind.OPERATION)
    evidence = np.where(with_data, ListEvidence.LIST_B, evidence)
    is_commit = is_four & (operations.kind == RowKind.COMMIT)
    evidence = np.where(is_commit, ListEvidence.COMMIT_OF_A, evidence)
    evidence[list(operations.faults)] = 0
    return evidence
