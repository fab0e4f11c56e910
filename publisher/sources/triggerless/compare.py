"""The comparison itself: rows as they are now with what was known of them.  Pure.

A part of a table fits into memory; both sides are sorted by the hash of the key, so that they are
brought together by binary search, and whole columns are compared at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import InternalError
from publisher.sources.triggerless.differences import Found, Mask, Places, Rows
from publisher.sources.triggerless.hashing import Hashes, joined_hashes, text_hashes
from publisher.sources.triggerless.options import Keeps

First = Literal["add", "replace", "nothing"]
"""What rows that are not known give: an insert, an update that replaces all values, nothing."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of rows, sorted by hash and key: hashes of columns, of rows, or values."""

    hashes: Hashes
    keys: pa.Array
    kept: Sequence[Hashes] | Sequence[pa.Array]
    """By compared column; of ``row`` one for all."""

    def __len__(self) -> int:
        return len(self.hashes)


class Counts(NamedTuple):
    """What a comparison met, in rows.  The first six add up to the rows read."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    baseline: int = 0
    """Not known before, and not to be published."""
    doubled: int = 0
    """The same row once more."""
    rejected: int = 0
    vanished: int = 0
    left: int = 0
    """Known, not seen, and not said to be gone."""
    alike: int = 0
    """Known rows whose values are the same in all columns that were known."""

    def __add__(self, other: object) -> Counts:
        assert isinstance(other, Counts)
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def read(self) -> int:
        """Rows that were read."""
        return sum(self[:6])

    @property
    def known(self) -> int:
        """Rows that were known before, unless they were migrated."""
        return self.changed + self.unchanged + self.vanished + self.left


@dataclass(frozen=True, slots=True)
class Rules:
    """How to compare."""

    keeps: Keeps = "columns"
    first: First = "add"
    deletes: bool = True
    """Whether rows that are not seen are gone."""
    all_anew: bool = False
    """Whether rows give what new ones give although they are known (``migrate``)."""
    known_columns: tuple[str, ...] | None = None
    """The columns of which something is known; ``None``: all."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Changes by hash of their keys, what is known now, and counts."""

    found: pa.RecordBatch
    known: Known
    counts: Counts


def compare(columns: Sequence[str], rows: Rows, known: Known, rules: Rules) -> Compared:
    """What has become of the known rows.  ``columns`` are the names of the compared columns.

    Rows that share a key are no rows to compare: the same row once more is left out, rows that differ
    are rejected, and what is known of their key stays.  Raises ``InternalError`` unless everything that
    went in has come out.
    """
    found, count = Found(columns), len(rows)
    rows, doubled, rejected = _without_doubles(rows.take(_order(rows)), found)
    matches = _matches(rows, known)
    seen = np.zeros(len(known), bool)
    seen[matches[matches >= 0]] = True
    lost = _lost(known, seen, rejected)
    fresh = (matches < 0) | rules.all_anew
    now = _kept(rows, rules.keeps)
    differs = _differing(rows, known, now, matches, ~fresh, rules.keeps, len(columns))
    changed = ~fresh & differs.any(axis=1)
    emitted = fresh & (rules.first != "nothing")
    found.fresh(rows.take(np.flatnonzero(emitted)), replace=rules.first == "replace")
    which = np.flatnonzero(changed)
    old = _values(known, matches[which]) if rules.keeps == "values" else None
    found.changed(rows.take(which), differs[which], old)
    gone = np.flatnonzero(lost) if rules.deletes else np.zeros(0, np.int64)
    found.gone(known.hashes[gone], known.keys.take(pa.array(gone)))
    stays = ~seen
    stays[gone] = False
    counts = Counts(
        added=int(emitted.sum()),
        changed=int(changed.sum()),
        unchanged=int((~fresh & ~changed).sum()),
        baseline=int((fresh & ~emitted).sum()),
        doubled=doubled,
        rejected=sum(rejected.values()),
        vanished=len(gone),
        left=int(stays.sum()),
        alike=_alike(columns, differs, ~fresh, rules.known_columns),
    )
    _check(counts, count, int(seen.sum()), len(known))
    return Compared(found.sorted(), _together(rows, now, known, np.flatnonzero(stays)), counts)


def nothing_known(keeps: Keeps, columns: int) -> Known:
    """What is known where nothing is."""
    empty = np.zeros(0, np.uint64)
    if keeps == "values":
        return Known(empty, pa.array([], pa.string()), [pa.array([], pa.string())] * columns)
    return Known(empty, pa.array([], pa.string()), [empty] * (1 if keeps == "row" else columns))


def _order(rows: Rows) -> Places:
    """By hash, rows of one hash by key."""
    order = np.argsort(rows.hashes, kind="stable")
    hashes = rows.hashes[order]
    same = np.flatnonzero(hashes[1:] == hashes[:-1])
    if len(same):
        members = np.unique(np.concatenate([same, same + 1]))
        part = order[members]
        which = pa.array(part)
        columns = {"hash": pa.array(rows.hashes[part]), "key": rows.keys.take(which)}
        columns |= {f"v{n}": v.take(which) for n, v in enumerate(rows.values)}
        by = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])
        order[members] = part[by.to_numpy()]
    return order


