"""Decodes the splits of compared tables: rows of a table or of its state, each with the hash of its key.

The engine exchanges them by bucket, a range of hashes, so that all rows of a key meet in one partition.  Few
pieces with many rows travel instead of single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.database.connection import Database
from publisher.errors import FatalError
from publisher.formats.columns.base64_columns import column_texts
from publisher.formats.columns.columns import texts
from publisher.formats.columns.key_texts import join_key, quote_values
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.columns.record_batches import as_json
from publisher.formats.files import file_splits
from publisher.formats.files.file_splits import Split
from publisher.formats.files.frame import Frame
from publisher.formats.files.options import ExpectedColumns
from publisher.formats.live import table_reader
from publisher.formats.triggerless.comparison import Comparison, PieceKind, SplitWork, TableWork
from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.hashing import bucket_of, text_hashes
from publisher.formats.triggerless.state import known_batches
from publisher.formats.triggerless.table_shape import ComparedKeyColumn, TableShape
from publisher.model.arrays import (
    BoolArray,
    Int64Array,
    begins_island,
    booleans,
    island_bounds,
)
from publisher.model.catalogue import ColumnKind
from publisher.model.change import Reason
from publisher.model.keys import decimal_text, integer_text
from publisher.model.packed_batches import BatchGatherer, pack_batch
from publisher.xds.values import text_of

_ROWS, _BYTES = 1 << 16, 8 << 20
"""Rows or bytes that are collected before they are cut into pieces."""


PIECE_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.int32()),
        ("member", pa.int32()),
        ("data", pa.binary()),
    ]
)
"""Packed rows of a table; ``member`` is its number in its class, 0 for the parent."""


_CANONICAL = {
    ColumnKind.INT: r"^(?:0|-?[1-9][0-9]*)$",
    ColumnKind.DECIMAL: r"^(?:0|-?[1-9][0-9]*(?:\.[0-9]*[1-9])?|-?0\.[0-9]*[1-9])$",
}
_NUMBERS: dict[ColumnKind, Callable[[str], str | None]] = {
    ColumnKind.INT: integer_text,
    ColumnKind.DECIMAL: decimal_text,
}


class UnreadableRow(NamedTuple):
    """A row that cannot be compared, with its fault, and as JSON text."""

    reason: Reason
    detail: str
    raw: str


def decode(comparison: Comparison, number: int) -> Iterator[pa.RecordBatch]:
    """Reads split ``number`` as pieces of ``PIECE_SCHEMA``.

    Raises ``FatalError`` if a state is damaged, or an earlier snapshot has an unreadable row.
    """
    work = comparison.splits()[number]
    table = comparison.tables[work.table]
    first = comparison.buckets().index((work.table, 0))
    own = first + number % table.buckets
    gatherers = {member: BatchGatherer(_BYTES, _ROWS) for member in work.members}

    def cut(batches: Iterable[pa.RecordBatch], member: int) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            buckets = bucket_of(rows["hash"].to_numpy(), table.buckets)
            parts, packed = pack_parts(rows, buckets)
            yield _pieces((first + parts).tolist(), work.kind, member, packed)

    count, unreadable = 0, set[int]()
    for member, rows, faults in _read_batches(comparison, work, number):
        yield from cut(gatherers[member].add(rows), member)
        count += rows.num_rows + len(faults)
        if faults and work.kind is PieceKind.BEFORE:
            raise FatalError(f"{faults[0].detail}; an earlier snapshot must be completely readable")
        if faults:
            yield _pieces([own], PieceKind.REJECTED, member, [pack_batch(reject_batch(faults))])
        if any(may_concern_objects(fault, member) for fault in faults):
            unreadable.add(member)
    for member, gatherer in gatherers.items():
        yield from cut(gatherer.flush(), member)
    for member in sorted(unreadable):
        partitions = range(first, first + table.buckets)
        yield _pieces(partitions, PieceKind.UNREADABLE, member, [b""] * table.buckets)
    if work.kind is PieceKind.NOW:
        tally = pa.RecordBatch.from_pydict({"split": [number], "rows": [count]})
        yield _pieces([own], PieceKind.TALLY, 0, [pack_batch(tally)])


def pack_parts(batch: pa.RecordBatch, parts: Int64Array) -> tuple[Int64Array, list[bytes]]:
    """Packs the rows of each part, given the part of each row; returns the parts in their order, and the
    packed rows of each."""
    if len(parts) and (parts != parts[0]).any():
        order = np.argsort(parts, kind="stable")
        batch, parts = batch.take(pa.array(order)), parts[order]
    bounds = island_bounds(begins_island(parts))
    packed = [pack_batch(batch.slice(low, high - low)) for low, high in pairwise(bounds.tolist())]
    return parts[bounds[:-1]], packed


def read_split_rows(
    comparison: Comparison, number: int
) -> Iterator[tuple[int, TableRows, list[UnreadableRow]]]:
    """Reads the rows of split ``number``, with the number of their table in its class."""
    work = comparison.splits()[number]
    table = comparison.tables[work.table]
    for member, frame in _frames(comparison, table, work):
        shape = table.tables[member].shape
        is_file = isinstance(work.split, Split)
        where = work.split.path if isinstance(work.split, Split) else shape.source_name
        # table_reader encodes binary values in Base64
        binary_text = comparison.binary_text if is_file else "base64"
        rows, faults = read_rows(shape, frame.batch, binary_text, where)
        if table.condition.keys:
            is_selected = pc.is_in(rows.keys, pa.array(table.condition.keys, pa.string()))
            rows = rows.take(np.flatnonzero(is_selected.to_numpy(zero_copy_only=False)))
        found: list[tuple[int, RecordFault, object]] = [
            (piece.row, RecordFault(Reason.BROKEN_RECORD, piece.reason), piece.raw)
            for piece in frame.broken
        ]
        for row, fault in sorted(faults.items()):
            raw = frame.batch.slice(row, 1).to_pylist()[0]
            found.append((int(frame.rows[row]), fault, raw))
        name = Path(where).name if is_file else where
        yield (
            member,
            rows,
            [
                UnreadableRow(
                    fault.reason,
                    f"{f'{name}, record {row}' if is_file else name}: {fault.detail}",
                    as_json(raw),
                )
                for row, fault, raw in found
            ],
        )


def may_concern_objects(fault: UnreadableRow, member: int) -> bool:
    """Tests whether an unreadable row may be one of a known object; a value without a key is of none."""
    return member == 0 or fault.reason is not Reason.TABLE_KEY


def reject_batch(faults: Sequence[UnreadableRow]) -> pa.RecordBatch:
    """A batch of rejected rows."""
    columns = [pa.array([str(fault[n]) for fault in faults], pa.string()) for n in range(3)]
    return pa.RecordBatch.from_arrays(columns, names=UnreadableRow._fields)


def _pieces(
    partitions: Sequence[int], kind: PieceKind, member: int, packed: Sequence[bytes]
) -> pa.RecordBatch:
    count = len(partitions)
    columns = {
        "partition": [*partitions],
        "kind": [int(kind)] * count,
        "member": [member] * count,
        "data": packed,
    }
    return pa.RecordBatch.from_pydict(columns, schema=PIECE_SCHEMA)


def _read_batches(
    comparison: Comparison, work: SplitWork, number: int
) -> Iterator[tuple[int, pa.RecordBatch, list[UnreadableRow]]]:
    """Reads the rows of a split with the hashes of their keys, of a table or of its state."""
    table = comparison.tables[work.table]
    if work.kind is PieceKind.STATE:
        assert isinstance(work.split, Split)
        for batch in known_batches(Path(work.split.path), table.shape.columns, table.rules.keeps):
            yield 0, batch, []
        return
    for member, rows, faults in read_split_rows(comparison, number):
        yield member, rows.to_batch(), faults


def _frames(
    comparison: Comparison, table: TableWork, work: SplitWork
) -> Iterator[tuple[int, Frame]]:
    """Reads the rows of a split, with the number of their table; filters those of the parent."""
    tables = [table.tables[member] for member in work.members]
    if isinstance(work.split, Split):
        (file_table,) = tables
        names = file_table.shape.read
        columns = ExpectedColumns(names, optional=frozenset(names), closed=True)
        (member,) = work.members
        for frame in file_splits.frames(work.split, file_table.reading, columns):
            yield member, frame if member else _filter_rows(frame, table)
        return
    assert comparison.database is not None
    live = [part.live for part in tables if part.live is not None]
    with Database(comparison.database) as database:
        for place, frame in table_reader.read_together(database, live, work.split, text_of):
            member = work.members[place]
            yield member, frame if member else _filter_rows(frame, table)


def _filter_rows(frame: Frame, table: TableWork) -> Frame:
    live = table.tables[0].live
    conditions = [pair for pair in table.condition.equal if live is None or pair != live.where]
    if not conditions or not frame.batch.num_rows:
        return frame
    matching = np.ones(frame.batch.num_rows, bool)
    for name, value in conditions:
        matching &= booleans(pc.equal(texts(frame.batch.column(name))[0], value))
    return Frame(frame.batch.filter(pa.array(matching)), frame.rows[matching], frame.broken)


def read_rows(
    shape: TableShape, batch: pa.RecordBatch, binary_text: str | None, where: str
) -> tuple[TableRows, dict[int, RecordFault]]:
    """Reads the keys and texts of a batch that has the columns of ``shape.read``; ``where`` names the input.

    Leaves out rows with faults, which are returned by their number in the batch.

    Raises ``FatalError`` if the encoding of binary values in text is unknown.
    """
    faults: dict[int, RecordFault] = {}

    def text(name: str) -> pa.Array:
        column, valid = _column_texts(shape, name, batch.column(name), binary_text, where)
        for row in np.flatnonzero(~valid).tolist():
            faults.setdefault(row, _text_fault(shape, name, binary_text))
        return column

    values = [text(name) for name in shape.others]
    parts = [_key_texts(part, text(part.read), faults) for part in shape.key]
    keys = join_key([part.name for part in shape.key], parts)
    if faults:
        is_readable = np.ones(batch.num_rows, bool)
        is_readable[list(faults)] = False
        mask = pa.array(is_readable)
        keys, values = keys.filter(mask), [column.filter(mask) for column in values]
    return TableRows(text_hashes(keys), keys, values), faults


def _text_fault(shape: TableShape, name: str, binary_text: str | None) -> RecordFault:
    if name in shape.octets and binary_text is not None:
        form = "hex" if binary_text == "hex" else "Base64"
        return RecordFault(
            Reason.VALUE, f"the binary column {name} does not hold {form}; export it again"
        )
    return RecordFault(
        Reason.BROKEN_RECORD,
        f"{name} is not text; export it as UTF-8 text, or declare it octet in [tables]",
    )


def _key_texts(
    part: ComparedKeyColumn, values: pa.Array, faults: dict[int, RecordFault]
) -> pa.Array:
    """Returns the canonical values of a key column; null for faulty values."""
    for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
        faults.setdefault(
            row, RecordFault(Reason.TABLE_KEY, f"the key column {part.read} is NULL; fix the key")
        )
    if part.kind in _NUMBERS:
        return _numbers(part, part.kind, values, faults)
    if part.padded:
        values = pc.utf8_rtrim(values, " ")
    return quote_values(values)


def _numbers(
    part: ComparedKeyColumn, kind: ColumnKind, values: pa.Array, faults: dict[int, RecordFault]
) -> pa.Array:
    canonical_already = pc.fill_null(pc.match_substring_regex(values, _CANONICAL[kind]), True)
    if pc.all(canonical_already).as_py():
        return values
    numbers: list[str | None] = []
    for row, value in enumerate(values.to_pylist()):
        number = None if value is None else _NUMBERS[kind](value)
        if number is None and value is not None:
            detail = f"{value[:40]!r} in the key column {part.read} is not a number; fix the value"
            faults.setdefault(row, RecordFault(Reason.TABLE_KEY, detail))
        numbers.append(number)
    return pa.array(numbers, pa.string())


def _column_texts(
    shape: TableShape, name: str, array: pa.Array, binary_text: str | None, where: str
) -> tuple[pa.Array, BoolArray]:
    """Returns the text of a column, binary values as Base64, and a mask of valid values."""
    return column_texts(
        array,
        f"{where}: column {name} of {shape.source_name}",
        octet=name in shape.octets,
        untyped=False,  # some engines write text as bytes
        binary_text=binary_text,
    )
