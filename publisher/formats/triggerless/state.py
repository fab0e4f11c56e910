"""The state of a source, which one run leaves for the next.

A state is a folder: ``state.json`` describes the tables, ``known`` holds their rows in Parquet files, and
``found`` holds the differences that the comparison found; the run and ``explain`` read them.

The rows of a table are those that were read.  A row whose change was rejected or refused is there twice: as
it was read, and as consumers have it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from publisher.errors import FatalError
from publisher.formats.columns.private_tables import read_table, write_table
from publisher.formats.triggerless.differences import TableRows
from publisher.formats.triggerless.hashing import text_hashes
from publisher.formats.triggerless.options import Keeps
from publisher.formats.triggerless.relate import KnownRows, no_known_rows
from publisher.formats.triggerless.splits import FoundDifferences
from publisher.ledger.durable import (
    link_or_copy,
    make_private,
    read_versioned_file,
    sync_folder,
    write_durably,
)
from publisher.model.arrays import NO_ROWS, booleans
from publisher.model.change import EventType
from publisher.model.keys import format_key, parse

MANIFEST = "state.json"
FOUND, KNOWN = "found", "known"
"""Folders of the differences, and of the known rows."""
FORMAT = 3
"""Version of the state; version 2 had unpublished rows in files of their own."""
_COLUMN = "="
"""Prefix of the names of the table's columns in files."""
_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class TriggerlessState:
    """The state of a source: the content of its manifest, and its folder."""

    folder: Path
    keeps: str
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    hinted: int | None = None
    """Time of the last sample that gave hints, in microseconds since 1970 UTC."""
    migration: Mapping[str, object] | None = None
    """The rows that the run of this state published as new."""

    @classmethod
    def empty(cls) -> TriggerlessState:
        """The state before the first comparison."""
        return cls(Path(), "")

    @classmethod
    def read(cls, folder: Path) -> TriggerlessState:
        """Reads a state.  Raises ``FatalError`` if it is damaged or of another version."""

        def decode(content: dict[str, Any]) -> TriggerlessState:
            return cls(
                folder, *map(content.__getitem__, ("keeps", "tables", "hinted", "migration"))
            )

        path = folder / MANIFEST
        remedy = "give the source another name, so that it starts over by startup_option"
        state = read_versioned_file(path, FORMAT, decode, remedy)
        if state is None:
            raise FatalError(f"{path} of the state is missing: restore it, or {remedy}")
        return state

    def files(self, name: str) -> tuple[str, ...]:
        """The files with the rows of a table; none for an unknown table."""
        entry = self.tables.get(name, {"files": ()})
        return tuple(str(self.folder / KNOWN / file) for file in entry["files"])

    def has_compared(self, name: str, files: Sequence[object]) -> bool:
        """Tests whether files of this table, or child table, have been compared, by their identity."""
        known = self.tables.get(name)
        if known is not None and known["input"] == files:
            return True
        return any(table.get("children", {}).get(name) == files for table in self.tables.values())

    def carry_over(
        self, target: Path, compared: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Mapping[str, Any]]:
        """Links or copies the files of uncompared tables into a new state."""
        tables: dict[str, Mapping[str, Any]] = {}
        for place, (name, plain) in enumerate(self.tables.items()):
            if name in compared:
                continue
            prefix = f"kept-{plain['generation']}-{place}"
            files = [f"{prefix}-{number}.parquet" for number in range(len(plain["files"]))]
            for old, new in zip(plain["files"], files, strict=True):
                link_or_copy(self.folder / KNOWN / old, target / KNOWN / new)
            tables[name] = {**plain, "files": files, "last": {"left": 0, "unreadable": 0}}
        return tables


def write_state(target: Path, state: TriggerlessState) -> None:
    """Writes the description of a new state."""
    (target / MANIFEST).write_text(state_text(state), "utf-8")


def state_text(state: TriggerlessState) -> str:
    """Formats the description of a state."""
    content = {
        "format": FORMAT,
        "keeps": state.keeps,
        "hinted": state.hinted,
        "migration": state.migration,
        "tables": state.tables,
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def remove_replaced_rows(states: Iterable[Path]) -> None:
    """Removes the rows of replaced states, but not their differences; ``states`` begins with the newest.

    Stops at the first state without rows: the rows of all older states were removed earlier.
    """
    for state in states:
        if not (state / KNOWN).is_dir():
            return
        shutil.rmtree(state / KNOWN)


def identity_of(files: Sequence[Path]) -> list[list[object]]:
    """Path, size and modification time of each file; the same values mean the same files."""
    stats = [(path, path.stat()) for path in files]
    return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]


