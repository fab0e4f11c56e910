"""Compares current rows with known rows, as a pure function.

A bucket of a table fits into memory.  Both sides are sorted by the hash of the key, so that binary search
matches them, and whole columns are compared at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import InternalError
from publisher.sources.columns.row_images import Mask, differ
from publisher.sources.triggerless.differences import Differences, Places, TableRows
from publisher.sources.triggerless.hashing import NULL, Hashes, text_hashes
from publisher.sources.triggerless.options import Keeps

First = Literal["add", "replace", "nothing"]
"""The change for an unknown row: an insert, an update that replaces all values, or none."""


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The known rows of a bucket, sorted by hash and key: hashes of columns, or values."""

    hashes: Hashes
    keys: pa.Array
    contents: Sequence[Hashes] | Sequence[pa.Array]
    """One entry per compared column."""

    def __len__(self) -> int:
        return len(self.hashes)


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


class EmptiedCounts(NamedTuple):
    """Counts of rows that were read and known with values of a multi-valued column."""

    emptied: int
    """Rows that have no values now."""
    known: int

    def __add__(self, other: object) -> EmptiedCounts:
        assert isinstance(other, EmptiedCounts)
        return EmptiedCounts(self.emptied + other.emptied, self.known + other.known)


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The differences in the order of key hashes, the known rows for the next state, and counts."""

    differences: pa.RecordBatch
    known: KnownRows
    counts: ComparisonCounts
    emptied: Mapping[str, EmptiedCounts]
    """By multi-valued column."""


def compare(
    columns: Sequence[str], rows: TableRows, known: KnownRows, rules: ComparisonRules
) -> ComparisonResult:
    """Compares rows with the known rows; ``columns`` are the names of the compared columns.

    Of rows that share a key, exact repetitions are ignored; if the rows differ, all are rejected, and the
    known row of the key stays.  Raises ``InternalError`` unless every row has an outcome.
    """
    differences, count = Differences(columns, rules.multiple, rules.is_view), len(rows)
    rows, doubled, rejected = _remove_duplicates(rows.take(_order(rows)), differences)
    matches = _matches(rows, known)
    seen = np.isin(np.arange(len(known)), matches)
    missing = _find_missing(known, seen, rejected)
    new = (matches < 0) | rules.all_as_new
    contents, differs = _find_differences(columns, rows, known, matches, ~new, rules)
    changed = ~new & differs.any(axis=1)
    published = new & (rules.first != "nothing")
    differences.add_new(rows.take(np.flatnonzero(published)), replace=rules.first == "replace")
    changed_rows = np.flatnonzero(changed)
    old = _values(known, matches[changed_rows]) if rules.keeps == "values" else None
    differences.add_changed(rows.take(changed_rows), differs[changed_rows], old)
    deleted = np.flatnonzero(missing) if rules.deletes else np.zeros(0, np.int64)
    differences.add_deleted(known.hashes[deleted], known.keys.take(pa.array(deleted)))
    is_left = ~seen
    is_left[deleted] = False
    counts = ComparisonCounts(
        added=int(published.sum()),
        changed=int(changed.sum()),
        unchanged=int((~new & ~changed).sum()),
        baseline=int((new & ~published).sum()),
        doubled=doubled,
        rejected=sum(rejected.values()),
        vanished=len(deleted),
        left=int(is_left.sum()),
    )
    _check(counts, count, int(seen.sum()), len(known))
    emptied = _count_lost_values(columns, rows, known, matches, differs, rules)
    known = _next_rows(rows, contents, known, np.flatnonzero(is_left))
    return ComparisonResult(differences.to_batch(), known, counts, emptied)


def no_known_rows(keeps: Keeps, columns: int) -> KnownRows:
    """Returns the empty state before the first comparison."""
    empty = np.zeros(0, np.uint64)
    if keeps == "values":
        return KnownRows(empty, pa.array([], pa.string()), [pa.array([], pa.string())] * columns)
    return KnownRows(empty, pa.array([], pa.string()), [empty] * columns)


def _order(rows: TableRows) -> Places:
    """Sorts by hash, and rows with the same hash by key and values."""
    order = np.argsort(rows.hashes, kind="stable")
    hashes = rows.hashes[order]
    twins = np.flatnonzero(hashes[1:] == hashes[:-1])
    if len(twins):
        members = np.unique(np.concatenate([twins, twins + 1]))
        hash_twins = order[members]
        which = pa.array(hash_twins)
        columns = {"hash": pa.array(rows.hashes[hash_twins]), "key": rows.keys.take(which)}
        columns |= {f"v{n}": v.take(which) for n, v in enumerate(rows.values)}
        sorted_twins = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])
        order[members] = hash_twins[sorted_twins.to_numpy()]
    return order


def _remove_duplicates(
    rows: TableRows, differences: Differences
) -> tuple[TableRows, int, dict[str, int]]:
    """Returns one row for each key, the number of exact repetitions, and numbers of rejected rows by key."""
    repeats_key = rows.hashes[1:] == rows.hashes[:-1]
    if repeats_key.any():
        others = rows.keys.slice(0, len(rows) - 1)
        repeats_key &= pc.equal(rows.keys.slice(1), others).to_numpy(zero_copy_only=False)
    if not repeats_key.any():
        return rows, 0, {}
    starts = np.flatnonzero(~np.concatenate([[False], repeats_key]))
    ends = np.append(starts[1:], len(rows))
    groups = np.flatnonzero(ends - starts > 1)
    keep = np.ones(len(rows), bool)
    doubled: list[int] = []
    rejected: dict[str, int] = {}
    for start, end in zip(starts[groups].tolist(), ends[groups].tolist(), strict=True):
        first = differences.record(rows, start)
        are_equal = all(differences.record(rows, row) == first for row in range(start + 1, end))
        keep[start + are_equal : end] = False
        if are_equal:
            doubled += range(start + 1, end)
        else:
            rejected[first["key"]] = end - start  # type: ignore[index]
    differences.add_duplicates(rows.take(np.array(doubled, np.int64)))
    conflicting = ~keep
    conflicting[doubled] = False
    differences.add_conflicting(rows.take(np.flatnonzero(conflicting)))
    return rows.take(np.flatnonzero(keep)), len(doubled), rejected


def _matches(rows: TableRows, known: KnownRows) -> Places:
    """Finds the index of each row in ``known``, or -1."""
    places = np.searchsorted(known.hashes, rows.hashes)
    inside = np.minimum(places, max(len(known) - 1, 0))
    matches = np.full(len(rows), -1, np.int64)
    if not len(known) or not len(rows):
        return matches
    candidates = np.flatnonzero(known.hashes[inside] == rows.hashes)
    places = inside[candidates]
    known_keys = known.keys.take(pa.array(places))
    have_equal_keys = pc.equal(known_keys, rows.keys.take(pa.array(candidates))).to_numpy(
        zero_copy_only=False
    )
    matches[candidates[have_equal_keys]] = places[have_equal_keys]
    # different keys with the same hash are neighbours
    for row, place in zip(
        candidates[~have_equal_keys].tolist(), places[~have_equal_keys].tolist(), strict=True
    ):
        key, at = rows.keys[row], place + 1
        while at < len(known) and known.hashes[at] == rows.hashes[row]:
            if known.keys[at] == key:
                matches[row] = at
            at += 1
    return matches


def _find_missing(known: KnownRows, seen: Mask, rejected: dict[str, int]) -> Mask:
    """Finds known rows that were not read.  Rows with a rejected key are not missing: they may exist."""
    missing = ~seen
    if rejected:
        names = pa.array(list(rejected), pa.string())
        missing &= ~pc.is_in(known.keys, names).to_numpy(zero_copy_only=False)
    return missing


def _find_differences(
    columns: Sequence[str],
    rows: TableRows,
    known: KnownRows,
    matches: Places,
    chosen: Mask,
    rules: ComparisonRules,
) -> tuple[Sequence[Hashes] | Sequence[pa.Array], Mask]:
    """Returns the contents of rows for the next state, and a mask of changed columns of the chosen rows.

    Unknown columns keep the contents of known rows, and do not differ.
    """
    keeps = rules.keeps
    contents = contents_to_keep(rows, keeps)
    differs = _compare_contents(rows, known, contents, matches, chosen, keeps, len(columns))
    if rules.unknown:
        unknown = np.array([name in rules.unknown for name in columns])
        differs[:, unknown] = False
        contents = _with_known_contents(contents, known, matches, unknown)
    return contents, differs


def contents_to_keep(rows: TableRows, keeps: Keeps) -> Sequence[Hashes] | Sequence[pa.Array]:
    """Returns the contents of rows that the state stores."""
    if keeps == "values":
        return rows.values
    return [text_hashes(values) for values in rows.values]


def _compare_contents(
    rows: TableRows,
    known: KnownRows,
    contents: Sequence[Hashes] | Sequence[pa.Array],
    matches: Places,
    chosen: Mask,
    keeps: Keeps,
    width: int,
) -> Mask:
    """Returns a mask of changed columns for each row; only the chosen rows are compared."""
    differs = np.zeros((len(rows), width), bool)
    which = np.flatnonzero(chosen)
    before = matches[which]
    if not len(which) or not width:
        return differs
    if keeps == "values":
        current, earlier = pa.array(which), pa.array(before)
        for place, (new, old) in enumerate(zip(contents, known.contents, strict=True)):
            differs[which, place] = differ(new.take(current), old.take(earlier))
    else:
        for place, (new, old) in enumerate(zip(contents, known.contents, strict=True)):
            differs[which, place] = new[which] != old[before]
    return differs


def _with_known_contents(
    contents: Sequence[Hashes] | Sequence[pa.Array], known: KnownRows, matches: Places, which: Mask
) -> Sequence[Hashes] | Sequence[pa.Array]:
    """Returns the contents with those of the known rows in some columns."""
    are_known = np.flatnonzero(matches >= 0)
    kept: list[Any] = list(contents)
    for place in np.flatnonzero(which).tolist():
        index = np.arange(len(matches))
        index[are_known] = matches[are_known] + len(matches)
        both = [kept[place], known.contents[place]]
        if isinstance(kept[place], pa.Array):
            kept[place] = pa.concat_arrays(both).take(pa.array(index))
        else:
            kept[place] = np.concatenate(both)[index]
    return kept


def _count_lost_values(
    columns: Sequence[str],
    rows: TableRows,
    known: KnownRows,
    matches: Places,
    differs: Mask,
    rules: ComparisonRules,
) -> dict[str, EmptiedCounts]:
    """Counts the known rows that have lost all values of a multi-valued column."""
    counts: dict[str, EmptiedCounts] = {}
    for place, name in enumerate(columns):
        if name in rules.multiple:
            content = known.contents[place]
            had_values = content != NULL
            if isinstance(content, pa.Array):
                had_values = content.is_valid().to_numpy(zero_copy_only=False)
            is_empty = rows.values[place].is_null().to_numpy(zero_copy_only=False)
            emptied = int((differs[:, place] & is_empty).sum())
            counts[name] = EmptiedCounts(emptied, int(had_values[matches[matches >= 0]].sum()))
    return counts


def _values(known: KnownRows, places: Places) -> list[pa.Array]:
    return [values.take(pa.array(places)) for values in known.contents]


def _next_rows(
    rows: TableRows,
    contents: Sequence[Hashes] | Sequence[pa.Array],
    known: KnownRows,
    left: Places,
) -> KnownRows:
    """Returns the known rows of the next state: the rows read, and known rows that stay."""
    if not len(left):
        return KnownRows(rows.hashes, rows.keys, contents)
    which = pa.array(left)
    hashes = np.concatenate([rows.hashes, known.hashes[left]])
    keys = pa.concat_arrays([rows.keys, known.keys.take(which)])
    table = pa.table({"hash": hashes, "key": keys})
    order = pc.sort_indices(table, [("hash", "ascending"), ("key", "ascending")]).to_numpy()
    merged = []
    for new, old in zip(contents, known.contents, strict=True):
        if isinstance(new, pa.Array):
            merged.append(pa.concat_arrays([new, old.take(which)]).take(pa.array(order)))
        else:
            merged.append(np.concatenate([new, old[left]])[order])
    return KnownRows(hashes[order], keys.take(pa.array(order)), merged)


def _check(counts: ComparisonCounts, rows: int, seen: int, known: int) -> None:
    """Raises ``InternalError`` unless every row and every known row has an outcome."""
    if counts.read != rows or seen + counts.vanished + counts.left != known:
        raise InternalError(
            f"{rows} rows were compared with {known} known rows, which does not agree with {counts}: nothing"
            " was published; run again, and report this if it happens again"
        )
