"""What a run leaves for the next one: rows of open transactions, and which transactions are done with.

An open transaction's rows are kept as they are, in an Arrow file of their columns and a file of their
DATA, one pair for each reading of LEN1 and LEN2.  Of transactions that ended, database, number and
address of the COMMIT or ROLLBACK are kept, of each database the latest so many: a second export that
overlaps is told by them.  The tables that operations were of are kept, too: another database may not give
one of them later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError
from publisher.sources.columns.byte_areas import Bytes
from publisher.sources.dispatch_queue.lost import LOST, lost_of
from publisher.sources.dispatch_queue.operations import PartsReading
from publisher.sources.dispatch_queue.rows.file_probe import FileForm, index_of
from publisher.sources.dispatch_queue.rows.layout import INTEGERS, TEXTS
from publisher.sources.dispatch_queue.rows.rows import Codes, Destination, Rows
from publisher.sources.dispatch_queue.transactions.facts import FACTS, FLOOR, NAMED, SEEN
from publisher.sources.dispatch_queue.transactions.fates import DROP, PUBLISH, REJECT, Fates
from publisher.sources.files.file_splits import Split

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
        # SEEN; FLOOR: below this address nothing is remembered any more; NAMED: a table, see owners
        ("kind", pa.int8()),
        ("node", pa.string()),
        ("transaction", pa.int64()),
        ("first", pa.uint64()),
    ],
    {"format": "2"},
)
"""Format 1 knew no tables."""
_READINGS: tuple[PartsReading, ...] = ("totals", "per-part", "unknown")


def splits_of(before: Path) -> list[Split]:
    """What the last run left, as parts of the input."""
    made = []
    forms = [(MARKS, FileForm("marks", 0, "unknown")), (LOST, FileForm("lost", 0, "unknown"))]
    forms += [(_ROWS.format(reading), FileForm("kept", 0, reading)) for reading in _READINGS]
    for name, form in forms:
        path = before / name
        if path.is_file():
            if name == MARKS:
                _marks(str(path))  # another version is refused before anything is read
            size = path.stat().st_size
            made.append(Split(str(path), form.text, 0, size, 1, size, size))
    return made


def rows_of(split: Split) -> Rows:
    """The rows that were kept.  Raises ``FatalError`` where they cannot be read."""
    table = _table(split.path)
    sizes = table.column("SIZE").to_numpy().astype(np.int64)
    data_path = Path(split.path).with_suffix(_DATA)
    try:
        size = data_path.stat().st_size
        data: Bytes = np.zeros(0, np.uint8)
        if size:
            data = np.asarray(np.memmap(data_path, np.uint8, mode="r", shape=(size,)))
    except OSError as error:
        raise FatalError(f"{data_path} cannot be read ({error}): restore it") from error
    node, nodes = _codes(table.column("DBNODE"))
    parts = [_codes(table.column(name)) for name in TEXTS[1:]]
    destination, destinations = _combined(parts)
    return Rows(
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


def no_rows() -> Rows:
    """The rows of a file that has none."""
    nothing = np.zeros(0, np.int64)
    return Rows(
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


def lost_rows(split: Split) -> Rows:
    """No rows but those that an earlier run could not read."""
    return replace(no_rows(), lost=lost_of(_table(split.path)))


def facts_of_marks(split: Split) -> pa.RecordBatch:
    """The transactions that are done with, as facts."""
    table = _marks(split.path)
    columns = {name: table.column(name).combine_chunks() for name in _MARK_SCHEMA.names}
    count = table.num_rows
    columns |= {
        "last": columns["first"],
        "operations": pa.array(np.zeros(count, np.int64)),
        "lists": pa.array(np.zeros(count, np.int8)),
    }
    arrays = [columns.get(item.name, pa.nulls(count, item.type)) for item in FACTS]
    return pa.RecordBatch.from_arrays(arrays, schema=FACTS)


def _marks(path: str) -> pa.Table:
    table = _table(path)
    version = (table.schema.metadata or {}).get(b"format", b"1").decode()
    if version != "2":
        raise FatalError(
            f"{path} has format {version}, this program reads format 2: go on with the program that wrote"
            " it, or give the source a new name; then it is not known any more what was published"
        )
    return table.cast(_MARK_SCHEMA)


def _table(path: str) -> pa.Table:
    try:
        with pa.memory_map(path) as source:
            return pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of an earlier run cannot be read ({error}): restore it, or give the source a new"
            " name; then it is not known any more what was published"
        ) from error


def _codes(column: pa.ChunkedArray) -> tuple[Codes, tuple[str, ...]]:
    encoded = column.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, tuple(encoded.dictionary.to_pylist())


def _combined(parts: list[tuple[Codes, tuple[str, ...]]]) -> tuple[Codes, tuple[Destination, ...]]:
    keys = np.stack([codes for codes, _ in parts], axis=1)
    found, which = np.unique(keys, axis=0, return_inverse=True)
    names = [names for _, names in parts]
    made = tuple(
        Destination(*(names[n][code] for n, code in enumerate(codes))) for codes in found.tolist()
    )
    return which.reshape(-1).astype(np.int64), made


@dataclass
class Keeper:
    """Writes the rows of open transactions, each once."""

    folder: Path
    _stack: ExitStack = field(default_factory=ExitStack)
    _writers: dict[PartsReading, _Writer] = field(default_factory=dict)
    _known: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def keep(self, rows: Rows, places: Codes, reading: PartsReading) -> None:
        """Keeps some rows, but for those that are kept already."""
        index = index_of(rows)
        keys = index.exact[places] * 31 + index.part[places]
        new = ~np.isin(keys, self._known)
        self._known = np.concatenate([self._known, np.unique(keys[new])])
        if not new.any():
            return
        if reading not in self._writers:
            path = self.folder / _ROWS.format(reading)
            data = self._stack.enter_context(path.with_suffix(_DATA).open("wb"))
            table = self._stack.enter_context(pa.ipc.new_file(str(path), _ROW_SCHEMA))
            self._writers[reading] = _Writer(table, data)
        self._writers[reading].write(rows, places[new])


class _Writer(NamedTuple):
    table: pa.ipc.RecordBatchFileWriter
    data: BinaryIO

    def write(self, rows: Rows, places: Codes) -> None:
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


def keep_marks(
    folder: Path, before: Split | None, fates: Fates, tables: pa.RecordBatch, most: int
) -> None:
    """Writes which transactions are done with, those that were and those of this run, and the tables
    that facts name."""
    ended = np.flatnonzero(np.isin(fates.fate, [PUBLISH, REJECT, DROP]))
    sizes = np.diff(fates.spans)
    transaction = np.repeat(fates.transactions, sizes)[ended]
    node = fates.node_of_span[ended]
    kinds = np.full(len(ended), SEEN, np.int8)
    nodes = pa.array(fates.nodes, pa.string()).take(pa.array(node))
    new = pa.Table.from_arrays(
        [pa.array(kinds), nodes, pa.array(transaction), pa.array(fates.marks[ended])],
        schema=_MARK_SCHEMA,
    )
    named = pa.Table.from_batches([tables]).select(_MARK_SCHEMA.names)
    named = named.set_column(3, "first", pa.array([0] * len(named), pa.uint64()))
    parts = [new, named.cast(_MARK_SCHEMA)] + ([] if before is None else [_marks(before.path)])
    whole = pa.concat_tables(parts).group_by(_MARK_SCHEMA.names).aggregate([])
    with pa.ipc.new_file(str(folder / MARKS), _MARK_SCHEMA) as writer:
        for table in _latest(whole, most):
            writer.write_table(table.cast(_MARK_SCHEMA))


def forget_marks(folder: Path, fates: Fates, spans: Collection[int]) -> None:
    """Removes the marks of some transactions, as if no run had read them."""
    chosen = np.array(sorted(spans), np.int64)
    transactions = np.repeat(fates.transactions, np.diff(fates.spans))[chosen]
    nodes = [fates.nodes[code] for code in fates.node_of_span[chosen].tolist()]
    columns = [[SEEN] * len(chosen), nodes, transactions, fates.marks[chosen]]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _MARK_SCHEMA, strict=True)]
    gone = pa.Table.from_arrays(arrays, schema=_MARK_SCHEMA)
    path = folder / MARKS
    left = pa.table(_marks(str(path))).join(gone, _MARK_SCHEMA.names, join_type="left anti")
    path.unlink()  # it is mapped into memory: a new file takes its place
    with pa.ipc.new_file(str(path), _MARK_SCHEMA) as writer:
        writer.write_table(left.select(_MARK_SCHEMA.names).cast(_MARK_SCHEMA))


def _latest(whole: pa.Table, most: int) -> Iterator[pa.Table]:
    """Of each database the marks of the highest addresses, and the address below which none is left."""
    is_table = pc.equal(whole.column("kind"), NAMED)
    yield whole.filter(is_table).select(_MARK_SCHEMA.names)
    whole = whole.filter(pc.invert(is_table))
    for name in pc.unique(whole.column("node")).to_pylist():
        mine = whole.filter(pc.equal(whole.column("node"), name)).select(_MARK_SCHEMA.names)
        floors = mine.filter(pc.equal(mine.column("kind"), FLOOR)).column("first").to_pylist()
        seen = mine.filter(pc.equal(mine.column("kind"), SEEN)).sort_by([("first", "descending")])
        if len(seen) > most:
            floors.append(seen.column("first")[most].as_py())
            seen = seen.slice(0, most)
        yield seen
        if floors:
            values = [[FLOOR], [name], [0], [max(floors)]]
            yield pa.Table.from_arrays(
                [pa.array(v, f.type) for v, f in zip(values, _MARK_SCHEMA, strict=True)],
                schema=_MARK_SCHEMA,
            )
