"""Relates the rows of a table to those of its last comparison: a full outer join by key, as a pure function.

All rows of a partition are sorted by the hash of their key and the key.  Rows of one key are neighbours then:
the row as it was read last, the row that consumers have, if its last change was not published, and the rows
that were read now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import InternalError
from publisher.formats.columns.row_images import Matrix, begins_text, differ
from publisher.formats.triggerless.differences import Differences, TableRows
from publisher.formats.triggerless.hashing import NULL, text_hashes
from publisher.formats.triggerless.options import Keeps
from publisher.model.arrays import (
    NO_ROWS,
    BoolArray,
    Int64Array,
    begins_island,
)

First = Literal["add", "replace", "nothing"]
"""The change for an unknown row: an insert, an update that replaces all values, or none."""


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """The rules of a comparison."""

    keeps: Keeps = "columns"
    first: First = "add"
    deletes: bool = True
    """Known rows that were not read are published as deletes."""
    all_as_new: bool = False
    """Known rows count as new (``migrate``)."""
    multiple: frozenset[str] = frozenset()
    """Columns with any number of values, see ``multi_values``."""
    is_view: bool = False
    """Several rows with one key have several values in a single-valued column."""
    unknown: frozenset[str] = frozenset()
    """Columns whose current values are incomplete, because rows are unreadable: the values of known rows
    are kept."""


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The rows that a comparison left, with the contents that a state keeps: hashes of columns, or values."""

    rows: TableRows
    """Rows as they were read."""
    published: TableRows
    """Rows as consumers have them, for keys whose last change was not published."""
    exists: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))
    """For each published row, false if consumers have no such object."""
    is_quiet: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))
    """For each published row, true if a comparison may pass over the row as long as it stays as it was
    read."""


