"""The tables of a run: its records with their outcomes, its documents, its look-ups.

A small run has them packed in the ledger, a large one as Parquet files of its lanes; those of an hour of
small runs are Parquet files again.  Row numbers count within a lane of a run.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import acero

from publisher.errors import FatalError
from publisher.model.document_schema import DOCUMENT_SCHEMA
from publisher.model.record_schema import RECORD_SCHEMA

_LANE = pa.field("lane", pa.int32())
_OF_RUN = [pa.field("run", pa.int64()), _LANE]
ROWS_AT_ONCE = 1 << 14
Columns = Sequence[str] | None
"""``None``: all columns."""
_HEAD = struct.Struct("<QI")
"""Size of packed rows before compression, and their CRC-32."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """One of the tables of a run."""

    name: str
    schema: pa.Schema
    """Without the numbers of run and lane."""
    repeating: Sequence[str] = ()
    """Columns with few different values; empty: any column may have them."""
    ascending: Sequence[str] = ()
    """Integers that are close to those of the row before, or constant: their differences take less space."""

    @property
    def numbered(self) -> pa.Schema:
        """The columns with those of run and lane."""
        return pa.schema([*_OF_RUN, *self.schema])

    def file_of(self, lane: int) -> str:
        """The file of a lane."""
        return f"lane-{lane:05d}.{self.name}.parquet"


_OMITTED = {"lane", "old", "new", "outcome", "reason", "detail", "raw"}
ARRIVAL_COLUMNS = [name for name in RECORD_SCHEMA.names if name not in _OMITTED]
"""Columns of an arrival that the records copy; the values of the change are in its document."""
RECORDS = RunTable(
    "records",
    pa.schema(
        [
            *(RECORD_SCHEMA.field(name) for name in ARRIVAL_COLUMNS),
            ("number", pa.int64()),
            ("outcome", pa.int8()),
            ("reason", pa.string()),
            ("by", pa.int64()),
            ("document", pa.int64()),
            ("detail", pa.string()),
            ("raw", pa.string()),
            # of a rejected record, as its users write it
            ("position", pa.string()),
        ]
    ),
    [
        *("source", "part", "split", "records", "schema", "table", "event_type"),
        *("logged_table", "logged_column", "children.list.element", "reason"),
    ],
    ["rank", "high", "low", "ordinal", "row", "event_time", "number", "by", "document"],
)
"""One row for each change of a lane in the order of arrival.

