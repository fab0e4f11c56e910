"""The tables of a run: its records with their outcomes, its documents, its look-ups.

A small run has them packed in the ledger, a large one as Parquet files of its lanes; those of an hour of
small runs are Parquet files again.  Row numbers count within a lane of a run.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.ledger.documents import INDEX_SCHEMA
from publisher.ledger.lane_result import LaneNames
from publisher.ledger.lookups import LOOKUP_SCHEMA
from publisher.ledger.manifest import Manifest
from publisher.ledger.records import LEDGER_RECORD_SCHEMA

_LANE = pa.field("lane", pa.int32())
_OF_RUN = [pa.field("run", pa.int64()), _LANE]
DOCUMENT_TEXTS = pa.field("text", pa.large_string())
"""The documents; null if the run published them to a directory, which has them."""
_HEAD = struct.Struct("<QI")
"""Size of packed rows before compression, and their CRC-32."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """One of the tables of a run."""

    name: str
    schema: pa.Schema
    """Without the numbers of run and lane."""

    @property
    def numbered(self) -> pa.Schema:
        """The columns with those of run and lane."""
        return pa.schema([*_OF_RUN, *self.schema])

    def file_of(self, lane: int) -> str:
        """The file of a lane."""
        return LaneNames(lane).table(self.name)


RECORDS = RunTable("records", LEDGER_RECORD_SCHEMA)
DOCUMENTS = RunTable("documents", pa.schema([*INDEX_SCHEMA, DOCUMENT_TEXTS]))
LOOKUPS = RunTable("lookups", LOOKUP_SCHEMA)
TABLES = (RECORDS, DOCUMENTS, LOOKUPS)

RunTables = Mapping[str, pa.Table]
"""The rows of a run by the names of the tables, with the number of the lane."""


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


def read_lanes(
    table: RunTable, files: Path, documents: Path | None, manifest: Manifest
) -> Iterator[pa.Table]:
    """Reads a table of each lane from the files in a folder; ``documents`` has the texts of documents, if
    they are to be kept.

    Raises:
        FatalError: A file is missing or damaged.
    """
    for lane in range(manifest.lanes):
        if table == LOOKUPS and not manifest.has_lookups(lane):
            yield LOOKUP_SCHEMA.empty_table()
            continue
        path = files / table.file_of(lane)
        with explain_damage(path), pq.ParquetFile(path) as file:
            rows = file.read(use_threads=False)
        if table == DOCUMENTS:
            rows = rows.append_column(DOCUMENT_TEXTS, _texts(documents, lane, rows.num_rows))
        yield rows


def write_lanes(tables: RunTables, files: Path, documents: Path | None, manifest: Manifest) -> None:
    """Writes the tables of a run as the files of its lanes; ``documents`` gets the texts of documents."""
    for table in TABLES:
        for lane, rows in enumerate(by_lane(tables[table.name], manifest.lanes)):
            columns = rows
            if table == LOOKUPS and not rows.num_rows:
                continue
            if table == DOCUMENTS:
                if documents is not None:
                    lines = "".join(f"{text}\n" for text in rows[DOCUMENT_TEXTS.name].to_pylist())
                    part = documents / LaneNames(lane).part
                    part.write_text(lines, "utf-8", newline="\n")
                columns = rows.drop_columns([DOCUMENT_TEXTS.name])
            pq.write_table(columns, files / table.file_of(lane))


def _texts(documents: Path | None, lane: int, count: int) -> pa.Array:
    if documents is None:
        return pa.nulls(count, DOCUMENT_TEXTS.type)
    path = documents / LaneNames(lane).part
    with explain_damage(path):
        lines = path.read_bytes().split(b"\n")
    if len(lines) != count + 1:
        raise FatalError(f"{path} has other documents than its index: publish again")
    return pa.array(lines[:-1], DOCUMENT_TEXTS.type)


@contextmanager
def explain_damage(path: Path) -> Iterator[None]:
    """Raises ``FatalError`` with the name of a file that cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the ledger cannot be read ({error}): restore it, or publish again"
        ) from error


def _damage(place: str, table: RunTable) -> FatalError:
    return FatalError(
        f"the {table.name} of run {place} in the ledger are damaged: restore the ledger from a copy"
    )
