"""Joins deleted and inserted rows of all buckets of a table that are one object with a changed key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import InternalError
from publisher.sources.columns.private_tables import read_table, write_table
from publisher.sources.triggerless.changed_keys import (
    IDENTITY_COLUMNS,
    build_changes,
    pair_rows,
)
from publisher.sources.triggerless.comparison import BucketResult
from publisher.sources.triggerless.table_shape import TableShape

_MOVED, _REST = "moved-", "rest-"
"""Prefixes of files: changes of objects with changed keys, and the other differences of a bucket."""


@dataclass(frozen=True, slots=True)
class MovedObjects:
    """A file with the changes of the objects of a table whose keys have changed."""

    name: str
    rows: int
    records: int
    deleted: int
    """See ``KeyChanges``."""


@dataclass(frozen=True, slots=True)
class TableDifferences:
    """The results of all buckets of a table, without the changes of objects whose keys have changed."""

    results: Sequence[BucketResult]
    moved: MovedObjects | None = None

    @property
    def files(self) -> set[str]:
        """Names of the files with differences."""
        return {result.found for result in self.results} | (
            {self.moved.name} if self.moved else set()
        )


def join_keys(shape: TableShape, results: Sequence[BucketResult], folder: Path) -> TableDifferences:
    """Joins the candidates of all buckets; writes the changes of moved objects into the folder.

    Raises ``InternalError`` unless they account for the rows that they replace.
    """
    buckets = [number for number, result in enumerate(results) if result.candidates is not None]
    identities = [_read(folder, results[number], IDENTITY_COLUMNS) for number in buckets]
    chains = pair_rows(pa.concat_tables(identities)) if identities else []
    if not chains:
        return TableDifferences(results)
    chosen = np.unique(np.concatenate(chains))
    bounds = np.cumsum([0, *map(len, identities)])
    rest, pieces = list(results), []
    for number, start, end in zip(buckets, bounds, bounds[1:], strict=False):
        places = chosen[(chosen >= start) & (chosen < end)] - start
        if len(places):
            rows = _read(folder, results[number]).take(pa.array(places))
            rest[number] = _leave_out(results[number], rows["key"], folder)
            pieces.append(rows)
    (candidates,) = pa.concat_tables(pieces).combine_chunks().to_batches()
    chains = [np.searchsorted(chosen, chain).tolist() for chain in chains]
    moved = build_changes(shape.columns, shape.multiple, candidates, chains)
    records = pc.sum(moved.changes.column("records")).as_py()
    if records != len(chosen) or records != sum(result.moved for result in rest):
        raise InternalError(
            f"{len(chosen)} rows of {shape.source_name} with changed keys became {records} records: nothing"
            " was published; run again, and report this if it happens again"
        )
    name = f"{_MOVED}{results[0].found}"
    write_table(moved.changes, folder / name, compression="zstd")
    file = MovedObjects(name, moved.changes.num_rows, records, moved.deleted)
    return TableDifferences(rest, file)


def _read(folder: Path, result: BucketResult, columns: Sequence[str] | None = None) -> pa.Table:
    return read_table(folder / str(result.candidates), columns)


def _leave_out(result: BucketResult, keys: pa.ChunkedArray, folder: Path) -> BucketResult:
    """Writes the differences of a bucket without the changes of some keys."""
    found = read_table(folder / result.found)
    are_moved = pc.and_(found["event_type"].is_valid(), pc.is_in(found["key"], keys))
    rest = found.filter(pc.invert(are_moved))
    name = f"{_REST}{result.found}"
    write_table(rest, folder / name, compression="zstd")
    moved = found.num_rows - rest.num_rows
    return replace(result, found=name, found_rows=rest.num_rows, moved=moved)