def write_known_rows(path: Path, known: KnownRows, columns: Sequence[str], keeps: Keeps) -> None:
    """Writes the rows of a part of a table."""
    rows = TableRows.concat([known.rows, known.published])
    marks = [pa.nulls(len(known.rows), pa.bool_())]
    contents = {f"{_COLUMN}{name}": c for name, c in zip(columns, rows.values, strict=True)}
    table = pa.table(
        {
            "hash": rows.hashes,
            "key": rows.keys,
            "exists": pa.concat_arrays([*marks, pa.array(known.exists, pa.bool_())]),
            "is_quiet": pa.concat_arrays([*marks, pa.array(known.is_quiet, pa.bool_())]),
            **contents,
        }
    )
    text = "zstd" if keeps == "values" else "none"  # hashes are incompressible
    write_table(
        table,
        path,
        row_group_size=_ROWS,
        use_dictionary=False,
        compression=dict.fromkeys(table.schema.names, text) | {"hash": "none", "key": "lz4"},
        write_statistics=False,
    )


def known_batches(path: Path, columns: Sequence[str], keeps: Keeps) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a file, for ``known_rows``; a column that the file has not is NULL.

    Raises ``FatalError`` if the file is missing or damaged.
    """
    kind = pa.string() if keeps == "values" else pa.uint64()
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS, use_threads=False):
                names = batch.schema.names
                contents = [
                    batch.column(f"{_COLUMN}{name}")
                    if f"{_COLUMN}{name}" in names
                    else pa.nulls(batch.num_rows, kind)
                    for name in columns
                ]
                yield pa.RecordBatch.from_arrays(
                    [*batch.select(_FIXED).columns, *contents],
                    names=[*_FIXED, *map(str, range(len(columns)))],
                )
    except (OSError, pa.ArrowInvalid) as error:
        raise FatalError(
            f"{path} of the state cannot be read ({error}): restore it, or remove the state and migrate"
        ) from error


_FIXED = ("hash", "key", "exists", "is_quiet")


def known_rows(batches: Sequence[pa.RecordBatch], columns: int, keeps: Keeps) -> KnownRows:
    """Joins the rows of ``known_batches``."""
    if not batches:
        return no_known_rows(keeps, columns)
    rows = pa.concat_batches(batches)
    is_published = rows["exists"].is_valid()
    published = rows.filter(is_published)
    read, consumers = (
        TableRows(part["hash"].to_numpy(), part["key"], part.columns[len(_FIXED) :])
        for part in (rows.filter(pc.invert(is_published)), published)
    )
    return KnownRows(
        read, consumers, booleans(published["exists"]), booleans(published["is_quiet"])
    )


def keep_unpublished(
    folder: Path, before: Path | None, rejected: Iterable[tuple[FoundDifferences, frozenset[int]]]
) -> None:
    """Adds the rows of rejected changes, as consumers have them, to the state in a folder.

    Changes are named by the numbers of their differences; ``before`` is the folder of the state before.  May
    be repeated after a crash.  The state of a repair has no tables: the next repair finds the differences
    again."""
    state = TriggerlessState.read(folder)
    if not state.tables:
        return
    old = TriggerlessState.empty() if before is None else TriggerlessState.read(before)
    tables, keeps = dict(state.tables), cast("Keeps", state.keeps)
    for name, changes in _changes_by_table(folder, rejected).items():
        entry = tables[name]
        columns = entry["columns"]
        known = _rows_with_keys(state.files(name), columns, keeps, changes).published
        marked = {*known.keys.to_pylist()}
        new = {key: change for key, change in changes.items() if key not in marked}
        if new:
            place = [*state.tables].index(name)
            path = folder / KNOWN / f"unpublished-{place}-{len(entry['files'])}.parquet"
            rows = _published_rows(old.files(name), columns, keeps, new)
            write_known_rows(path, rows, columns, keeps)
            make_private(path)
            tables[name] = {**entry, "files": [*entry["files"], path.name]}
    sync_folder(folder / KNOWN)
    write_durably(folder / MANIFEST, state_text(replace(state, tables=tables)))


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


def _rows_with_keys(
    files: Iterable[str], columns: Sequence[str], keeps: Keeps, keys: Iterable[str]
) -> KnownRows:
    """Reads the rows of some keys of a table."""
    wanted = pa.array([*keys], pa.string())
    batches = [
        batch.filter(pc.is_in(batch["key"], wanted))
        for file in files
        for batch in known_batches(Path(file), columns, keeps)
    ]
    return known_rows(batches, len(columns), keeps)


def _published_rows(
    files: Iterable[str],
    columns: Sequence[str],
    keeps: Keeps,
    changes: Mapping[str, _RejectedChange],
) -> KnownRows:
    """The rows of changed keys as consumers have them; ``files`` hold the rows of the state before."""
    known = _rows_with_keys(files, columns, keeps, {change.origin for change in changes.values()})
    both = TableRows.concat([known.rows, known.published])
    row_of = {key: row for row, key in enumerate(both.keys.to_pylist())}  # published rows count
    gone = {*known.published.take(np.flatnonzero(~known.exists)).keys.to_pylist()}
    rows = [None if c.origin in gone else row_of.get(c.origin) for c in changes.values()]
    keys, places = pa.array([*changes], pa.string()), pa.array(rows, pa.int64())
    published = TableRows(text_hashes(keys), keys, [column.take(places) for column in both.values])
    return replace(
        known,
        rows=known.rows.take(NO_ROWS),
        published=published,
        exists=booleans(places.is_valid()),
        is_quiet=booleans(pa.array([change.is_quiet for change in changes.values()])),
    )