def _without_doubles(rows: Rows, found: Found) -> tuple[Rows, int, dict[str, int]]:
    """The rows whose key is theirs alone; how many were there once more, and by key those rejected."""
    alike = rows.hashes[1:] == rows.hashes[:-1]
    if alike.any():
        others = rows.keys.slice(0, len(rows) - 1)
        alike &= pc.equal(rows.keys.slice(1), others).to_numpy(zero_copy_only=False)
    if not alike.any():
        return rows, 0, {}
    starts = np.flatnonzero(~np.concatenate([[False], alike]))
    ends = np.append(starts[1:], len(rows))
    several = np.flatnonzero(ends - starts > 1)
    keep = np.ones(len(rows), bool)
    doubled: list[int] = []
    rejected: dict[str, int] = {}
    for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
        first = found.record(rows, start)
        same = all(found.record(rows, row) == first for row in range(start + 1, end))
        keep[start + same : end] = False
        if same:
            doubled += range(start + 1, end)
        else:
            rejected[first["key"]] = end - start  # type: ignore[index]
    found.once_more(rows.take(np.array(doubled, np.int64)))
    left_out = ~keep
    left_out[doubled] = False
    found.not_alone(rows.take(np.flatnonzero(left_out)))
    return rows.take(np.flatnonzero(keep)), len(doubled), rejected


def _matches(rows: Rows, known: Known) -> Places:
    """Place in ``known`` of each row, -1 where it is not there."""
    places = np.searchsorted(known.hashes, rows.hashes)
    inside = np.minimum(places, max(len(known) - 1, 0))
    found = np.full(len(rows), -1, np.int64)
    if not len(known) or not len(rows):
        return found
    hit = np.flatnonzero(known.hashes[inside] == rows.hashes)
    places = inside[hit]
    theirs = known.keys.take(pa.array(places))
    same = pc.equal(theirs, rows.keys.take(pa.array(hit))).to_numpy(zero_copy_only=False)
    found[hit[same]] = places[same]
    # different keys of one hash lie side by side
    for row, place in zip(hit[~same].tolist(), places[~same].tolist(), strict=True):
        key, at = rows.keys[row], place + 1
        while at < len(known) and known.hashes[at] == rows.hashes[row]:
            if known.keys[at] == key:
                found[row] = at
            at += 1
    return found


def _lost(known: Known, seen: Mask, rejected: dict[str, int]) -> Mask:
    """Known rows that are not there any more; of a key with rejected rows that is not known."""
    lost = ~seen
    if rejected:
        names = pa.array(list(rejected), pa.string())
        lost &= ~pc.is_in(known.keys, names).to_numpy(zero_copy_only=False)
    return lost


def _kept(rows: Rows, keeps: Keeps) -> Sequence[Hashes] | Sequence[pa.Array]:
    """What is to be known of the rows."""
    if keeps == "values":
        return rows.values
    hashes = [text_hashes(values) for values in rows.values]
    return hashes if keeps == "columns" else [joined_hashes(hashes, len(rows))]


def _differing(
    rows: Rows,
    known: Known,
    now: Sequence[Hashes] | Sequence[pa.Array],
    matches: Places,
    asked: Mask,
    keeps: Keeps,
    width: int,
) -> Mask:
    """Which columns of which rows are not what they were; of rows that are not asked about none."""
    differs = np.zeros((len(rows), width), bool)
    which = np.flatnonzero(asked)
    before = matches[which]
    if not len(which) or not width:
        return differs
    if keeps == "values":
        ours, theirs = pa.array(which), pa.array(before)
        for place, (new, old) in enumerate(zip(now, known.kept, strict=True)):
            differs[which, place] = _unlike(new.take(ours), old.take(theirs))
    elif keeps == "row":
        differs[which] = (now[0][which] != known.kept[0][before])[:, np.newaxis]
    else:
        for place, (new, old) in enumerate(zip(now, known.kept, strict=True)):
            differs[which, place] = new[which] != old[before]
    return differs


def _alike(
    columns: Sequence[str], differs: Mask, known: Mask, known_columns: Sequence[str] | None
) -> int:
    """Known rows that differ in none of the columns that were known; a new column differs in all rows."""
    old = np.array([known_columns is None or name in known_columns for name in columns], bool)
    return int((known & ~differs[:, old].any(axis=1)).sum())


def _unlike(one: pa.Array, other: pa.Array) -> Mask:
    """Where two columns hold different values; NULL differs from every value."""
    same = pc.fill_null(pc.equal(one, other), False)
    same = pc.or_(same, pc.and_(one.is_null(), other.is_null()))
    found: Mask = ~same.to_numpy(zero_copy_only=False)
    return found


def _values(known: Known, places: Places) -> list[pa.Array]:
    return [values.take(pa.array(places)) for values in known.kept]


def _together(
    rows: Rows, now: Sequence[Hashes] | Sequence[pa.Array], known: Known, stays: Places
) -> Known:
    """What is known now: of the rows, and of those that stay without being seen."""
    if not len(stays):
        return Known(rows.hashes, rows.keys, now)
    which = pa.array(stays)
    hashes = np.concatenate([rows.hashes, known.hashes[stays]])
    keys = pa.concat_arrays([rows.keys, known.keys.take(which)])
    table = pa.table({"hash": hashes, "key": keys})
    order = pc.sort_indices(table, [("hash", "ascending"), ("key", "ascending")]).to_numpy()
    kept = []
    for new, old in zip(now, known.kept, strict=True):
        if isinstance(new, pa.Array):
            kept.append(pa.concat_arrays([new, old.take(which)]).take(pa.array(order)))
        else:
            kept.append(np.concatenate([new, old[stays]])[order])
    return Known(hashes[order], keys.take(pa.array(order)), kept)


def _check(counts: Counts, rows: int, seen: int, known: int) -> None:
    """Every row has an outcome, and so has everything that was known."""
    if counts.read != rows or seen + counts.vanished + counts.left != known:
        raise InternalError(
            f"{rows} rows were compared with {known}, which does not fit {counts}: nothing was published;"
            " run again, and report this if it stays so"
        )
