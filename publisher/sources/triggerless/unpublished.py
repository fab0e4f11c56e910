"""Rows whose changes were rejected or refused: consumers have them as they were before.

The state has such rows as they were read, so that a comparison that reads them again finds no difference.
Once a row differs from that, it is compared with the row that consumers have instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.ledger.durable import make_private, sync_folder, write_durably
from publisher.model.change import EventType
from publisher.model.keys import format_key, parse
from publisher.sources.columns.private_tables import read_table
from publisher.sources.triggerless.carry_over import (
    FOUND,
    KNOWN,
    MANIFEST,
    UNPUBLISHED,
    TriggerlessState,
    state_text,
)
from publisher.sources.triggerless.compare import (
    ComparisonRules,
    KnownRows,
    contents_to_keep,
    no_known_rows,
)
from publisher.sources.triggerless.comparison import KnownFiles, TableWork, UnpublishedKeys
from publisher.sources.triggerless.differences import TableRows
from publisher.sources.triggerless.hashing import text_hashes
from publisher.sources.triggerless.options import Keeps
from publisher.sources.triggerless.shuffle_pieces import bucket_of
from publisher.sources.triggerless.splits import FoundDifferences
from publisher.sources.triggerless.state_files import (
    read_known_rows,
    read_state_file,
    write_known_rows,
)


def unpublished_of(folder: Path, entry: Mapping[str, Any]) -> UnpublishedKeys | None:
    """Returns the unpublished keys of a table in a state; ``None`` if all changes were published."""
    plain = entry.get(UNPUBLISHED)
    return (
        None
        if plain is None
        else UnpublishedKeys(str(folder / KNOWN / plain["file"]), plain["keys"])
    )


def _unpublished_in(table: TableWork, bucket: int) -> UnpublishedKeys | None:
    """The unpublished keys of one bucket of a table."""
    if table.unpublished is None:
        return None
    keys = list(table.unpublished.keys)
    buckets = bucket_of(text_hashes(pa.array(keys, pa.string())), table.buckets)
    inside = [keys[place] for place in np.flatnonzero(buckets == bucket)]
    return replace(table.unpublished, keys={key: table.unpublished.keys[key] for key in inside})


class RowsToCompare(NamedTuple):
    """The known rows of a bucket as consumers have them, and the keys whose changes stay unpublished."""

    known: KnownRows
    unpublished: tuple[str, ...]


def restore_unpublished(
    rows: TableRows,
    known: KnownRows,
    table: TableWork,
    bucket: int,
    rules: ComparisonRules,
) -> RowsToCompare:
    """Replaces the known rows of unpublished keys of a bucket whose rows are no longer as they were read."""
    unpublished = _unpublished_in(table, bucket)
    if unpublished is None:
        return RowsToCompare(known, ())
    names = pa.array(list(unpublished.keys), pa.string())
    places = pc.index_in(names, rows.keys)
    present = places.drop_null()
    contents = contents_to_keep(rows.take(present.to_numpy().astype(np.int64)), rules.keeps)
    number = iter(range(len(present)))
    kept, restored = [], []
    for name, place, before in zip(
        unpublished.keys,
        places.to_pylist(),
        pc.index_in(names, known.keys).to_pylist(),
        strict=True,
    ):
        at = None if place is None else next(number)
        is_same = _is_same(contents, at, known.contents, before)
        if (at is None and not rules.deletes) or (unpublished.keys[name] and is_same):
            kept.append(name)
        else:
            restored.append(name)
    if rules.all_as_new:
        kept = [name for name in kept if name not in set(rows.keys.to_pylist())]
    if restored:
        rows_before = read_state_file(Path(unpublished.file), table.shape.columns, rules.keeps)
        known = _replace_rows(known, rows_before, restored)
    return RowsToCompare(known, tuple(kept))


def _is_same(now: Sequence[Any], at: int | None, known: Sequence[Any], before: int | None) -> bool:
    if at is None or before is None:
        return at is before
    return all(_plain(new[at]) == _plain(old[before]) for new, old in zip(now, known, strict=True))


def _plain(value: Any) -> object:
    return value.as_py() if isinstance(value, pa.Scalar) else value


def keep_unpublished(
    folder: Path, before: Path | None, rejected: Iterable[tuple[FoundDifferences, frozenset[int]]]
) -> None:
    """Adds rejected changes, by the numbers of their differences, to the state in a folder.

    ``before`` is the folder of the state before.  May be repeated after a crash.  The state of a repair has
    no tables: the next repair finds the differences again."""
    state = TriggerlessState.read(folder)
    if not state.tables:
        return
    old = TriggerlessState.read(before) if before is not None else None
    tables = dict(state.tables)
    for name, changes in _changes_by_table(folder, rejected).items():
        entry = tables[name]
        known = entry.get(UNPUBLISHED, {"keys": {}})["keys"]
        new = {key: change for key, change in changes.items() if key not in known}
        if new:
            origins = {key: change.origin for key, change in new.items()}
            quiet = {key: change.is_quiet for key, change in new.items()}
            rows = _published_rows(old, name, origins, entry["columns"], keeps_of(state))
            tables[name] = _replace_unpublished(state, name, new.keys(), rows, {**quiet, **known})
    sync_folder(folder / KNOWN)
    write_durably(folder / MANIFEST, state_text(replace(state, tables=tables)))


def _replace_unpublished(
    state: TriggerlessState,
    name: str,
    replaced: Collection[str],
    rows: KnownRows,
    keys: Mapping[str, bool],
) -> Mapping[str, Any]:
    """Replaces unpublished rows of a table by ``rows``, in a new file; returns the table's new entry.

    ``keys`` are those of all unpublished rows, as in ``UnpublishedKeys``."""
    entry = state.tables[name]
    old, number = unpublished_of(state.folder, entry), 1
    if old is not None:
        rows_before = read_state_file(Path(old.file), entry["columns"], keeps_of(state))
        rows = _replace_rows(rows_before, rows, list(replaced))
        number += int(Path(old.file).stem.rpartition("-")[2])
    place = list(state.tables).index(name)
    path = state.folder / KNOWN / f"{UNPUBLISHED}-{entry['generation']}-{place}-{number}.parquet"
    write_known_rows(path, rows, entry["columns"], keeps_of(state))
    make_private(path)
    return {**entry, UNPUBLISHED: {"keys": dict(keys), "file": path.name}}


class _RejectedChange(NamedTuple):
    """The key of a row before its rejected change, and whether a comparison may pass over the row."""

    origin: str
    is_quiet: bool


def _changes_by_table(
    folder: Path, rejected: Iterable[tuple[FoundDifferences, frozenset[int]]]
) -> dict[str, dict[str, _RejectedChange]]:
    """Finds the keys of rejected changes; both keys, if the key itself was to change."""
    changes: dict[str, dict[str, _RejectedChange]] = {}
    for found, numbers in rejected:
        of_table = changes.setdefault(found.source_name, {})
        renamed: dict[str, str] = {}
        for number, row in enumerate(_differences(folder, found), found.first):
            key, is_rejected = row["key"], number in numbers
            if row["event_type"] == EventType.KEY_CHANGE:
                new = dict(zip(row["columns"], row["new"], strict=True))
                after = format_key(
                    (part.column, new.get(part.column, part.value)) for part in parse(key)
                )
                renamed[after] = key
                if is_rejected:
                    for each in (key, after):
                        of_table[each] = _RejectedChange(each, is_quiet=False)
            elif is_rejected and row["event_type"] is not None and key not in of_table:
                of_table[key] = _RejectedChange(renamed.get(key, key), key not in renamed)
    return changes


def _differences(folder: Path, found: FoundDifferences) -> Iterator[dict[str, Any]]:
    for file in found.files:
        columns = ["key", "event_type", "columns", "new"]
        yield from read_table(folder / FOUND / file, columns).to_pylist()


def _published_rows(
    state: TriggerlessState | None,
    name: str,
    origins: Mapping[str, str],
    columns: Sequence[str],
    keeps: Keeps,
) -> KnownRows:
    """The rows of a table as consumers have them; ``origins`` has their keys in the state by their new keys.

    ``None`` is the state before the first comparison."""
    rows = no_known_rows(keeps, len(columns))
    entry = None if state is None else state.tables.get(name)
    if state is None or entry is None:
        return rows
    earlier = unpublished_of(state.folder, entry)
    unpublished = {key: old for key, old in origins.items() if earlier and old in earlier.keys}
    others = {key: old for key, old in origins.items() if key not in unpublished}
    files = KnownFiles(str(state.folder / KNOWN), tuple(entry["files"]), tuple(columns))
    hashes = text_hashes(pa.array(list(others.values()), pa.string()))
    for bucket in np.unique(bucket_of(hashes, len(files.files))).tolist():
        part = read_known_rows(files, bucket, len(files.files), columns, keeps)
        rows = _add_rows(rows, part, others)
    if earlier is not None and unpublished:
        part = read_state_file(Path(earlier.file), columns, keeps)
        rows = _add_rows(rows, part, unpublished)
    return rows


def _add_rows(rows: KnownRows, part: KnownRows, origins: Mapping[str, str]) -> KnownRows:
    """Adds rows of a part under other keys; ``origins`` has their keys in the part by the keys."""
    places = pc.index_in(pa.array(list(origins.values()), pa.string()), part.keys)
    keys = pa.array(list(origins), pa.string()).filter(places.is_valid())
    place = places.drop_null()
    contents = [
        content.take(place) if isinstance(content, pa.Array) else content[place.to_numpy()]
        for content in part.contents
    ]
    found = KnownRows(text_hashes(keys), keys, contents)
    return _replace_rows(rows, found, keys.to_pylist())


def _replace_rows(rows: KnownRows, others: KnownRows, names: Sequence[str]) -> KnownRows:
    """Replaces the rows of some keys by those of others, which may have none."""
    keys = pa.array(names, pa.string())
    kept = np.flatnonzero(~pc.is_in(rows.keys, keys).to_numpy(zero_copy_only=False))
    added = np.flatnonzero(pc.is_in(others.keys, keys).to_numpy(zero_copy_only=False))
    hashes = np.concatenate([rows.hashes[kept], others.hashes[added]])
    merged = pa.concat_arrays([rows.keys.take(pa.array(kept)), others.keys.take(pa.array(added))])
    table = pa.table({"hash": hashes, "key": merged})
    order = pc.sort_indices(table, [("hash", "ascending"), ("key", "ascending")])
    contents: list[Any] = []
    for one, other in zip(rows.contents, others.contents, strict=True):
        if isinstance(one, pa.Array):
            both = pa.concat_arrays([one.take(pa.array(kept)), other.take(pa.array(added))])
            contents.append(both.take(order))
        else:
            contents.append(np.concatenate([one[kept], other[added]])[order.to_numpy()])
    return KnownRows(hashes[order.to_numpy()], merged.take(order), contents)


def keeps_of(state: TriggerlessState) -> Keeps:
    """The contents of rows that a state keeps."""
    return cast("Keeps", state.keeps)
