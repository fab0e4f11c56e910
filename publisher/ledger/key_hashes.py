"""Hashes of the key texts of records, by which the runs of an object are found."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def hashes_of(records: Sequence[pa.Table]) -> list[int]:
    """The distinct hashes of the keys of records."""
    keys = pa.chunked_array(
        [chunk for rows in records for chunk in rows["key"].chunks], pa.string()
    )
    return sorted(map(hash_of, pc.drop_null(pc.unique(keys)).to_pylist()))


def hash_of(key: str) -> int:
    """The hash of a key text."""
    return zlib.crc32(key.encode())
