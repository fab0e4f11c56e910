"""Finds the objects of a table whose key has changed since the last comparison.

The columns of ``key_change_by`` identify an object whatever its key is: an old and a new row with equal
values in them are one object.
Each bucket lists its candidates: rows that were deleted, inserted, or now belong to another object.  A pass
over the candidates of all buckets pairs them, and replaces their changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import InternalError
from publisher.formats.columns.key_texts import join_key, quote_values
from publisher.formats.columns.private_tables import read_table, write_table
from publisher.formats.columns.row_images import differ
from publisher.formats.triggerless.comparison import BucketResult
from publisher.formats.triggerless.differences import Differences, TableRows
from publisher.formats.triggerless.relate import RelatedRows
from publisher.formats.triggerless.table_shape import TableShape
from publisher.model.arrays import Int64Array
from publisher.xds.escape import FORBIDDEN_RE2

IDENTITY_COLUMNS = ("was", "now", "existed", "exists", "is_writable")
"""The columns of candidates that decide which rows are one object."""
_MOVED, _REST = "moved-", "rest-"
"""Prefixes of files: changes of objects with changed keys, and the other differences of a bucket."""


def find_candidates(columns: Sequence[str], by: Sequence[str], relation: RelatedRows) -> pa.Table:
    """Lists the changed rows of a bucket that may have got another key, one for each key.

    ``was`` and ``now`` are its object before and now, as a text of the identifying columns, null if one of
    them is NULL; ``is_writable`` says whether documents can have the key.  All values before and now follow,
    null for a key that ``existed`` or ``exists`` without a row."""
    keys = np.sort(np.concatenate([relation.new, relation.changed, relation.gone]))
    before, after = relation.known_row[keys], relation.now_row[keys]
    named = TableRows.concat(
        [replace(side, values=[]) for side in (relation.known, relation.now)]
    ).take(np.where(after >= 0, after + len(relation.known), before))
    old, new = (
        [column.take(pa.array(rows, mask=rows < 0)) for column in side.values]
        for side, rows in ((relation.known, before), (relation.now, after))
    )
    places = [columns.index(name) for name in by]
    was, now = (join_key(by, [quote_values(c[place]) for place in places]) for c in (old, new))
    candidates = {
        "was": was,
        "now": now,
        "existed": before >= 0,
        "exists": after >= 0,
        "is_writable": pc.invert(pc.match_substring_regex(named.keys, FORBIDDEN_RE2)),
        "hash": named.hashes,
        "key": named.keys,
        **{f"old {number}": column for number, column in enumerate(old)},
        **{f"new {number}": column for number, column in enumerate(new)},
    }
    return pa.table(candidates).filter(pa.array(differ(was, now)))


def pair_rows(identities: pa.Table) -> list[list[int]]:
    """Finds objects that have other keys now; returns the numbers of their rows as chains.

    Each object has moved from the key of one row of a chain to the key of the next.  ``identities`` has
    ``IDENTITY_COLUMNS``.  Values join rows only if they are unique, both before and now.  Rows with NULL
    in an identifying column are in no chain, nor are keys that change in a circle: in every order, two
    objects would have one key.  An object keeps its key until documents can have the new one, so it is in
    no chain if another object has its key.
    """
    target = _find_targets(identities)
    is_target = np.zeros(len(target), bool)
    is_target[target[target >= 0]] = True
    chains = []
    for first in np.flatnonzero((target >= 0) & ~is_target).tolist():
        chain = [first]
        while target[chain[-1]] >= 0:
            chain.append(int(target[chain[-1]]))
        chains.append(chain)
    return chains


def _find_targets(identities: pa.Table) -> Int64Array:
    """Returns for each row the row that its object has now, or -1."""
    count = identities.num_rows
    both = pa.chunked_array(
        identities["was"].chunks + identities["now"].chunks, pa.string()
    ).combine_chunks()
    codes = both.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    was, now = codes[:count], codes[count:]
    size = int(codes.max(initial=-1)) + 1
    is_single = np.ones(size, bool)
    for side in (was, now):
        is_single &= np.bincount(side[side >= 0], minlength=size) == 1
    existed, exists = (identities[name].to_numpy() for name in ("existed", "exists"))
    is_known = ~((existed & (was < 0)) | (exists & (now < 0)))
    rows_now = np.full(size, -1, np.int64)
    sources, targets = (np.flatnonzero(is_known & (side >= 0)) for side in (was, now))
    rows_now[now[targets]] = targets
    target = np.full(count, -1, np.int64)
    target[sources] = np.where(is_single[was[sources]], rows_now[was[sources]], -1)
    is_writable = identities["is_writable"].to_numpy()
    target[(target >= 0) & exists & ~is_writable[target]] = -1
    return target


class _Step(NamedTuple):
    """A change in a chain: a delete has no row now, an insert none before, a moved object has both."""

    before: int
    now: int


def _steps(
    chain: Sequence[int], existed: Sequence[bool], exists: Sequence[bool]
) -> Iterator[_Step]:
    """Yields the changes of a chain in their order; each key is free before an object gets it."""
    if existed[chain[-1]]:
        yield _Step(chain[-1], -1)
    for now, before in pairwise(reversed(chain)):
        yield _Step(before, now)
    if exists[chain[0]]:
        yield _Step(-1, chain[0])


class KeyChanges(NamedTuple):
    """The changes of objects with changed keys."""

    changes: pa.RecordBatch
    """Differences with their numbers of ``records``: the changes of one key may be several, or none for a
    row."""
    deleted: int
    """Number of deleted objects, less the rows that only seemed to be deleted."""


def build_changes(
    columns: Sequence[str],
    multiple: Collection[str],
    candidates: pa.Table,
    chains: Sequence[Sequence[int]],
) -> KeyChanges:
    """Builds the changes of chains, which are rows of ``candidates``.

    The object with the newest key moves first, after the delete of another object that had this key; an
    object that now has the oldest key is inserted last.  Each row that was read, and each key that no longer
    has a row, is one record, as without changed keys."""
    exists = candidates["exists"].to_numpy()
    flags = candidates["existed"].to_pylist(), exists.tolist()
    steps = np.array([step for chain in chains for step in _steps(chain, *flags)], np.int64)
    before, now = steps.T
    old, new = (_values_of(candidates, side, len(columns)) for side in ("old", "new"))
    differences = Differences(columns, multiple)

    # another object has the key of a deleted one now: the row is the record of that object
    deletes, inserts = np.flatnonzero(now < 0), np.flatnonzero(before < 0)
    deleted = old.take(before[deletes])
    differences.add_deleted(deleted.hashes, deleted.keys)
    differences.add_new(new.take(now[inserts]), replace=False)

    moves = np.flatnonzero((before >= 0) & (now >= 0))
    was, is_now = old.take(before[moves]), new.take(now[moves])
    pairs = zip(was.values, is_now.values, strict=True)
    differs = np.stack([differ(one, other) for one, other in pairs], axis=1)
    changed = np.flatnonzero(differs.any(axis=1))
    differences.add_key_changes(was.hashes, was.keys, is_now.keys)
    differences.add_changed(is_now.take(changed), differs[changed], was.take(changed).values)
    of_moves = (~exists[before[moves]]).astype(np.int64) + 1
    of_moves[changed] -= 1

    # the other values of an object change after its key
    order = np.concatenate([2 * deletes, 2 * inserts, 2 * moves, 2 * moves[changed] + 1])
    records = np.repeat([0, 1, 0, 1], [len(deletes), len(inserts), len(moves), len(changed)])
    records[len(deletes) + len(inserts) :][: len(moves)] = of_moves
    changes = pa.concat_batches(differences.pieces)
    changes = changes.append_column("records", pa.array(records, pa.int32()))
    gone = sum(not exists[chain[0]] for chain in chains)
    return KeyChanges(changes.take(pa.array(np.argsort(order))), len(deletes) - gone)


def _values_of(candidates: pa.Table, side: str, columns: int) -> TableRows:
    (rows,) = candidates.combine_chunks().to_batches()
    values = [rows[f"{side} {number}"] for number in range(columns)]
    return TableRows(rows["hash"].to_numpy(), rows["key"], values)


class MovedObjects(NamedTuple):
    """A file with the changes of the objects of a table whose keys have changed."""

    name: str
    rows: int
    records: int
    deleted: int
    """See ``KeyChanges``."""


def join_keys(
    shape: TableShape, results: Sequence[BucketResult], folder: Path
) -> tuple[Sequence[BucketResult], MovedObjects | None]:
    """Joins the candidates of all buckets; writes the changes of moved objects into the folder.

    Returns the results without these changes.  Raises ``InternalError`` unless they account for the rows
    that they replace.
    """
    buckets = [number for number, result in enumerate(results) if result.candidates]
    paths = [folder / str(results[number].candidates) for number in buckets]
    identities = [read_table(path, IDENTITY_COLUMNS) for path in paths]
    chains = pair_rows(pa.concat_tables(identities)) if identities else []
    if not chains:
        return results, None
    chosen = np.unique(np.concatenate(chains))
    bounds = np.cumsum([0, *map(len, identities)]).tolist()
    rest, pieces = list(results), []
    for number, path, (start, end) in zip(buckets, paths, pairwise(bounds), strict=True):
        places = chosen[(chosen >= start) & (chosen < end)] - start
        if len(places):
            pieces.append(read_table(path).take(pa.array(places)))
            rest[number] = _leave_out(results[number], pieces[-1]["key"], folder)
    chains = [np.searchsorted(chosen, chain).tolist() for chain in chains]
    changes, deleted = build_changes(
        shape.columns, shape.multiple, pa.concat_tables(pieces), chains
    )
    records = pc.sum(changes["records"]).as_py()
    if records != len(chosen) or records != sum(result.moved for result in rest):
        raise InternalError(
            f"{len(chosen)} rows of {shape.source_name} with changed keys became {records} records: nothing"
            " was published; run again, and report this if it happens again"
        )
    name = f"{_MOVED}{results[0].found}"
    write_table(changes, folder / name, compression="zstd")
    return rest, MovedObjects(name, changes.num_rows, records, deleted)


def _leave_out(result: BucketResult, keys: pa.ChunkedArray, folder: Path) -> BucketResult:
    """Writes the differences of a bucket without the changes of some keys."""
    found = read_table(folder / result.found)
    are_moved = pc.and_(found["event_type"].is_valid(), pc.is_in(found["key"], keys))
    rest = found.filter(pc.invert(are_moved))
    name = f"{_REST}{result.found}"
    write_table(rest, folder / name, compression="zstd")
    return replace(result, found=name, found_rows=len(rest), moved=found.num_rows - rest.num_rows)
