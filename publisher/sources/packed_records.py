"""Records of a shuffle, in which columns of a single value hold it once.

Most columns of records have one value in a whole batch: those that a format does not know are null, and the
records of one table have its name in common.  The steps of a shuffle copy and compress only the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from publisher.model.packed_batches import compress, concat, decompress
from publisher.model.record_schema import RECORD_SCHEMA
from publisher.model.repeated_values import has_one_value, repeat_value

_OF_PIECE = "lane"
"""A column that all records of a piece have in common, which the piece states itself."""
_VARYING = "rank"
"""A column that counts as varying in any case: a batch without columns would have no rows."""
_SIZE = 4
"""Length in bytes of the prefix that states the size of the constants."""


@dataclass(frozen=True, slots=True)
class PackedRecords:
    """A batch of ``RECORD_SCHEMA``, without or with the column ``lane``."""

    constants: Mapping[str, Any]
    """The columns of a single value, with this value."""
    varying: pa.RecordBatch
    """The other columns."""

    @classmethod
    def of(cls, records: pa.RecordBatch) -> PackedRecords:
        """Finds the columns of a single value; omits the column ``lane``."""
        constants: dict[str, Any] = {}
        varying: list[pa.Field] = []
        for item, column in zip(RECORD_SCHEMA, records.columns, strict=True):
            if item.name == _OF_PIECE:
                continue
            if item.name != _VARYING and has_one_value(column):
                constants[item.name] = column[0].as_py()
            else:
                varying.append(item)
        return cls(constants, _with_constants(records, {}, pa.schema(varying)))

    def records(self) -> pa.RecordBatch:
        """Restores the batch with all columns."""
        return _with_constants(self.varying, self.constants, RECORD_SCHEMA)

    def take(self, order: np.ndarray) -> PackedRecords:
        """Selects records by their places."""
        return PackedRecords(self.constants, self.varying.take(pa.array(order)))


def join_records(parts: Sequence[PackedRecords]) -> PackedRecords:
    """Joins records; a constant in which the parts differ becomes a column."""
    constants = parts[0].constants
    if any(part.constants != constants for part in parts):
        constants = {
            name: value
            for name, value in constants.items()
            if all(name in p.constants and p.constants[name] == value for p in parts)
        }
    schema = pa.schema([item for item in RECORD_SCHEMA if item.name not in constants])
    return PackedRecords(
        constants, concat([_with_constants(p.varying, p.constants, schema) for p in parts])
    )


def write_constants(records: PackedRecords) -> bytes:
    """Serialises the constants, as the beginning of pieces."""
    constants = json.dumps(records.constants).encode()
    return len(constants).to_bytes(_SIZE) + constants


def write_piece(constants: bytes, varying: pa.RecordBatch) -> bytes:
    """Serialises some of the records from which ``write_constants`` made the constants."""
    return constants + compress(varying.serialize())


def read_piece(data: pa.Buffer, lane: int) -> PackedRecords:
    """Restores the records of a piece."""
    size = _SIZE + int.from_bytes(data.slice(0, _SIZE).to_pybytes())
    constants, schema = _read_constants(data.slice(_SIZE, size - _SIZE).to_pybytes(), lane)
    return PackedRecords(constants, pa.ipc.read_record_batch(decompress(data.slice(size)), schema))


@lru_cache(maxsize=16)
def _read_constants(text: bytes, lane: int) -> tuple[Mapping[str, Any], pa.Schema]:
    """Restores the constants of a piece, and the schema of its other columns."""
    constants = {**json.loads(text), _OF_PIECE: lane}
    return constants, pa.schema([item for item in RECORD_SCHEMA if item.name not in constants])


def _with_constants(
    varying: pa.RecordBatch, constants: Mapping[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    """Builds a batch of the columns of a schema."""
    arrays = [
        repeat_value(constants[item.name], item.type, varying.num_rows)
        if item.name in constants
        else varying.column(item.name)
        for item in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
