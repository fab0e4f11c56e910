"""Finds the objects whose key has changed between two states of a table, as pure functions.

The columns of ``key_change_by`` identify an object whatever its key is: an old and a new row with equal
values in them are one object.
Each bucket lists its candidates: rows that were deleted, inserted, or now belong to another object.  A pass
over the candidates of all buckets pairs them, and replaces their changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.sources.columns.key_texts import join_key, quote_values
from publisher.sources.columns.row_images import differ
from publisher.sources.triggerless.compare import KnownRows
from publisher.sources.triggerless.differences import (
    DIFFERENCE_SCHEMA,
    Differences,
    Places,
    TableRows,
)
from publisher.xds.escape import FORBIDDEN_RE2

CANDIDATE_SCHEMA = pa.schema(
    [
        ("was", pa.string()),
        ("now", pa.string()),
        ("existed", pa.bool_()),
        ("exists", pa.bool_()),
        ("is_writable", pa.bool_()),
        ("hash", pa.uint64()),
        ("key", pa.string()),
        ("old", pa.list_(pa.string())),
        ("new", pa.list_(pa.string())),
    ]
)
"""One row for each key: its object before and now, as a text of the identifying columns, null if one of
them is NULL; whether documents can have the key; and all values before and now, null for a key without a
row."""

IDENTITY_COLUMNS = ("was", "now", "existed", "exists", "is_writable")
"""The columns that decide which rows are one object."""

CHANGE_SCHEMA = DIFFERENCE_SCHEMA.append(pa.field("records", pa.int32()))
"""Differences with their numbers of records: the changes of one key may be several, or none for a row."""


def find_candidates(
    columns: Sequence[str],
    by: Sequence[str],
    rows: TableRows,
    known: KnownRows,
    differences: pa.RecordBatch,
) -> pa.RecordBatch:
    """Lists the rows of a bucket that may have got another key; ``known`` holds values."""
    is_change = differences.column("event_type").is_valid()
    keys = differences.column("key").filter(is_change)
    before, after = pc.index_in(keys, known.keys), pc.index_in(keys, rows.keys)
    places = [columns.index(name) for name in by]
    was, now = (
        join_key(by, [quote_values(contents[place].take(at)) for place in places])
        for contents, at in ((known.contents, before), (rows.values, after))
    )
    arrays = [
        was,
        now,
        before.is_valid(),
        after.is_valid(),
        pc.invert(pc.match_substring_regex(keys, FORBIDDEN_RE2)),
        differences.column("hash").filter(is_change),
        keys,
        _list_values(known.contents, before),
        _list_values(rows.values, after),
    ]
    candidates = pa.RecordBatch.from_arrays(arrays, schema=CANDIDATE_SCHEMA)
    return candidates.filter(pa.array(differ(was, now)))


def _list_values(values: Sequence[pa.Array], places: pa.Array) -> pa.ListArray:
    """Returns the values of some rows, one list for each; null for a null place."""
    taken = [column.take(places) for column in values]
    count, width = len(places), len(values)
    order = np.arange(count * width).reshape(width, count).T.ravel()
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    flat = pa.concat_arrays(taken).take(pa.array(order))
    return pa.ListArray.from_arrays(offsets, flat, mask=places.is_null())


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


def _find_targets(identities: pa.Table) -> Places:
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


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The changes of objects with changed keys, as a batch of ``CHANGE_SCHEMA``."""

    changes: pa.RecordBatch
    deleted: int
    """Number of deleted objects, less the rows that only seemed to be deleted."""


def build_changes(
    columns: Sequence[str],
    multiple: Collection[str],
    candidates: pa.RecordBatch,
    chains: Sequence[Sequence[int]],
) -> KeyChanges:
    """Builds the changes of chains, which are rows of ``candidates``.

    The object with the newest key moves first, after the delete of another object that had this key; an
    object that now has the oldest key is inserted last.
    """
    existed, exists = (candidates.column(name).to_pylist() for name in ("existed", "exists"))
    steps = np.array([step for c in chains for step in _steps(c, existed, exists)], np.int64)
    before, now = steps.T
    changes = _ChainChanges(columns, multiple, candidates)
    changes.delete(np.flatnonzero(now < 0), before)
    changes.insert(np.flatnonzero(before < 0), now)
    changes.move(np.flatnonzero((before >= 0) & (now >= 0)), before, now)
    gone = sum(not exists[chain[0]] for chain in chains)
    return KeyChanges(changes.to_batch(), int((now < 0).sum()) - gone)


class _ChainChanges:
    """Collects the changes of chains with the numbers of their steps.

    Each row that was read, and each key that no longer has a row, is one record, as without changed keys."""

    def __init__(
        self, columns: Sequence[str], multiple: Collection[str], candidates: pa.RecordBatch
    ) -> None:
        self._exists = candidates.column("exists").to_numpy(zero_copy_only=False)
        self._old, self._new = (
            TableRows(
                candidates.column("hash").to_numpy(),
                candidates.column("key"),
                [pc.list_element(candidates.column(name), n) for n in range(len(columns))],
            )
            for name in ("old", "new")
        )
        self._differences = Differences(columns, multiple)
        self._order: list[Places] = []
        self._records: list[Places] = []

    def delete(self, steps: Places, rows: Places) -> None:
        """Adds deletes of objects whose key another object has now: the row is the record of that object."""
        deleted = self._old.take(rows[steps])
        self._differences.add_deleted(deleted.hashes, deleted.keys)
        self._count(2 * steps, np.zeros(len(steps), np.int64))

    def insert(self, steps: Places, rows: Places) -> None:
        """Adds new objects with a key that another object had."""
        self._differences.add_new(self._new.take(rows[steps]), replace=False)
        self._count(2 * steps, np.ones(len(steps), np.int64))

    def move(self, steps: Places, before: Places, now: Places) -> None:
        """Adds changes of keys, and then of the other values that differ."""
        old, new = self._old.take(before[steps]), self._new.take(now[steps])
        pairs = zip(old.values, new.values, strict=True)
        differs = np.stack([differ(one, other) for one, other in pairs], axis=1)
        changed = np.flatnonzero(differs.any(axis=1))
        self._differences.add_key_changes(old.hashes, old.keys, new.keys)
        records = (~self._exists[before[steps]]).astype(np.int64) + 1
        records[changed] -= 1
        self._count(2 * steps, records)
        values = old.take(changed).values
        self._differences.add_changed(new.take(changed), differs[changed], values)
        self._count(2 * steps[changed] + 1, np.ones(len(changed), np.int64))

    def to_batch(self) -> pa.RecordBatch:
        """Returns all changes in the order of their steps."""
        pieces = pa.concat_batches(self._differences.pieces)
        records = pa.array(np.concatenate(self._records), pa.int32())
        batch = pa.RecordBatch.from_arrays([*pieces.columns, records], schema=CHANGE_SCHEMA)
        return batch.take(pa.array(np.argsort(np.concatenate(self._order))))

    def _count(self, order: Places, records: Places) -> None:
        self._order.append(order)
        self._records.append(records)
