"""The carry-over to the next run: rows of open transactions, and marks of ended transactions.

The rows of open transactions are stored unchanged, in an Arrow file of their columns and a file of their
DATA, one pair for each meaning of LEN1 and LEN2.  A mark is the COMMIT or ROLLBACK of a transaction:
database, transaction number and address.  By the latest marks of each database a later run recognises
transactions that overlapping exports repeat.  The tables of operations are stored, too, because a later run
must not publish another database's table under the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.formats.dispatch_queue.lost import LOST, lost_rows_of, write_lost_rows
from publisher.formats.dispatch_queue.operations import PartsReading
from publisher.formats.dispatch_queue.rows.file_probe import index_of
from publisher.formats.dispatch_queue.rows.layout import INTEGERS, TEXTS
from publisher.formats.dispatch_queue.rows.rows import Codes, Destination, LostRow, QueueRows
from publisher.formats.dispatch_queue.splits import QueueSplit, StateFile, StateRows
from publisher.formats.dispatch_queue.transactions.facts import FACTS, FactKind
from publisher.formats.dispatch_queue.transactions.fates import Fate, Fates
from publisher.formats.files.file_splits import Split
from publisher.formats.files.mapped_file import map_file
from publisher.ledger.durable import create_private

MARKS = "ended.arrow"
_ROWS = "open-{}.arrow"
_DATA = ".data"
_ROW_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in (*INTEGERS, "SECONDS", "FRACTION", "SIZE")),
        *((name, pa.string()) for name in TEXTS),
    ]
)
_MARK_SCHEMA = pa.schema(
    [
        # a FactKind: ENDED, FLOOR or TABLE
        ("kind", pa.int8()),
        ("node", pa.string()),
        ("transaction", pa.int64()),
        ("first", pa.uint64()),
    ],
    {"format": "2"},
)
"""Format 1 had no tables."""
_READINGS: tuple[PartsReading, ...] = ("totals", "per-part", "unknown")


def splits_of(before: Path) -> list[QueueSplit]:
    """Returns a split for each file that the last run left."""
    splits: list[QueueSplit] = []
    files = {MARKS: StateRows(StateFile.MARKS), LOST: StateRows(StateFile.LOST_ROWS)}
    for reading in _READINGS:
        files[_ROWS.format(reading)] = StateRows(StateFile.OPEN_ROWS, reading)
    for name, rows in files.items():
        path = before / name
        if path.is_file():
            if name == MARKS:
                _read_marks(str(path))  # refuses another version before anything is read
            size = path.stat().st_size
            splits.append(Split(str(path), size, size, rows))
    return splits


def rows_of(path: str, file: StateFile) -> QueueRows:
    """Reads the rows of a file that the last run left.  Raises ``FatalError`` if it is unreadable."""
    match file:
        case StateFile.OPEN_ROWS:
            return _open_rows(path)
        case StateFile.LOST_ROWS:
            return replace(_no_rows(), lost=lost_rows_of(_read_table(path)))
        case StateFile.MARKS:
            return _no_rows()


def _open_rows(path: str) -> QueueRows:
    table = _read_table(path)
    sizes = table.column("SIZE").to_numpy().astype(np.int64)
    data_path = Path(path).with_suffix(_DATA)
    try:
        data = map_file(str(data_path), data_path.stat().st_size)
    except OSError as error:
        raise FatalError(f"{data_path} cannot be read ({error}): restore it") from error
    node, nodes = _codes(table.column("DBNODE"))
    parts = [_codes(table.column(name)) for name in TEXTS[1:]]
    destination, destinations = _combine(parts)
    return QueueRows(
        numbers=np.arange(1, table.num_rows + 1, dtype=np.int64),
        integers={name: table.column(name).to_numpy().astype(np.int64) for name in INTEGERS},
        seconds=table.column("SECONDS").to_numpy().astype(np.int64),
        fractions=table.column("FRACTION").to_numpy().astype(np.int64),
        node=node,
        nodes=nodes,
        destination=destination,
        destinations=destinations,
        unreadable=frozenset(name for name in _all_names(nodes, destinations) if "\\x" in name),
        data=data,
        data_at=np.cumsum(sizes) - sizes,
        data_bytes=sizes,
    )


def _all_names(nodes: tuple[str, ...], destinations: tuple[Destination, ...]) -> Iterator[str]:
    yield from nodes
    for names in destinations:
        yield from names


def _no_rows() -> QueueRows:
    nothing = np.zeros(0, np.int64)
    return QueueRows(
        numbers=nothing,
        integers=dict.fromkeys(INTEGERS, nothing),
        seconds=nothing,
        fractions=nothing,
        node=nothing,
        nodes=(),
        destination=nothing,
        destinations=(),
        unreadable=frozenset(),
        data=np.zeros(0, np.uint8),
        data_at=nothing,
        data_bytes=nothing,
    )


def facts_of_marks(path: str) -> pa.RecordBatch:
    """Reads the marks of ended transactions as facts."""
    table = _read_marks(path)
    columns = {name: table.column(name).combine_chunks() for name in _MARK_SCHEMA.names}
    count = table.num_rows
    columns |= {
        "last": columns["first"],
        "operations": pa.array(np.zeros(count, np.int64)),
        "lists": pa.array(np.zeros(count, np.int8)),
    }
    arrays = [columns.get(item.name, pa.nulls(count, item.type)) for item in FACTS]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS)


def _read_marks(path: str) -> pa.Table:
    table = _read_table(path)
    version = (table.schema.metadata or {}).get(b"format", b"1").decode()
    if version != "2":
        raise FatalError(
            f"{path} has format {version}, but this program reads format 2: use the program that wrote"
            " it, or give the source a new name, which forgets published transactions"
        )
    return table.cast(_MARK_SCHEMA)


def _read_table(path: str) -> pa.Table:
    try:
        with pa.memory_map(path) as source:
            return pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of an earlier run cannot be read ({error}): restore it, or give the source a new"
            " name, which forgets published transactions"
        ) from error


def _codes(column: pa.ChunkedArray) -> tuple[Codes, tuple[str, ...]]:
    encoded = column.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, tuple(encoded.dictionary.to_pylist())


def _combine(parts: list[tuple[Codes, tuple[str, ...]]]) -> tuple[Codes, tuple[Destination, ...]]:
    keys = np.stack([codes for codes, _ in parts], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    names = [names for _, names in parts]
    destinations = tuple(
        Destination(*(names[n][code] for n, code in enumerate(codes)))
        for codes in distinct.tolist()
    )
    return which.reshape(-1).astype(np.int64), destinations


@dataclass
class OpenRowWriter:
    """Writes the rows of open transactions, each once."""

    folder: Path
    _stack: ExitStack = field(default_factory=ExitStack)
    _writers: dict[PartsReading, _RowFiles] = field(default_factory=dict)
    _written: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def write(self, rows: QueueRows, places: Codes, reading: PartsReading) -> None:
        """Writes the rows at these places that were not written before."""
        index = index_of(rows)
        keys = index.exact[places] * 31 + index.part[places]
        is_new = ~np.isin(keys, self._written)
        self._written = np.concatenate([self._written, np.unique(keys[is_new])])
        if not is_new.any():
            return
        if reading not in self._writers:
            path = self.folder / _ROWS.format(reading)
            data = self._stack.enter_context(create_private(path.with_suffix(_DATA)))
            file = self._stack.enter_context(create_private(path))
            table = self._stack.enter_context(pa.ipc.new_file(file, _ROW_SCHEMA))
            self._writers[reading] = _RowFiles(table, data)
        self._writers[reading].write(rows, places[is_new])


class _RowFiles(NamedTuple):
    table: pa.ipc.RecordBatchFileWriter
    data: BinaryIO

    def write(self, rows: QueueRows, places: Codes) -> None:
        node = pa.array(rows.nodes, pa.string()).take(pa.array(rows.node[places]))
        destinations = [rows.destinations[code] for code in rows.destination[places].tolist()]
        arrays = [pa.array(rows.integers[name][places]) for name in INTEGERS]
        arrays += [
            pa.array(values[places]) for values in (rows.seconds, rows.fractions, rows.data_bytes)
        ]
        arrays += [node, *(pa.array([d[n] for d in destinations], pa.string()) for n in range(3))]
        self.table.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_ROW_SCHEMA))
        for place in places.tolist():
            at, size = int(rows.data_at[place]), int(rows.data_bytes[place])
            self.data.write(rows.data[at : at + size].tobytes())


REMEMBERED = 1_000_000
"""Maximum number of ended transactions of a database that are remembered, for exports that overlap."""


def write_marks(folder: Path, before: Iterable[str], fates: Fates, tables: pa.RecordBatch) -> None:
    """Writes the marks of transactions that ended in this run or before, and the tables.

    ``before`` are the files of marks that the last run left; ``REMEMBERED`` limits the marks by database.
    """
    ended = np.flatnonzero(np.isin(fates.fate, [Fate.PUBLISH, Fate.REJECT, Fate.DROP]))
    sizes = np.diff(fates.spans)
    transaction = np.repeat(fates.transactions, sizes)[ended]
    node = fates.node_of_span[ended]
    kinds = np.full(len(ended), FactKind.ENDED, np.int8)
    nodes = pa.array(fates.nodes, pa.string()).take(pa.array(node))
    marks = pa.Table.from_arrays(
        [pa.array(kinds), nodes, pa.array(transaction), pa.array(fates.marks[ended])],
        schema=_MARK_SCHEMA,
    )
    named = pa.Table.from_batches([tables]).select(_MARK_SCHEMA.names)
    named = named.set_column(3, "first", pa.array([0] * len(named), pa.uint64()))
    parts = [marks, named.cast(_MARK_SCHEMA), *map(_read_marks, before)]
    distinct = pa.concat_tables(parts).group_by(_MARK_SCHEMA.names).aggregate([])
    with pa.ipc.new_file(str(folder / MARKS), _MARK_SCHEMA) as writer:
        for table in _latest(distinct):
            writer.write_table(table.cast(_MARK_SCHEMA))


def remove_marks(folder: Path, fates: Fates, spans: Collection[int]) -> None:
    """Removes the marks of some transactions, so that a later run reads them again."""
    chosen = np.array(sorted(spans), np.int64)
    transactions = np.repeat(fates.transactions, np.diff(fates.spans))[chosen]
    nodes = [fates.nodes[code] for code in fates.node_of_span[chosen].tolist()]
    columns = [[FactKind.ENDED] * len(chosen), nodes, transactions, fates.marks[chosen]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _MARK_SCHEMA, strict=True)]
    removed = pa.Table.from_arrays(arrays, schema=_MARK_SCHEMA)
    path = folder / MARKS
    marks = pa.table(_read_marks(str(path)))
    remaining = marks.join(removed, _MARK_SCHEMA.names, join_type="left anti")
    path.unlink()  # the old file is mapped into memory, so a new file replaces it
    with pa.ipc.new_file(str(path), _MARK_SCHEMA) as writer:
        writer.write_table(remaining.select(_MARK_SCHEMA.names).cast(_MARK_SCHEMA))


def forget_lost_rows(folder: Path, rows: Iterable[LostRow]) -> None:
    """Removes lost rows of files that a later run reads again."""
    path, forgotten = folder / LOST, {row[:3] for row in rows}
    if forgotten and path.exists():
        known = lost_rows_of(_read_table(str(path)))
        path.unlink()
        write_lost_rows(folder, [row for row in known if row[:3] not in forgotten])


def _latest(rows: pa.Table) -> Iterator[pa.Table]:
    """Yields the tables of operations, and for each database its floor and the marks with the highest
    addresses."""
    is_table = pc.equal(rows.column("kind"), FactKind.TABLE)
    yield rows.filter(is_table).select(_MARK_SCHEMA.names)
    rows = rows.filter(pc.invert(is_table))
    for name in pc.unique(rows.column("node")).to_pylist():
        of_node = rows.filter(pc.equal(rows.column("node"), name)).select(_MARK_SCHEMA.names)
        kind = of_node.column("kind")
        floors = of_node.filter(pc.equal(kind, FactKind.FLOOR)).column("first").to_pylist()
        marks = of_node.filter(pc.equal(kind, FactKind.ENDED)).sort_by([("first", "descending")])
        if len(marks) > REMEMBERED:
            floors.append(marks.column("first")[REMEMBERED].as_py())
            marks = marks.slice(0, REMEMBERED)
        yield marks
        if floors:
            values = [[FactKind.FLOOR], [name], [0], [max(floors)]]
            yield pa.Table.from_arrays(
                [pa.array(v, f.type) for v, f in zip(values, _MARK_SCHEMA, strict=True)],
                schema=_MARK_SCHEMA,
            )
