"""Before and after the tasks of a comparison: what they are to do, and what becomes of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from publisher.database import DatabaseOptions
from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import Catalogue
from publisher.sources.files import file_splits
from publisher.sources.files.file_splits import Split
from publisher.sources.files.options import Columns, SnapshotOptions
from publisher.sources.live.table_reader import LiveTable, TableSplit
from publisher.sources.triggerless import input_files
from publisher.sources.triggerless.carry_over import (
    FOUND,
    KNOWN,
    State,
    committed,
    identity_of,
    write_state,
)
from publisher.sources.triggerless.compare import Counts, First, Rules
from publisher.sources.triggerless.comparison import (
    BucketResult,
    Comparison,
    Condition,
    Kept,
    TableWork,
)
from publisher.sources.triggerless.options import Options
from publisher.sources.triggerless.origin import OriginCheck, TableOrigin, plain_origin
from publisher.sources.triggerless.table_shape import Shape, shape_of
from publisher.sources.triggerless.tasks import checked

_BUCKET_BYTES = 16 << 20
"""Bytes of text of a bucket, about; a task holds some times as much."""
_MOST_BUCKETS = 4096
_FEW_DELETES = 100
"""Rows that may always be gone."""
_UNPACKED = {".parquet": 4, ".pq": 4, ".gz": 6}
"""How much larger than a file its text may be, about."""


@dataclass(frozen=True, slots=True)
class Migration:
    """Rows that are to be published as new, whatever is known of them."""

    tables: tuple[str, ...] = ()
    """Empty: all of the source."""
    equal: tuple[tuple[str, str], ...] = ()
    """Column and text; all must hold."""
    keys: tuple[str, ...] = ()
    """Keys of rows; empty: any."""

    def plain(self) -> dict[str, object]:
        """As a state keeps it."""
        return dict(json.loads(json.dumps(asdict(self))))


@dataclass(frozen=True, slots=True)
class Given:
    """What a comparison starts from."""

    catalogue: Catalogue
    target: Path
    """Where the new state goes."""
    wanted: int
    """Parts to read of a table, about."""
    number: int = 1
    """Of the comparison, in positions: never given twice by a job."""
    state: Path | None = None
    """The state that the last run left."""
    keep: bool = True
    """Whether a new state is wanted."""
    clock: int = 0
    """When this is, in microseconds since 1970 UTC."""
    hinted: int | None = None
    """See ``State``."""
    migration: Migration | None = None
    most: int | None = None
    """Rows to read of each table of a database, for a sample; ``None``: all."""
    source: str = ""
    """Its name, for messages."""
    by_rows: bool = False
    """Whether rows may prove a table of another database to be the same one."""


@dataclass(frozen=True, slots=True)
class Input:
    """A table to be compared, as far as its kind of input knows."""

    name: str
    shape: Shape
    reading: SnapshotOptions
    now: tuple[Split | TableSplit, ...]
    before: tuple[Split, ...]
    bytes: int
    """Of its text, about."""
    live: LiveTable | None = None
    identity: tuple[object, ...] = ()
    """Of its files, see ``identity_of``."""
    origin: TableOrigin | None = None
    """Its database, where it is a table of one."""


def file_inputs(
    by_table: Mapping[str, Sequence[Path]],
    options: Options,
    reading: SnapshotOptions,
    given: Given,
) -> list[Input]:
    """The tables that files hold.  Raises ``FatalError`` where a file does not fit."""
    before = input_files.files_by_table(options.before, options) if options.before else {}
    found = []
    for name, files in by_table.items():
        if not files:
            raise FatalError(
                f"there is no file of table {name}: export it, or take it out of tables"
            )
        catalogue = given.catalogue
        names, how = input_files.columns_of(name, files[0], reading, catalogue, options)
        shape = shape_of(name, names, catalogue, options, str(files[0]))
        columns = Columns(names, optional=frozenset(names), closed=True)
        old = (
            file_splits.splits(before[name], how, columns, given.wanted) if before.get(name) else ()
        )
        now = file_splits.splits(files, how, columns, given.wanted)
        found.append(
            Input(
                name,
                shape,
                how,
                tuple(now),
                tuple(old),
                _text_bytes(files),
                identity=tuple(identity_of(files)),
            )
        )
    return found


def comparison_of(
    tables: Sequence[Input],
    options: Options,
    given: Given,
    database: DatabaseOptions | None = None,
    text_of: Callable[[Any], str | None] = str,
) -> Comparison:
    """What is to be done.  Raises ``FatalError`` where the state does not fit."""
    state = State.read(given.state) if given.state is not None else None
    if state is not None and state.keeps != options.state:
        raise FatalError(
            f'the state in {state.folder} was kept with state = "{state.keeps}": set that again, or remove'
            " the state and migrate"
        )
    works = tuple(_work(table, options, given, state) for table in tables)
    return Comparison(works, str(given.target), given.keep, options.binary_text, database, text_of)


def _work(table: Input, options: Options, given: Given, state: State | None) -> TableWork:
    plain = state.tables.get(table.name) if state is not None else None
    known = _kept(state, plain, table.shape, options) if state is not None and plain else None
    size = max(table.bytes, plain["bytes"] if plain else 0)
    migration = given.migration
    first: First = "add"
    whole = plain is not None and plain["whole"]
    to_prove = _to_prove(table, given, plain) if plain else None
    if not whole and not table.before and migration is None:
        said: Mapping[str, First] = {"resynchronise": "replace", "future": "nothing", "all": "add"}
        first = said[options.startup_option]
    return TableWork(
        table.shape,
        table.reading,
        table.now,
        table.before if known is None else (),
        known,
        options.buckets or _buckets(size),
        Rules(
            options.state,
            first,
            deletes=migration is None,
            all_anew=migration is not None,
            known_columns=None if known is None else known.columns,
        ),
        given.number,
        _condition(table.shape, migration),
        table.live,
        table.identity,
        plain or {},
        table.origin,
        to_prove,
    )


def _to_prove(table: Input, given: Given, plain: Mapping[str, Any]) -> OriginCheck | None:
    """The proof that rows have to give.  Raises ``FatalError`` where the database is another one."""
    check = OriginCheck(given.source, table.name, TableOrigin.of_state(plain), table.origin)
    needed = check.needs_rows(by_rows=given.by_rows)
    # a migration compares nothing: the next comparison asks for the proof
    return check if needed and given.migration is None else None


def _condition(shape: Shape, migration: Migration | None) -> Condition:
    """Which rows of a table are migrated.  Raises ``UsageError`` where that makes no sense for it."""
    if migration is None:
        return Condition()
    folded = {name.casefold(): name for name in shape.read}
    for name, _ in migration.equal:
        if name.casefold() not in folded:
            raise UsageError(
                f"table {shape.source_name} has no column {name}; it has {', '.join(shape.read)}"
            )
    equal = tuple((folded[name.casefold()], value) for name, value in migration.equal)
    return Condition(equal, tuple(shape.canonical(key) for key in migration.keys))


def _kept(state: State, plain: Mapping[str, Any], shape: Shape, options: Options) -> Kept:
    schema, table, key = shape.identity
    now = {"schema": schema, "table": table, "key": list(key)}
    changed = [name for name, value in now.items() if plain[name] != value]
    if options.state == "row" and plain["columns"] != list(shape.columns):
        changed.append("columns")
    if changed:
        raise FatalError(
            f"{', '.join(changed)} of table {shape.source_name} are not what they were when its state was"
            f" written ({state.folder}): undo that, or remove the state and migrate"
        )
    return Kept(str(state.folder / KNOWN), tuple(plain["files"]), tuple(plain["columns"]))


def _buckets(size: int) -> int:
    wanted = max(1, -(-size // _BUCKET_BYTES))
    return min(_MOST_BUCKETS, 1 << (wanted - 1).bit_length())


def _text_bytes(files: Sequence[Path]) -> int:
    return sum(path.stat().st_size * _UNPACKED.get(path.suffix.lower(), 1) for path in files)


def finished(
    comparison: Comparison, results: list[BucketResult], given: Given, options: Options
) -> tuple[Split, ...]:
    """Makes the new state of what the tasks have written; gives the splits with what was found.

    Raises ``InternalError`` unless every row that was read was compared, ``FatalError`` where a table
    is another one, or too many of its rows are gone.
    """
    results = checked(comparison, results)
    for number, table in enumerate(comparison.tables):
        first = comparison.first_partition(number)
        own = results[first : first + table.buckets]
        counts = sum((result.counts for result in own), Counts())
        if table.to_prove is not None:
            table.to_prove.verify_rows(counts)
        _refuse_many_deletes(table, counts, options)
    target = Path(comparison.target)
    _without(target / FOUND, {result.found for result in results})
    _without(target / KNOWN, {result.known for result in results if result.known})
    splits: list[Split] = []
    described: dict[str, Mapping[str, Any]] = {}
    for number, table in enumerate(comparison.tables):
        first = comparison.first_partition(number)
        own = results[first : first + table.buckets]
        splits += found_splits(table, own, target, given.wanted)
        described[table.shape.source_name] = _described(table, own, given)
    if comparison.keep:
        hinted = given.hinted
        if given.state is not None:
            state = State.read(given.state)
            described |= state.carried(target, described)
            hinted = state.hinted if hinted is None else hinted
        migration = given.migration.plain() if given.migration is not None else None
        write_state(target, State(target, options.state, described, hinted, migration))
    else:
        shutil.rmtree(target / KNOWN)
    return tuple(splits)


def _refuse_many_deletes(table: TableWork, counts: Counts, options: Options) -> None:
    if counts.vanished > max(_FEW_DELETES, options.most_deleted * counts.known):
        raise FatalError(
            f"{counts.vanished:,} of {counts.known:,} known rows of table {table.shape.source_name} are"
            " not there any more: where that is so, set most_deleted = 1 for one run; where not, export it"
            " again"
        )


def found_splits(
    table: TableWork, results: Sequence[BucketResult], target: Path, wanted: int
) -> list[Split]:
    """The splits of a table, in the order of hashes: some buckets each, their changes numbered."""
    each = max(1, -(-len(results) // wanted))
    splits = []
    folder, number = str(committed(target / FOUND)), 1
    for start in range(0, len(results), each):
        part = results[start : start + each]
        counts = sum((result.counts for result in part), Counts())
        shape = table.shape
        found = {
            "table": [shape.source_name, shape.schema, shape.table],
            "generation": table.generation,
            "files": [result.found for result in part],
            "unchanged": counts.unchanged,
            "baseline": counts.baseline,
            "read": counts.read + counts.vanished + sum(result.unreadable for result in part),
        }
        rows = sum(result.found_rows for result in part)
        paths = [target / FOUND / result.found for result in part]
        size = sum(path.stat().st_size for path in paths)
        text = json.dumps(found, ensure_ascii=False)
        stop = start + len(part)
        splits.append(Split(folder, "found", start, stop, number, size, size, text))
        number += rows
    return splits


def _described(
    table: TableWork, results: Sequence[BucketResult], given: Given
) -> Mapping[str, Any]:
    schema, name, key = table.shape.identity
    counts = sum((result.counts for result in results), Counts())
    migrated = given.migration is not None
    before = table.last
    return {
        "schema": schema,
        "table": name,
        "key": list(key),
        "columns": list(table.shape.columns),
        "generation": table.generation,
        # a migration is no comparison: the next one may have to tell of rows that are gone
        "compared": before.get("compared", 0) if migrated else given.clock,
        "input": before.get("input", []) if migrated else list(table.identity),
        "origin": before["origin"] if migrated and before else plain_origin(table.origin),
        "whole": before.get("whole", table.condition == Condition()) if migrated else True,
        "rows": sum(result.known_rows for result in results),
        "bytes": before.get("bytes", 0) if migrated else sum(result.bytes for result in results),
        "files": [result.known for result in results],
        "last": counts._asdict() | {"unreadable": sum(result.unreadable for result in results)},
    }


def _without(folder: Path, wanted: set[str]) -> None:
    """Removes what attempts have left that failed."""
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