class ComparisonCounts(NamedTuple):
    """Row counts of a comparison.  The first six add up to the number of rows read."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    baseline: int = 0
    """New rows that are stored but not published (``future``)."""
    doubled: int = 0
    """Exact repetitions of a row."""
    rejected: int = 0
    vanished: int = 0
    left: int = 0
    """Known rows that were not read and are not reported as deleted."""

    def __add__(self, other: object) -> ComparisonCounts:
        assert isinstance(other, ComparisonCounts)
        return ComparisonCounts(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def read(self) -> int:
        """Number of rows read."""
        return sum(self[:6])

    @property
    def known(self) -> int:
        """Number of rows known before; migrated rows do not count."""
        return self.changed + self.unchanged + self.vanished + self.left


class EmptiedCounts(NamedTuple):
    """Counts of rows that were read and known with values of a multi-valued column."""

    emptied: int = 0
    """Rows that have no values now."""
    known: int = 0

    def __add__(self, other: object) -> EmptiedCounts:
        assert isinstance(other, EmptiedCounts)
        return EmptiedCounts(self.emptied + other.emptied, self.known + other.known)


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """The ends of all rows.  Keys have numbers in the order of their hashes and texts."""

    now: TableRows
    known: TableRows
    """The known rows of both kinds, with the contents that the state keeps."""
    now_row: Int64Array
    """By key: its row in ``now``; -1 without one."""
    known_row: Int64Array
    """By key: the row in ``known`` that consumers have; -1 without one."""
    new: Int64Array
    """Keys whose rows are published as new."""
    changed: Int64Array
    """Keys whose rows have changed."""
    differs: Matrix
    """The changed columns of each of them."""
    gone: Int64Array
    """Keys whose rows are published as deleted."""
    doubled: Int64Array
    """Rows of ``now`` that repeat another one."""
    conflicting: Int64Array
    """Rows of ``now`` that share a key and differ."""
    next: KnownRows
    """The rows that the next comparison knows."""
    counts: ComparisonCounts
    emptied: Mapping[str, EmptiedCounts]
    """By multi-valued column."""


def relate(
    columns: Sequence[str], now: TableRows, known: KnownRows, rules: ComparisonRules
) -> RelatedRows:
    """Gives every row its end; ``columns`` are the names of the compared columns.

    Of rows that share a key, exact repetitions are ignored; if the rows differ, all are rejected, and the
    known row of the key stays.  Raises ``InternalError`` unless every row has an end.
    """
    contents = contents_to_keep(now.values, rules.keeps)
    before = TableRows.concat([known.rows, known.published])
    (of_read, of_published, of_now), count = _number_keys([known.rows, known.published, now])
    read, published, first = (_row_of_each(n, count) for n in (of_read, of_published, of_now))

    # a row whose last change was not published is compared with the row that consumers have, once it differs
    # from the row as it was read
    is_marked = published >= 0
    is_same = (read < 0) == (first < 0)
    both = np.flatnonzero(is_marked & (read >= 0) & (first >= 0))
    is_same[both] = ~_differing(contents, first[both], before.values, read[both]).any(axis=1)
    is_passed = is_marked & (_at_keys(of_published, known.is_quiet, count) & is_same)
    if not rules.deletes:
        is_passed |= is_marked & (first < 0)
    published_row = np.where(
        _at_keys(of_published, known.exists, count), published + len(known.rows), -1
    )
    known_row = np.where(is_marked & ~is_passed, published_row, read)

    # rows with one key: repetitions of the first, or rows in conflict
    shared = np.flatnonzero(np.bincount(of_now, minlength=count)[of_now] > 1)
    is_other = _differing(now.values, shared, now.values, first[of_now[shared]]).any(axis=1)
    has_conflict = np.zeros(count, np.bool_)
    has_conflict[of_now[shared[is_other]]] = True
    conflicting = shared[has_conflict[of_now[shared]]]
    doubled = shared[~has_conflict[of_now[shared]] & (first[of_now[shared]] != shared)]
    now_row = np.where(has_conflict, -1, first)

    # new, changed and missing rows
    is_here, was_known = now_row >= 0, known_row >= 0
    is_new = is_here & (rules.all_as_new | ~was_known)
    compared = np.flatnonzero(is_here & ~is_new)
    differs = _differing(contents, now_row[compared], before.values, known_row[compared])
    unknown = np.array([name in rules.unknown for name in columns], np.bool_)
    differs[:, unknown] = False
    is_changed = differs.any(axis=1)
    is_gone = was_known & (first < 0) & rules.deletes
    stays = was_known & ~is_here & ~is_gone
    new = np.flatnonzero(is_new)
    counts = ComparisonCounts(
        added=len(new) if rules.first != "nothing" else 0,
        changed=int(is_changed.sum()),
        unchanged=int((~is_changed).sum()),
        baseline=len(new) if rules.first == "nothing" else 0,
        doubled=len(doubled),
        rejected=len(conflicting),
        vanished=int(is_gone.sum()),
        left=int(stays.sum()),
    )
    known_count = int(was_known.sum()) - int((is_new & was_known).sum())
    if counts.read != len(now) or counts.known != known_count:
        raise InternalError(
            f"{len(now)} rows were compared with {known_count} known rows, which does not agree with"
            f" {counts}: nothing was published; run again, and report this if it happens again"
        )

    # the next state: rows as they were read, known rows that stay, and rows as consumers have them
    kept = np.flatnonzero(is_passed & ~(rules.all_as_new & (first >= 0)))
    rows = np.where(is_here, now_row + len(before), known_row)
    known_only = np.where(was_known, known_row, rows)
    keys = np.flatnonzero(is_here | stays)
    next_rows = TableRows(
        np.concatenate([before.hashes, now.hashes])[rows[keys]],
        pa.concat_arrays([before.keys, now.keys]).take(pa.array(rows[keys])),
        [
            pa.concat_arrays([old, new]).take(pa.array((known_only if u else rows)[keys]))
            for old, new, u in zip(before.values, contents, unknown, strict=True)
        ],
    )
    at = published[kept]
    return RelatedRows(
        now,
        before,
        now_row,
        known_row,
        new if rules.first != "nothing" else NO_ROWS,
        compared[is_changed],
        differs[is_changed],
        np.flatnonzero(is_gone),
        doubled,
        conflicting,
        KnownRows(next_rows, known.published.take(at), known.exists[at], known.is_quiet[at]),
        counts,
        {
            name: _count_losses(
                now.values[n].take(pa.array(now_row[compared])),
                before.values[n].take(pa.array(known_row[compared])),
                differs[:, n],
            )
            for n, name in enumerate(columns)
            if name in rules.multiple
        },
    )


def changes(
    columns: Sequence[str], relation: RelatedRows, rules: ComparisonRules
) -> pa.RecordBatch:
    """Returns the changes of related rows, and the ignored and rejected rows, in the order of keys."""
    now, known = relation.now, relation.known
    differences = Differences(columns, rules.multiple, rules.is_view)
    differences.add_duplicates(now.take(relation.doubled))
    differences.add_conflicting(now.take(relation.conflicting))
    new = now.take(relation.now_row[relation.new])
    differences.add_new(new, replace=rules.first == "replace")
    changed = relation.changed
    old = known.take(relation.known_row[changed]).values if rules.keeps == "values" else None
    differences.add_changed(now.take(relation.now_row[changed]), relation.differs, old)
    gone = known.take(relation.known_row[relation.gone])
    differences.add_deleted(gone.hashes, gone.keys)
    return differences.to_batch()


def no_known_rows(keeps: Keeps, columns: int) -> KnownRows:
    """Returns the rows that are known before the first comparison."""
    empty = pa.array([], pa.string())
    contents = contents_to_keep([empty] * columns, keeps)
    rows = TableRows(np.zeros(0, np.uint64), empty, contents)
    return KnownRows(rows, rows)


def contents_to_keep(values: Sequence[pa.Array], keeps: Keeps) -> Sequence[pa.Array]:
    """Returns what a state keeps of columns: the values, or their hashes; NULL stays null."""
    if keeps == "values":
        return values
    hashes = map(text_hashes, values)
    return [pa.array(column, mask=column == NULL) for column in hashes]


def _number_keys(sides: Sequence[TableRows]) -> tuple[list[Int64Array], int]:
    """Numbers the keys of several tables in the order of their hashes and texts; the numbers of the rows of
    each table, and the number of keys."""
    hashes = np.concatenate([side.hashes for side in sides])
    keys = pa.concat_arrays([side.keys for side in sides])
    order = np.argsort(hashes, kind="stable")
    begins = begins_island(hashes[order])
    is_other = begins_text(keys.take(pa.array(order)))
    if (is_other & ~begins).any():  # several keys have one hash
        table = pa.table({"hash": hashes, "key": keys})
        by = [("hash", "ascending"), ("key", "ascending")]
        order = pc.sort_indices(table, by).to_numpy()
        is_other = begins_text(keys.take(pa.array(order)))
    begins |= is_other
    numbers = np.empty(len(hashes), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    bounds = np.cumsum([len(side) for side in sides])[:-1]
    return np.split(numbers, bounds), int(begins.sum())


def _row_of_each(numbers: Int64Array, count: int) -> Int64Array:
    """The first row of each of ``count`` keys, given the key of each row; -1 for a key without a row."""
    rows = np.full(count, -1)
    # of several rows of a key the last assignment counts: the first row
    rows[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return rows


def _at_keys(numbers: Int64Array, flags: BoolArray, count: int) -> BoolArray:
    """Gives each of ``count`` keys the flag of its row; false without one."""
    by_key = np.zeros(count, np.bool_)
    by_key[numbers] = flags
    return by_key


def _differing(
    left: Sequence[pa.Array], rows: Int64Array, right: Sequence[pa.Array], others: Int64Array
) -> Matrix:
    """Compares pairs of rows; marks the columns that differ."""
    differs = np.zeros((len(rows), len(left)), np.bool_)
    one, other = pa.array(rows), pa.array(others)
    for number, (new, old) in enumerate(zip(left, right, strict=True)):
        differs[:, number] = differ(new.take(one), old.take(other))
    return differs


def _count_losses(now: pa.Array, known: pa.Array, differs: BoolArray) -> EmptiedCounts:
    """Counts the known rows that have lost all values of a multi-valued column."""
    is_empty = now.is_null().to_numpy(zero_copy_only=False)
    return EmptiedCounts(int((differs & is_empty).sum()), len(known) - known.null_count)