``number`` counts from 0; ``by`` is the number of another record of the lane, ``document`` that of a document;
-1 without one."""
OF_DOCUMENTS = [
    field for field in DOCUMENT_SCHEMA if field.name not in {"rank", "key", "text", "rows"}
]
DOCUMENTS = RunTable(
    "documents",
    pa.schema(
        [
            ("source", pa.int32()),
            # number in the lane, from 0
            ("number", pa.int64()),
            # offset and length of the line in the part file, in bytes, without its line end
            ("offset", pa.int64()),
            ("length", pa.int64()),
            *OF_DOCUMENTS,
            # null if a part file has it
            ("text", pa.large_string()),
        ]
    ),
    ["source", "part", "operation", "schema", "table"],
    ["number", "offset", "length", "high", "low", "ordinal", "poll"],
)
"""One row for each document of a lane, in the order of the part file."""
LOOKUPS = RunTable(
    "lookups",
    pa.schema(
        [
            ("source", pa.int32()),
            ("schema", pa.string()),
            ("table", pa.string()),
            ("key", pa.string()),
            ("poll", pa.int64()),
            # LookupAnswer; the row as a JSON object, or the problem
            ("answer", pa.string()),
            ("text", pa.string()),
            # the key under which the row was read, if the key of the object changes; else null
            ("row_key", pa.string()),
        ]
    ),
    ["source", "schema", "table", "answer"],
    ["poll"],
)
"""One row for each look-up of an object, in the order of the look-ups."""
TABLES = (RECORDS, DOCUMENTS, LOOKUPS)

RunTables = Mapping[str, pa.Table]
"""The rows of a run, with the number of the lane, or of one lane, by the names of the tables."""


def pack(table: RunTable, lanes: Iterable[pa.Table]) -> bytes | None:
    """Packs the rows of all lanes; ``None`` if there are none."""
    each = list(lanes)
    numbers = np.repeat(np.arange(len(each), dtype=np.int32), [rows.num_rows for rows in each])
    if not len(numbers):
        return None
    rows = pa.concat_tables(each).combine_chunks()
    columns = [pa.array(numbers), *(column.combine_chunks() for column in rows.columns)]
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema([_LANE, *table.schema]))
    plain = batch.serialize().to_pybytes()
    packed: bytes = pa.compress(plain, "zstd", asbytes=True)
    return _HEAD.pack(len(plain), zlib.crc32(plain)) + packed


def unpack(table: RunTable, packed: bytes | None, place: str) -> pa.Table:
    """Returns the rows of all lanes with the number of the lane; ``place`` names them in messages.

    Raises:
        FatalError: They are damaged.
    """
    schema = pa.schema([_LANE, *table.schema])
    if packed is None:
        return schema.empty_table()
    try:
        size, checksum = _HEAD.unpack_from(packed)
        plain = pa.decompress(packed[_HEAD.size :], size, "zstd", asbytes=True)
    except (struct.error, pa.ArrowException, OSError, ValueError) as error:
        raise _damage(place, table) from error
    if zlib.crc32(plain) != checksum:
        raise _damage(place, table)
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(plain), schema)])


def unpack_tables(packed: Iterable[bytes | None], run: str) -> RunTables:
    """The rows of a small run.  Raises ``FatalError`` if they are damaged."""
    return {
        table.name: unpack(table, content or None, run)
        for table, content in zip(TABLES, packed, strict=True)
    }


def by_lane(rows: pa.Table, lanes: int) -> Iterator[pa.Table]:
    """Yields the rows of each lane, whose numbers ascend."""
    ends = np.searchsorted(rows["lane"].to_numpy(), np.arange(lanes + 1)).tolist()
    others = rows.drop_columns(["lane"])
    for start, end in pairwise(ends):
        yield others.slice(start, end - start)


def number_rows(rows: pa.Table, run: int) -> pa.Table:
    """Adds the number of the run to rows with the numbers of lanes."""
    numbers = pa.array(np.full(rows.num_rows, run, np.int64))
    return rows.add_column(0, _OF_RUN[0], numbers)


def filter_rows(rows: pa.Table, condition: pc.Expression) -> pa.Table:
    """Filters rows in their order without threads, which could still run when a command ends."""
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    chosen = acero.Declaration("filter", acero.FilterNodeOptions(condition))
    return acero.Declaration.from_sequence([source, chosen]).to_table(use_threads=False)


def read_file(
    path: Path, columns: Columns = None, condition: pc.Expression | None = None
) -> pa.Table:
    """Reads columns of a file, of the rows that fit a condition.

    Raises:
        FatalError: The file is missing or damaged.
    """
    names = None if columns is None else list(columns)
    with explain_damage(path):
        if condition is not None:
            return pq.read_table(
                path,
                columns=names,
                filters=condition,
                use_threads=False,
                page_checksum_verification=True,
            )
        with pq.ParquetFile(path, page_checksum_verification=True) as file:  # faster if it is small
            return file.read(names, use_threads=False)


def read_batches(path: Path, columns: Columns = None, start: int = 0) -> Iterator[pa.RecordBatch]:
    """Reads columns of a file from a row on, some thousand rows at a time.

    Raises:
        FatalError: The file is missing or damaged.
    """
    with explain_damage(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        groups = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        ends = list(accumulate(groups))
        numbers = [number for number, end in enumerate(ends) if end > start]
        skipped = start - (ends[numbers[0]] - groups[numbers[0]]) if numbers else 0
        names = None if columns is None else list(columns)
        for rows in file.iter_batches(
            ROWS_AT_ONCE, row_groups=numbers, columns=names, use_threads=False
        ):
            if skipped < rows.num_rows:
                yield rows.slice(skipped)
            skipped = max(skipped - rows.num_rows, 0)


@contextmanager
def explain_damage(path: Path) -> Iterator[None]:
    """Raises ``FatalError`` with the name of a file that cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the ledger cannot be read ({error}): restore it from a copy, or publish again"
        ) from error


def _damage(place: str, table: RunTable) -> FatalError:
    return FatalError(
        f"the {table.name} of run {place} in the ledger are damaged: restore the ledger from a copy"
    )
