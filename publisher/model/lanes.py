"""Which lane an object falls into: a hash that no process, version or engine changes.

It is computed here and not by Spark, so that ``explain`` finds the file of an object by itself.
"""

from __future__ import annotations

import zlib

SEPARATOR = "\x1f"
"""Between schema, table and key; a control character, so that names rarely contain it.  Where one
does, two objects may share a lane, never one object two lanes."""


def table_hash(schema: str | None, table: str) -> int:
    """Hash of the first two parts of an object, to be continued by ``key_lane``."""
    return zlib.crc32(f"{schema or ''}{SEPARATOR}{table}{SEPARATOR}".encode())


def key_lane(prefix: int, key: str, lanes: int) -> int:
    """Lane of a key of the table that ``prefix`` (see ``table_hash``) stands for."""
    return zlib.crc32(key.encode(), prefix) % lanes


def lane_of(schema: str | None, table: str, key: str, lanes: int) -> int:
    """Lane of an object, from 0; ``key`` is the canonical key text."""
    return key_lane(table_hash(schema, table), key, lanes)


def record_lane(file: str, row: int, lanes: int) -> int:
    """Lane of a record that names no object, from its place."""
    return (zlib.crc32(file.encode()) + row) % lanes
