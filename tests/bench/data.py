"""Event logs for the benchmarks: deterministic, made by the column, kept in a cache directory."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

GROUP = 120_000
"""Rows of a row group; a multiple of three, so that an object is in one of them."""

GIVEN = ["Jack", "Žofie", "Li 伟", "Anne-Marie", "José", "Ömer", "Ann"]
FAMILY = [
    "Frost",
    "O'Neil & Sons",
    "Müller",
    "Ngô",
    "Doe",
    "Świątek",
    "Smith",
    "d'Arc",
    "Lee",
    "Kim",
    "Roy",
]
"""One name in eleven has to be escaped; as many as do not divide by three, so that columns take all."""

COLUMNS = ("fname", "lname", "photo")
FIRST_TIME = np.datetime64("2026-01-05T08:00:00", "us")

SCHEMA = pa.schema(
    [
        ("record_id", pa.int64()),
        ("table_key", pa.string()),
        ("status", pa.string()),
        ("event_type", pa.int16()),
        ("event_time", pa.timestamp("us")),
        ("perpetrator", pa.string()),
        ("table_name", pa.string()),
        ("column_name", pa.string()),
        ("old_value", pa.string()),
        ("new_value", pa.string()),
    ]
)
"""The event log's columns in the order of version 3.5 and later."""


@dataclass(frozen=True, slots=True)
class Log:
    """The contents of an event log.

    ``per_object`` events in a row belong to one object and are of one type; ``None``: all events are of
    one object.  ``types`` are taken in turn, object by object.
    """

    events: int
    per_object: int | None = 3
    types: tuple[int, ...] = (1, 2, 3)
    table: str = "usr"

    @property
    def name(self) -> str:
        """Name of the file, which says all of the above."""
        share = self.per_object or "all"
        kinds = "".join(map(str, self.types))
        return f"log2-{self.table}-{self.events}-{share}-{kinds}.parquet"


def cache() -> Path:
    """The directory of generated files, kept from one benchmark to the next."""
    base = os.environ.get("XDS_BENCH_CACHE")
    path = Path(base) if base else Path(tempfile.gettempdir()) / f"xds-bench-{os.getuid()}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def event_log(log: Log) -> Path:
    """The log as one Parquet file of several row groups; made when it is not there."""
    return _cache_parquet(log.name, _groups(log))


def wide_log(values: int, size: int) -> Path:
    """``values`` events of type 3 on as many objects, each with a new value of ``size`` bytes."""
    return _cache_parquet(f"wide-{values}-{size}.parquet", _wide(values, size))


def _cache_parquet(name: str, batches: Iterator[pa.RecordBatch]) -> Path:
    path = cache() / name
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        with pq.ParquetWriter(unfinished, SCHEMA) as writer:
            for batch in batches:
                writer.write_batch(batch)
        unfinished.rename(path)
    return path


def _groups(log: Log) -> Iterator[pa.RecordBatch]:
    for start in range(0, log.events, GROUP):
        yield _group(log, np.arange(start, min(start + GROUP, log.events), dtype=np.int64))


def _group(log: Log, event: np.ndarray) -> pa.RecordBatch:
    number = event // log.per_object if log.per_object else np.zeros_like(event)
    column = event % len(COLUMNS)
    turn = event // (log.per_object or 3)
    kind = np.array(log.types, dtype=np.int16)[turn % len(log.types)]
    per_row = pa.array(np.isin(kind, (4, 5, 6)))
    has_old = pa.array(kind == 2)
    nothing = pa.nulls(len(event), pa.string())
    new = pc.if_else(per_row, nothing, _values(column, event))
    old = pc.if_else(has_old, _values(column, event + 7), nothing)
    return _batch(
        event,
        key=pc.binary_join_element_wise("idu", (number + 1).astype(str), "="),
        kind=kind,
        table=log.table,
        column=pc.if_else(per_row, nothing, pa.array(np.array(COLUMNS)[column], pa.string())),
        old=old,
        new=new,
    )


def _values(column: np.ndarray, seed: np.ndarray) -> pa.Array:
    """A value for each column number: a given name, a family name, 24 bytes in Base64."""
    given = _pick_words(GIVEN, seed)
    family = _pick_words(FAMILY, seed)
    photo = _pick_words([base64.b64encode(bytes([i]) * 24).decode() for i in range(32)], seed)
    text = (seed % 9973).astype(str)
    names = [
        pc.binary_join_element_wise(given, text, " "),
        pc.binary_join_element_wise(family, text, " "),
        photo,
    ]
    return pc.choose(pa.array(column), *names)


def _pick_words(words: list[str], seed: np.ndarray) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(seed % len(words)))


def _batch(
    event: np.ndarray,
    *,
    key: pa.Array,
    kind: np.ndarray,
    table: str,
    column: pa.Array,
    old: pa.Array,
    new: pa.Array,
) -> pa.RecordBatch:
    size = len(event)
    moment = FIRST_TIME + (event * 1000).astype("timedelta64[us]")
    people = pa.array(["hr", None, "portal"], pa.string()).take(pa.array(event % 3))
    arrays = [
        pa.array(event + 1),
        key,
        pa.repeat("N", size),
        pa.array(kind, pa.int16()),
        pa.array(moment),
        people,
        pa.repeat(table, size),
        column,
        old,
        new,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _wide(values: int, size: int) -> Iterator[pa.RecordBatch]:
    letters = np.frombuffer(
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -", "u1"
    )
    for start in range(0, values, 20):
        event = np.arange(start, min(start + 20, values), dtype=np.int64)
        random = np.random.default_rng(start)
        text = [letters[random.integers(0, 64, size)].tobytes().decode() for _ in event]
        yield _batch(
            event,
            key=pc.binary_join_element_wise("idu", (event + 1).astype(str), "="),
            kind=np.full(len(event), 3, np.int16),
            table="usr",
            column=pa.repeat("fname", len(event)),
            old=pa.nulls(len(event), pa.string()),
            new=pa.array(text, pa.string()),
        )
