"""The lane of an object: a hash that is the same in all processes, versions and engines.

It is computed here and not by Spark, so that ``explain`` finds the file of an object without Spark.
"""

from __future__ import annotations

import zlib

SEPARATOR = "\x1f"
"""Separates schema, table and key.  Names rarely contain this control character; if one does, two objects
may share a lane, but one object never has two lanes."""


def table_hash(schema: str | None, table: str) -> int:
    """Hash of schema and table, the start value of ``key_lane``."""
    return zlib.crc32(f"{schema or ''}{SEPARATOR}{table}{SEPARATOR}".encode())


def key_lane(prefix: int, key: str, lanes: int) -> int:
    """Lane of a key of the table with the hash ``prefix`` (see ``table_hash``)."""
    return zlib.crc32(key.encode(), prefix) % lanes


def lane_of(schema: str | None, table: str, key: str, lanes: int) -> int:
    """Lane of an object, from 0; ``key`` is the canonical key text."""
    return key_lane(table_hash(schema, table), key, lanes)


def record_lane(file: str, row: int, lanes: int) -> int:
    """Lane of a record without an object, by its file and row."""
    return (zlib.crc32(file.encode()) + row) % lanes
