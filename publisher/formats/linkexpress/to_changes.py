"""Converts records to changes, column by column.

==== ============================ ==========================================
0000 row of a full extract        event type 1, transaction ``snapshot``
0001 insert                       event type 1
0002 update (one image: the new)  event type 3, all items outside the key
0003 delete                       event type 4, only the key is read
FFFF full extract without rows    ignored (``empty-table``)
8000 commit of a group            ignored (``commit``)
==== ============================ ==========================================

Records of child tables change values of their parent's object (``contents``).

An update never changes the key: Linkexpress records a changed key as a delete and an insert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.formats.columns.byte_areas import Mask, Offsets
from publisher.formats.columns.byte_texts import TextColumn
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.columns.record_batches import Place, batch, record_lanes, tally
from publisher.formats.linkexpress.contents import (
    child_row_content,
    child_row_faults,
    row_content,
)
from publisher.formats.linkexpress.framing import RecordBlock, RecordFramer
from publisher.formats.linkexpress.headers import NoTable
from publisher.formats.linkexpress.item_offsets import FITS, ItemCells
from publisher.formats.linkexpress.layout import ExtractCode
from publisher.formats.linkexpress.object_names import ExtractedTableNames
from publisher.formats.linkexpress.options import LinkexpressOptions
from publisher.formats.linkexpress.reject_messages import (
    crossing_item,
    length_difference,
    name_table,
    raw_text,
    unknown_table,
    wrong_item,
)
from publisher.formats.linkexpress.splits import SplitOrigin
from publisher.model.change import Outcome, Reason
from publisher.model.lanes import key_lane

SNAPSHOT = "snapshot"
"""Transaction of the rows of full extracts."""


@dataclass(slots=True)
class DataRecords:
    """The data records of one table in a block."""

    number: int
    offsets: Offsets
    lengths: Offsets
    codes: Offsets
    transactions: pa.Array
    cells: ItemCells
    live: Mask
    faults: dict[int, RecordFault] = field(default_factory=dict)

    def reject(self, which: Mask, reason: Reason, detail: str | Callable[[int], str]) -> None:
        """Rejects the marked live records; ``detail`` may depend on the row."""
        for row in np.flatnonzero(which & self.live).tolist():
            self.faults[row] = RecordFault(
                reason, detail if isinstance(detail, str) else detail(row)
            )
        self.live &= ~which


@dataclass(slots=True)
class LinkexpressChangeBuilder:
    """Builds batches of ``RECORD_SCHEMA`` from the records of one split."""

    place: Place
    options: LinkexpressOptions
    framer: RecordFramer
    names: tuple[ExtractedTableNames, ...]
    base: int
    """Rank of the byte before offset 0."""
    held: bool = False
    """True if the records follow the last commit record of a group."""
    origin: SplitOrigin = field(default_factory=SplitOrigin)
    """The file that positions name, and the transaction that continues from an earlier split."""
    reads_children: bool = False
    """True to read the values of a parent if a record of a child row lacks the value that it removes."""
    _since: str = ""
    """Position of the first record of the transaction."""

    def batches(self, blocks: Iterable[RecordBlock], start: int) -> Iterator[pa.RecordBatch]:
        """Builds one batch or several for each block, and the tally of the split."""
        self._since = self.origin.since or self._position(start)
        framed = 0
        for block in blocks:
            framed += len(block.offsets)
            yield from self._block(block)
        yield tally(self.place, framed)

    def empty_extract(self) -> Iterator[pa.RecordBatch]:
        """Builds the only record of an empty extract in a format without LEN, and the tally."""
        yield self._ignore(np.zeros(1, np.int64), NoTable.NO_ROWS)
        yield tally(self.place, 1)

    def _block(self, block: RecordBlock) -> Iterator[pa.RecordBatch]:
        transactions = self._transactions(block)
        table = block.heads.table
        if not block.heads.good.all():
            raise FatalError(f"{self.place.name} has changed since the run began: start again")
        for kind in (NoTable.MARK, NoTable.NO_ROWS):
            chosen = np.flatnonzero(table == kind)
            if len(chosen):
                yield self._ignore(block.offsets[chosen], kind)
        for number in range(len(self.framer.tables)):
            chosen = np.flatnonzero(table == number)
            if len(chosen):
                yield from self._data(block, chosen, number, transactions)
        unknown = np.flatnonzero(table == NoTable.UNKNOWN)
        if len(unknown):
            faults = [
                RecordFault(Reason.TABLE_NAME, unknown_table(xid, self.options))
                for xid in block.heads.xid[unknown].tolist()
            ]
            transaction = transactions.take(pa.array(unknown))
            offsets, lengths = block.offsets[unknown], block.lengths[unknown]
            yield self._reject(offsets, lengths, faults, transaction=transaction)

    def _transactions(self, block: RecordBlock) -> pa.Array:
        """Returns the transaction of each record; for groups the position of its first record."""
        count = len(block.offsets)
        if self.options.extract == "all":
            return pa.repeat(pa.scalar(SNAPSHOT), count)
        if self.options.unit == "table":
            return pa.nulls(count, pa.string())
        marks = np.flatnonzero(block.heads.table == NoTable.MARK)
        begins = (block.offsets[marks] + block.lengths[marks]).tolist()
        names = [self._since, *map(self._position, begins)]
        self._since = names[-1]
        numbers = np.searchsorted(marks, np.arange(count), side="left")
        return pa.array(names, pa.string()).take(pa.array(numbers))

    def _position(self, offset: int) -> str:
        return f"{self.place.name}:{self.origin.named_offset(offset)}"

    def _ignore(self, offsets: Offsets, kind: int) -> pa.RecordBatch:
        detail = None
        reason = Reason.COMMIT
        if kind == NoTable.NO_ROWS:
            reason = Reason.EMPTY_TABLE
            detail = f"table {self.names[0].table} is empty: a full extract of zero rows"
        return self._records(
            offsets,
            lane=record_lanes(self.place, offsets),
            outcome=Outcome.IGNORED.value,
            reason=str(reason),
            detail=detail,
        )

    def _reject(
        self, offsets: Offsets, lengths: Offsets, faults: list[RecordFault], **columns: object
    ) -> pa.RecordBatch:
        places = self.origin.named_offsets(offsets)
        raws = [
            raw_text(self.framer.data, *record)
            for record in zip(offsets.tolist(), lengths.tolist(), places.tolist(), strict=True)
        ]
        return self._records(
            offsets,
            **({"lane": record_lanes(self.place, offsets)} | columns),
            outcome=Outcome.REJECTED.value,
            reason=pa.array([str(fault.reason) for fault in faults]),
            detail=pa.array([fault.detail for fault in faults]),
            raw=pa.array(raws),
        )

    def _records(self, offsets: Offsets, **columns: object) -> pa.RecordBatch:
        places = self.origin.named_offsets(offsets)
        return batch(
            len(offsets),
            source=self.place.source,
            part=self.place.name,
            rank=offsets + self.base + 1,
            high=places,
            low=0,
            ordinal=0,
            split=self.place.split,
            row=places,
            records=1,
            **columns,
        )

    def _data(
        self, block: RecordBlock, chosen: Offsets, number: int, transactions: pa.Array
    ) -> Iterator[pa.RecordBatch]:
        rows = self._rows(block, chosen, number, transactions)
        columns = self._columns(rows)
        self._hold_back(rows)
        self._reject_child_rows(rows)
        keys, lanes = self._keys(rows, columns)
        live = np.flatnonzero(rows.live)
        if len(live):
            yield self._changes(rows, columns, live, keys, lanes)
        bad = np.array(sorted(rows.faults), np.int64)
        if len(bad):
            faults = [rows.faults[row] for row in bad.tolist()]
            keyed = self._readable_keys(rows, columns, bad)
            keyed["transaction"] = rows.transactions.take(pa.array(bad))
            yield self._reject(rows.offsets[bad], rows.lengths[bad], faults, **keyed)

    def _hold_back(self, rows: DataRecords) -> None:
        """Rejects the rest of a transaction if an earlier run rejected one of its records."""
        if self.origin.rejected and not self.held:
            rows.reject(
                np.asarray(pc.equal(rows.transactions, self.origin.since)),
                Reason.HELD_BACK,
                f"its transaction is rejected as a whole: {self.origin.rejected}",
            )

    def _reject_child_rows(self, rows: DataRecords) -> None:
        """Rejects records of child tables that lack the parent or the values that the row had."""
        names = self.names[rows.number]
        for wrong, fault in child_row_faults(names, rows.codes, reads=self.reads_children):
            rows.reject(wrong, fault.reason, fault.detail)

    def _readable_keys(
        self, rows: DataRecords, columns: list[TextColumn], bad: Offsets
    ) -> dict[str, object]:
        """Returns the columns of objects and lanes of rejected rows; objects are null without a key."""
        names = self.names[rows.number]
        texts = [columns[number].texts.take(pa.array(bad)) for number in names.key]
        valid = [text.is_valid().to_numpy(zero_copy_only=False) for text in texts]
        readable = np.flatnonzero(np.all(valid, axis=0))
        keys: list[str | None] = [None] * len(bad)
        lanes = record_lanes(self.place, rows.offsets[bad]).tolist()
        key_texts, _ = names.keys([text.take(pa.array(readable)) for text in texts])
        for place, key in zip(readable.tolist(), key_texts.to_pylist(), strict=True):
            if key is not None:
                keys[place] = key
                lanes[place] = key_lane(names.hash, key, self.place.lanes)
        return {
            "lane": pa.array(lanes, pa.int32()),
            "schema": pa.array([key and names.schema for key in keys], pa.string()),
            "table": pa.array([key and names.table for key in keys], pa.string()),
            "key": pa.array(keys, pa.string()),
            "logged_table": names.child,
        }

    def _rows(
        self, block: RecordBlock, chosen: Offsets, number: int, transactions: pa.Array
    ) -> DataRecords:
        table = self.framer.tables[number]
        offsets, lengths = block.offsets[chosen], block.lengths[chosen]
        ends = offsets + lengths
        cells = table.cells(self.framer.data, offsets, ends)
        rows = DataRecords(
            number,
            offsets,
            lengths,
            block.heads.code[chosen],
            transactions
            if len(chosen) == len(transactions)
            else transactions.take(pa.array(chosen)),
            cells,
            np.ones(len(offsets), bool),
        )
        prefix = name_table(self.options, number)
        rows.reject(
            cells.fault != FITS,
            Reason.BROKEN_RECORD,
            lambda row: (
                prefix
                + crossing_item(table, int(cells.fault[row]), int(lengths[row]), self.options)
            ),
        )
        rows.reject(
            cells.ends != ends,
            Reason.BROKEN_RECORD,
            lambda row: (
                prefix
                + length_difference(
                    table, int(cells.ends[row] - offsets[row]), int(lengths[row]), self.options
                )
            ),
        )
        return rows

    def _columns(self, rows: DataRecords) -> list[TextColumn]:
        """Decodes the items of all rows; items of rejected rows are null."""
        table = self.framer.tables[rows.number]
        reader = self.framer.readers[rows.number]
        names = self.names[rows.number]
        deletes = rows.codes == ExtractCode.DELETE
        all_live = bool(rows.live.all())
        columns: list[TextColumn] = []
        cells = rows.cells if all_live else rows.cells.take(np.flatnonzero(rows.live))
        live = np.flatnonzero(rows.live)
        for number, item in enumerate(table.items):
            column = reader.column(self.framer.data, cells, number, item)
            if not all_live:
                column = column.spread(live, len(rows.live))
            is_certain = number in names.key or number in names.certain
            wrong = column.wrong if is_certain else column.wrong & ~deletes
            if wrong.any():
                rows.reject(wrong, Reason.VALUE, self._item_detail(rows, number))
            columns.append(column)
        return columns

    def _item_detail(self, rows: DataRecords, number: int) -> Callable[[int], str]:
        table = self.framer.tables[rows.number]
        item = table.items[number]

        def detail(row: int) -> str:
            at = int(rows.cells.starts[number][row])
            end = min(at + table.layout.width(item), int(rows.offsets[row] + rows.lengths[row]))
            flag = int(rows.cells.flags[number][row]) if rows.cells.flags else None
            area = self.framer.data[at:end]
            return wrong_item(item, number, area, at - int(rows.offsets[row]), flag)

        return detail

    def _keys(self, rows: DataRecords, columns: list[TextColumn]) -> tuple[pa.Array, pa.Array]:
        """Returns keys and lanes of the live rows; rejects rows without a key."""
        names = self.names[rows.number]
        for number in names.key:
            null = columns[number].texts.is_null().to_numpy(zero_copy_only=False)
            rows.reject(
                null,
                Reason.TABLE_KEY,
                f"the item {names.items[number].name} of the key is NULL; fix the key in the settings of"
                " the table",
            )
        live = np.flatnonzero(rows.live)
        texts = [columns[number].texts.take(pa.array(live)) for number in names.key]
        keys, problems = names.keys(texts)
        if problems:
            wrong = np.zeros(len(rows.live), bool)
            wrong[live[list(problems)]] = True
            details = {int(live[row]): text for row, text in problems.items()}
            rows.reject(wrong, Reason.TABLE_KEY, details.__getitem__)
            keys = keys.drop_null()
        return keys, names.lanes(keys, self.place.lanes)

    def _changes(
        self,
        rows: DataRecords,
        columns: list[TextColumn],
        live: Offsets,
        keys: pa.Array,
        lanes: pa.Array,
    ) -> pa.RecordBatch:
        names = self.names[rows.number]
        content_of = row_content if names.values is None else child_row_content
        texts = [column.texts for column in columns]
        content = content_of(names, rows.codes[live], texts, live)
        outcome: dict[str, object] = {}
        if self.held:
            outcome = {
                "outcome": Outcome.HELD.value,
                "reason": str(Reason.OPEN_TRANSACTION),
                "detail": "no commit record follows; a later file completes it, or the file was cut",
            }
        return self._records(
            rows.offsets[live],
            lane=lanes,
            schema=pa.repeat(pa.scalar(names.schema, pa.string()), len(live)),
            table=names.table,
            key=keys,
            transaction=rows.transactions.take(pa.array(live)),
            **content,
            **outcome,
        )
