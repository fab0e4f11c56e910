"""The source: exports of the LINTER replication table DISPATCH_QUEUE."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from publisher.errors import InternalError, UsageError
from publisher.model.catalogue import Table
from publisher.model.change import Position
from publisher.sources.columns.record_batches import Place
from publisher.sources.contract import CarryOver, Context
from publisher.sources.dispatch_queue.as_json import raw_of
from publisher.sources.dispatch_queue.lost import keep_lost, lost_as_facts, open_rows
from publisher.sources.dispatch_queue.object_names import AllNames, described
from publisher.sources.dispatch_queue.operations import (
    ALONE,
    EXCLUDED,
    OPERATION,
    Operations,
)
from publisher.sources.dispatch_queue.operations import COMMIT as COMMIT_ROW
from publisher.sources.dispatch_queue.options import Options, QueueTable
from publisher.sources.dispatch_queue.owners import (
    SourceTable,
    refuse_shared,
    remembered_nodes,
    source_tables,
    tables_as_facts,
    tables_of_facts,
)
from publisher.sources.dispatch_queue.rows import delimited_text as text
from publisher.sources.dispatch_queue.rows.file_probe import (
    LIST_A_ONLY,
    FileForm,
    cut_rows,
    file_form,
    found_stride,
    index_of,
    joined_index,
    parts_reading,
)
from publisher.sources.dispatch_queue.rows.layout import COMMIT
from publisher.sources.dispatch_queue.rows.rows import (
    Codes,
    Destination,
    LostRow,
    Rows,
    binary_rows,
    whole_rows,
)
from publisher.sources.dispatch_queue.to_records import NO_ROW, Meaning, faults_of
from publisher.sources.dispatch_queue.transactions import carry_over as kept_rows
from publisher.sources.dispatch_queue.transactions.destinations import collapse, leave_out
from publisher.sources.dispatch_queue.transactions.facts import (
    COMMIT_OF_A,
    LIST_A,
    LIST_B,
    Seen,
    address_text,
    facts_of,
    from_stored,
    of_transactions,
    to_stored,
)
from publisher.sources.dispatch_queue.transactions.fates import Fates
from publisher.sources.dispatch_queue.transactions.joining import operations_of
from publisher.sources.dispatch_queue.transactions.resolve import fates_of
from publisher.sources.dispatch_queue.transactions.warnings import doubted, doubts
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.mapped_file import map_file
from publisher.sources.files.options import SnapshotOptions

_PART_BYTES = 64 << 20
"""Bytes of a part, at most, unless a line or an operation alone is longer: a task holds a part whole."""
_INDEXED_BYTES = 64 << 20
"""Bytes of a file whose envelopes are looked at together."""
_ALL = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class DispatchQueue:
    """Binary or text exports of DISPATCH_QUEUE.

    Positions are ``DATABASE:ADDRESS@COMMIT``, addresses written as FILE.ADDRESS; of COMMIT itself, and
    of what no COMMIT closes, ``DATABASE:ADDRESS``.  A piece that is no row is ``FILE:NUMBER``.
    """

    options: Options = field(default_factory=Options)
    snapshot: SnapshotOptions = field(default_factory=SnapshotOptions)
    format: str = "dispatch-queue"
    fates: Fates | None = None
    """What becomes of the transactions; ``None`` before ``with_survey``."""
    seen: tuple[SourceTable, ...] = ()
    """The tables that operations are of; none before ``with_survey``."""
    notes: tuple[str, ...] = ()

    @property
    def transaction_columns(self) -> tuple[str, ...]:
        """Number of the transaction, its database and the address of its COMMIT: numbers are reused."""
        return ("part", "transaction", "high")

    def tables(self) -> tuple[Table, ...]:
        """What the settings say of the replicated tables; those without a name after the survey."""
        found = []
        for table in self.options.tables:
            named = {("", "")} if table.name else self._destinations(table)
            for owner, name in sorted(named):
                found.append(described(table, Destination("", owner, name), self.options))
        return tuple(found)

    def _destinations(self, table: QueueTable) -> set[tuple[str, str]]:
        """Owners and names that destinations give a table which the settings leave without one."""
        return {
            (seen.owner, seen.destination)
            for seen in self.seen
            if seen.destination and self.options.table(seen.node, seen.number) == table
        }

    def files(
        self, paths: Sequence[str | os.PathLike[str]], *, may_be_none: bool = False
    ) -> list[Path]:
        """The files that paths name, whatever their names; no two of one name."""
        return file_splits.every_file(paths, may_be_none=may_be_none)

    def splits(self, paths: Sequence[str | os.PathLike[str]], wanted: int) -> list[Split]:
        """The parts that tasks read, none of which cuts an operation.

        Raises ``FatalError`` where a file as a whole does not fit."""
        found = self.files(paths)
        sizes = [path.stat().st_size for path in found]
        target = min(max(1, sum(sizes) // max(1, wanted)), _PART_BYTES)
        made: list[Split] = []
        for path, size in zip(found, sizes, strict=True):
            if self._is_text(path):
                made += text.splits(path, self.options, self.snapshot, target)
            else:
                made += self._cut(str(path), size, target)
        return made

    def _is_text(self, path: Path) -> bool:
        if self.options.layout == "auto":
            return file_splits.kind_of(path) == "csv"
        return self.options.layout == "text"

    def _cut(self, path: str, size: int, target: int) -> Iterator[Split]:
        data = map_file(path, size)
        stride = found_stride(self.options, data, path)
        count = whole_rows(size, stride)
        step = max(1, _INDEXED_BYTES // stride)
        blocks = (
            binary_rows(
                data, first * stride, min((first + step) * stride, size), stride, self.options, 1
            )
            for first in range(0, count, step)
        )
        index = joined_index(index_of(rows) for rows in blocks)
        form = FileForm("binary", stride, parts_reading(self.options, index))
        firsts = cut_rows(index, -(-target // stride))
        ends = [first * stride for first in firsts[1:]] + [size]
        for first, stop in zip(firsts, ends, strict=True):
            start = first * stride
            yield Split(path, form.text, start, stop, first + 1, stop - start, size)

    def splits_after(
        self, paths: Sequence[str | os.PathLike[str]], wanted: int, carry_over: CarryOver
    ) -> list[Split]:
        """As ``splits``, after what the last run has left."""
        before = kept_rows.splits_of(carry_over.before) if carry_over.before is not None else []
        return [*before, *self.splits(paths, wanted)]

    def leave(self, splits: Sequence[Split], folder: Path) -> None:
        """Keeps the rows of open transactions, and which transactions are done with."""
        assert self.fates is not None  # the survey is over
        folder.mkdir(parents=True)
        marks = [split for split in splits if file_form(split.kind).layout == "marks"]
        before = marks[0] if marks else None
        tables = tables_as_facts(self.seen)
        kept_rows.keep_marks(folder, before, self.fates, tables, self.options.remember)
        lost: list[LostRow] = []
        with kept_rows.Keeper(folder) as keeper:
            for number in self.fates.open_parts:
                made = self._operations(splits[number])
                self._keep_open(made, keeper)
                lost += open_rows(made.rows.lost, self.fates)
        keep_lost(folder, lost)

    def _keep_open(self, made: Operations, keeper: kept_rows.Keeper) -> None:
        assert self.fates is not None
        span = self.fates.span(made.rows.nodes, made.node, made.column("TRANSACT_ID"), made.address)
        open_ = (span < 0) & (made.kind == OPERATION) & (made.counted != EXCLUDED)
        places = [row for number in np.flatnonzero(open_).tolist() for row in made.rows_of(number)]
        keeper.keep(made.rows, np.array(places, np.int64), made.reading)

    def forget(self, splits: Sequence[Split], refused: Sequence[bool], folder: Path) -> None:
        """Takes back that the transactions of refused files are done with: a later run reads them."""
        assert self.fates is not None  # the survey is over
        spans: dict[bool, set[int]] = {True: set(), False: set()}
        for split, is_refused in zip(splits, refused, strict=True):
            if file_form(split.kind).layout != "marks":
                spans[is_refused] |= self._spans(self._operations(split))
        kept_rows.forget_marks(folder, self.fates, spans[True] - spans[False])

    def _spans(self, made: Operations) -> set[int]:
        """The spans that operations belong to."""
        assert self.fates is not None
        span = self.fates.span(made.rows.nodes, made.node, made.column("TRANSACT_ID"), made.address)
        counted = (made.kind == OPERATION) & (made.counted != EXCLUDED) & (span >= 0)
        return set(np.unique(span[counted]).tolist())

    def survey(self, split: Split, ctx: Context) -> pa.RecordBatch:
        """What a part says of the transactions in it."""
        if file_form(split.kind).layout == "marks":
            return kept_rows.facts_of_marks(split)
        operations = self._operations(split)
        names = AllNames(self.options, ctx.catalogue)
        faults = faults_of(operations, names)
        chosen = np.flatnonzero(operations.counted == ALONE)
        place = {int(number): at for at, number in enumerate(chosen)}
        facts = facts_of(
            Seen(
                kind=operations.kind[chosen],
                node=operations.node[chosen],
                nodes=operations.rows.nodes,
                transaction=operations.column("TRANSACT_ID")[chosen],
                address=operations.address[chosen],
                lists=_lists(operations)[chosen],
                faults={place[at]: detail for at, detail in faults.items() if at in place},
            )
        )
        tables = tables_as_facts(source_tables(operations, names))
        lost = lost_as_facts(operations.rows.lost)
        return pa.concat_batches([facts, *lost, tables, doubted(operations, faults)])

    def with_survey(self, facts: Iterable[pa.RecordBatch]) -> DispatchQueue:
        """The source that knows what becomes of each transaction, from the facts of all parts.

        Raises ``FatalError`` where two databases give one table."""
        parts = list(facts)
        fates = fates_of([of_transactions(part) for part in parts])
        # a row whose DBNODE is damaged has no COMMIT, and must not stop the others
        active = fates.active_nodes() | {node for part in parts for node in remembered_nodes(part)}
        found = {table for part in parts for table in tables_of_facts(part)}
        seen = {table for table in found if table.node in active}
        refuse_shared(seen, self.options.nodes)
        return replace(self, fates=fates, seen=tuple(sorted(seen)), notes=tuple(doubts(parts)))

    def read(self, split: Split, number: int, ctx: Context) -> Iterator[pa.RecordBatch]:
        """Batches of ``RECORD_SCHEMA``, the tally last."""
        if self.fates is None:
            raise InternalError("a queue was read before its survey: report this")
        place = Place(ctx.source, number, split.path, ctx.lanes)
        names = AllNames(self.options, ctx.catalogue)
        meaning = Meaning(place, self.options, self._operations(split), names, self.fates)
        yield from meaning.batches()

    def _operations(self, split: Split) -> Operations:
        form = file_form(split.kind)
        said = self.options.parts  # wins over what an earlier run found in its files
        reading = form.reading if said == "auto" else said
        made = operations_of(self._rows(split, form), self.options, reading)
        leave_out(made, self.options)
        collapse(made, self.options)
        return made

    def _rows(self, split: Split, form: FileForm) -> Rows:
        if form.layout == "text":
            return text.rows(split, self.options, self.snapshot)
        if form.layout == "kept":
            return kept_rows.rows_of(split)
        if form.layout == "marks":
            return kept_rows.no_rows()
        if form.layout == "lost":
            return kept_rows.lost_rows(split)
        data = map_file(split.path, split.length)
        return binary_rows(data, split.start, split.stop, form.stride, self.options, split.first)

    def position_text(self, position: Position) -> str:
        """``DATABASE:ADDRESS@COMMIT``."""
        if position.ordinal == NO_ROW:
            return f"{position.part}:{position.high}"
        low = f"{position.part}:{address_text(from_stored(position.low))}"
        if position.low == position.high:
            return low
        return f"{low}@{address_text(from_stored(position.high))}"

    def parse_position(self, text: str) -> Position:
        """The position that a user wrote.  Raises ``UsageError``."""
        part, _, where = text.strip().rpartition(":")
        low, _, high = where.partition("@")
        try:
            if "." not in low:
                return Position(part, int(low), 0, NO_ROW)
            return Position(part, _address(high or low), _address(low), 0)
        except ValueError:
            raise UsageError(
                f"{text!r} is no position of a queue; write DATABASE:FILE.ADDRESS@FILE.ADDRESS, the"
                " log addresses of the operation and of its COMMIT"
            ) from None

    def is_short(self, text: str) -> bool:
        """Whether the address of the COMMIT is left out."""
        return "@" not in text and "." in text.rpartition(":")[2]

    def raw(self, split: Split, row: int) -> str | None:
        """One record as JSON text, read again: the operation that the row is of."""
        operations = self._operations(split)
        for piece in operations.rows.broken:
            if piece.row == row:
                return piece.raw
        hits = np.flatnonzero(operations.rows.numbers == row)
        if not len(hits):
            return None
        place = int(hits[0])
        firsts = np.flatnonzero(operations.first == place)
        if len(firsts):
            return raw_of(operations, int(firsts[0]))
        for number in np.flatnonzero(operations.group >= 0).tolist():
            if place in operations.rows_of(number):
                return raw_of(operations, number)
        return None


def _address(text: str) -> int:
    file, dot, address = text.partition(".")
    if not dot or not (file.isdecimal() and address.isdecimal() and text.isascii()):
        raise ValueError(text)
    whole = (int(file) << 32) | int(address)
    if int(address) >> 32 or whole > _ALL:
        raise ValueError(text)
    return to_stored(whole)


def _lists(operations: Operations) -> Codes:
    """What speaks for a list of TYP in each operation; nothing in those that are at fault."""
    typ = operations.column("TYP")
    found = np.where(np.isin(typ, LIST_A_ONLY), LIST_A, 0)
    with_data = (typ == COMMIT) & (operations.kind == OPERATION)
    found = np.where(with_data, LIST_B, found)
    found = np.where((typ == COMMIT) & (operations.kind == COMMIT_ROW), COMMIT_OF_A, found)
    found[list(operations.faults)] = 0
    return found
