"""Plans the tasks of a comparison, and finishes the comparison after its tasks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from publisher.database.identity import TableOrigin
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import Catalogue
from publisher.sources.files.file_splits import Split
from publisher.sources.migration import Migration
from publisher.sources.table_origin import FILES, check_origin
from publisher.sources.triggerless.carry_over import (
    FOUND,
    KNOWN,
    UNPUBLISHED,
    TriggerlessState,
    write_state,
)
from publisher.sources.triggerless.compare import (
    ComparisonCounts,
    ComparisonRules,
    EmptiedCounts,
    First,
)
from publisher.sources.triggerless.comparison import (
    BucketResult,
    Comparison,
    KnownFiles,
    ReadTable,
    RowCondition,
    TableWork,
)
from publisher.sources.triggerless.join_keys import TableDifferences, join_keys
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.splits import DifferenceSplit, FoundDifferences
from publisher.sources.triggerless.table_shape import TableShape
from publisher.sources.triggerless.tasks import check_results
from publisher.sources.triggerless.unpublished import unpublished_of

BUCKET_BYTES = 16 << 20
"""Approximate bytes of text per bucket; a task needs a multiple of this memory."""
_MAX_BUCKETS = 4096
_FEW_DELETES = 100
"""Number of missing rows of a table that are always accepted as deleted."""


@dataclass(frozen=True, slots=True)
class ComparisonContext:
    """The facts about a run that a comparison needs."""

    catalogue: Catalogue
    target: Path
    """Directory of the new state."""
    wanted: int
    """Approximate number of splits per table."""
    number: int = 1
    """Number of the comparison in positions; a job never uses a number twice."""
    state: Path | None = None
    """The state of the last run."""
    keep: bool = True
    """Whether to write a new state."""
    clock: int = 0
    """Time of the run in microseconds since 1970 UTC."""
    hinted: int | None = None
    """See ``TriggerlessState``."""
    migration: Migration | None = None
    max_rows: int | None = None
    """Maximum number of rows to read per database table, for a sample; ``None`` for all rows."""
    source: str = ""
    """Name of the source, for messages."""
    accepts_database: bool = False
    """See ``CarryOver``."""


@dataclass(frozen=True, slots=True)
class TableInput:
    """A table to compare, from files or from a database."""

    name: str
    tables: tuple[ReadTable, ...]
    """The table, then its child tables."""
    bytes: int
    """Approximate size of their text."""
    identity: tuple[object, ...] = ()
    """Identity of its files, see ``identity_of``."""
    child_files: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Identity of the files of each child table."""
    origin: TableOrigin | None = None
    """Its database; ``None`` for files."""

    @property
    def shape(self) -> TableShape:
        """Shape of the table."""
        return self.tables[0].shape


_STARTS_OVER = "so that it starts over by startup_option; rows deleted since then are not published"


def comparison_of(
    tables: Sequence[TableInput],
    options: TriggerlessOptions,
    context: ComparisonContext,
    database: DatabaseOptions | None = None,
    text_of: Callable[[Any], str | None] = str,
) -> Comparison:
    """Plans the comparison of tables.  Raises ``FatalError`` if the state does not fit."""
    state = TriggerlessState.read(context.state) if context.state is not None else None
    if state is not None:
        refuse_other_contents(state, options)
    names: dict[tuple[object, ...], str] = {}
    for table in tables:
        other = names.setdefault(table.shape.identity[:2], table.name)
        if other != table.name:
            raise FatalError(
                f"{other} and {table.name} would be one table, {table.shape.table}, in documents: correct"
                " tables or identifier_case"
            )
    known = {} if state is None else state.tables
    place = f"source {context.source}: table"
    notes = [
        note
        for table in tables
        if table.name in known
        for note in check_table_origin(
            f"{place} {table.name}",
            known[table.name],
            table.origin,
            accepts=context.accepts_database,
        )
    ]
    works = tuple(_work(table, options, context, state) for table in tables)
    return Comparison(
        works,
        str(context.target),
        context.keep,
        options.binary_text,
        database,
        text_of,
        tuple(notes),
    )


def check_table_origin(
    place: str, entry: Mapping[str, Any], now: TableOrigin | None, *, accepts: bool = False
) -> tuple[str, ...]:
    """Compares the database of a table with that in its state, ``entry``; see ``check_origin``."""
    before = FILES if entry["origin"] is None else TableOrigin(**entry["origin"])
    return check_origin(place, before, now or FILES, accepts=accepts, otherwise=_STARTS_OVER)


def refuse_other_contents(state: TriggerlessState, options: TriggerlessOptions) -> None:
    """Raises ``FatalError`` if a state keeps other contents of rows than the settings say."""
    if state.keeps != options.state:
        raise FatalError(
            f'the state in {state.folder} was written with state = "{state.keeps}": restore that setting,'
            " or remove the state and migrate"
        )


_FIRST: Mapping[str, First] = {"resynchronise": "replace", "future": "nothing", "all": "add"}


def _work(
    table: TableInput,
    options: TriggerlessOptions,
    context: ComparisonContext,
    state: TriggerlessState | None,
) -> TableWork:
    entry = state.tables.get(table.name) if state is not None else None
    known = _known_files(state, entry, table.shape) if state and entry else None
    size = max(table.bytes, entry["bytes"] if entry else 0)
    migration = context.migration
    first: First = "add"
    is_complete = entry is not None and entry["whole"]
    if not is_complete and not table.tables[0].before and migration is None:
        first = _FIRST[options.startup_option]
    return TableWork(
        table.tables if known is None else tuple(replace(t, before=()) for t in table.tables),
        known,
        options.buckets or _buckets(size),
        ComparisonRules(
            options.state,
            first,
            deletes=migration is None,
            all_as_new=migration is not None,
            multiple=table.shape.multiple,
            is_view=table.shape.is_view,
        ),
        context.number,
        row_condition(table.shape, migration),
        table.identity,
        table.child_files,
        entry or {},
        table.origin,
        unpublished_of(state.folder, entry) if state and entry else None,
    )


def row_condition(shape: TableShape, migration: Migration | None) -> RowCondition:
    """The condition on migrated rows of a table.  Raises ``UsageError`` if it does not fit the table."""
    if migration is None:
        return RowCondition()
    folded = {name.casefold(): name for name in shape.read}
    for name, _ in migration.equal:
        if name.casefold() not in folded:
            raise UsageError(
                f"table {shape.source_name} has no column {name}; it has {', '.join(shape.read)}"
            )
    equal = tuple((folded[name.casefold()], value) for name, value in migration.equal)
    return RowCondition(equal, tuple(shape.canonical(key) for key in migration.keys))


def _known_files(
    state: TriggerlessState,
    entry: Mapping[str, Any],
    shape: TableShape,
) -> KnownFiles:
    schema, table, key = shape.identity
    current = {"schema": schema, "table": table, "key": list(key)}
    changed = [name for name, value in current.items() if entry[name] != value]
    multiple = set(entry.get("multiple", ()))
    changed += [
        n for n in entry["columns"] if n in shape.columns and n in shape.multiple ^ multiple
    ]
    if changed:
        raise FatalError(
            f"{', '.join(changed)} of table {shape.source_name} changed since its state was"
            f" written ({state.folder}): undo this change, or remove the state and migrate"
        )
    return KnownFiles(str(state.folder / KNOWN), tuple(entry["files"]), tuple(entry["columns"]))


def _buckets(size: int) -> int:
    wanted = max(1, -(-size // BUCKET_BYTES))
    return min(_MAX_BUCKETS, 1 << (wanted - 1).bit_length())


def finish_comparison(
    comparison: Comparison,
    results: list[BucketResult],
    context: ComparisonContext,
    options: TriggerlessOptions,
) -> tuple[DifferenceSplit, ...]:
    """Writes the new state after the tasks, and returns the splits of the differences.

    Raises ``InternalError`` unless every row that was read was compared, ``FatalError`` if too many rows of
    a table are missing, ``UsageError`` if a migrated key is unknown.
    """
    results = check_results(comparison, results)
    target = Path(comparison.target)
    if context.migration is not None:
        _refuse_missing_keys(comparison, results, context.migration)
    differences: list[TableDifferences] = []
    for number, table in enumerate(comparison.tables):
        first = comparison.first_partition(number)
        table_results = results[first : first + table.buckets]
        differences.append(join_keys(table.shape, table_results, target / FOUND))
        _refuse_wrong_input(table, differences[-1], options)
    _remove_others(target / FOUND, {name for each in differences for name in each.files})
    _remove_others(target / KNOWN, {result.known for result in results if result.known})
    splits: list[DifferenceSplit] = []
    tables: dict[str, Mapping[str, Any]] = {}
    for table, found in zip(comparison.tables, differences, strict=True):
        splits += difference_splits(table, found, context)
        tables[table.shape.source_name] = _describe_table(table, found.results, context)
    if comparison.keep:
        hinted = context.hinted
        if context.state is not None:
            state = TriggerlessState.read(context.state)
            tables |= state.carry_over(target, tables)
            hinted = state.hinted if hinted is None else hinted
        migration = None if context.migration is None else context.migration.plain()
        write_state(target, TriggerlessState(target, options.state, tables, hinted, migration))
    else:
        shutil.rmtree(target / KNOWN)
    return tuple(splits)


def _refuse_missing_keys(
    comparison: Comparison, results: Sequence[BucketResult], migration: Migration
) -> None:
    """Raises ``UsageError`` if no table has a row with a requested key."""
    present = {key for result in results for key in result.keys}
    for written, *keys in zip(
        migration.keys, *(table.condition.keys for table in comparison.tables), strict=True
    ):
        if present.isdisjoint(keys):
            names = ", ".join(table.shape.source_name for table in comparison.tables)
            condition = " that meets --where" if migration.equal else ""
            raise UsageError(
                f"{names} has no row with the key {written}{condition}: correct --key, or name the source of"
                " the row with --source"
            )


def _refuse_wrong_input(
    table: TableWork, found: TableDifferences, options: TriggerlessOptions
) -> None:
    """Refuses exports that are probably truncated."""
    results = found.results
    counts = sum((result.counts for result in results), ComparisonCounts())
    deleted = counts.vanished + (found.moved.deleted if found.moved is not None else 0)
    if deleted > max(_FEW_DELETES, options.most_deleted * counts.known):
        raise FatalError(
            f"{deleted:,} of {counts.known:,} known rows of table {table.shape.source_name} are"
            " missing: if they were deleted, set most_deleted = 1 for one run; if not, export the table"
            " again"
        )
    for name in table.shape.multiple:
        parts = [result.emptied[name] for result in results if name in result.emptied]
        total = sum(parts, EmptiedCounts(0, 0))
        if total.emptied > max(_FEW_DELETES, options.most_deleted * total.known):
            raise FatalError(
                f"{total.emptied:,} of {total.known:,} objects of table {table.shape.source_name} have lost"
                f" all values of {name}: if they were deleted, set most_deleted = 1 for one run; if not,"
                " export the table of these values again"
            )


def difference_splits(
    table: TableWork, found: TableDifferences, context: ComparisonContext
) -> list[DifferenceSplit]:
    """Divides the differences of a table, in the order of hashes, into splits of some buckets each.

    The last split has the changes of objects with changed keys."""
    results = found.results
    buckets = max(1, -(-len(results) // context.wanted))
    splits, number = [], 1
    for start in range(0, len(results), buckets):
        part = results[start : start + buckets]
        counts = sum((result.counts for result in part), ComparisonCounts())
        differences = FoundDifferences(
            table.shape.source_name,
            table.shape.schema,
            table.shape.table,
            table.generation,
            files=tuple(result.found for result in part),
            first=number,
            unchanged=counts.unchanged,
            baseline=counts.baseline,
            read=counts.read
            + counts.vanished
            + sum(result.unreadable + result.orphans - result.moved for result in part),
            is_view=table.shape.is_view,
            children=table.shape.child_tables,
        )
        splits.append(_split_of(differences, context))
        number += sum(result.found_rows for result in part)
    if found.moved is not None:
        files, read = (found.moved.name,), found.moved.records
        rest = replace(differences, files=files, first=number, unchanged=0, baseline=0, read=read)
        splits.append(_split_of(rest, context))
    return splits


def _split_of(differences: FoundDifferences, context: ComparisonContext) -> DifferenceSplit:
    size = sum((context.target / FOUND / name).stat().st_size for name in differences.files)
    return Split(str(context.target / FOUND), size, size, differences)


def _describe_table(
    table: TableWork, results: Sequence[BucketResult], context: ComparisonContext
) -> Mapping[str, Any]:
    """Describes a compared table for the new state."""
    schema, name, key = table.shape.identity
    counts = sum((result.counts for result in results), ComparisonCounts())
    migrated = context.migration is not None
    last = table.last
    keys = {key for result in results for key in result.unpublished}
    unpublished = last.get(UNPUBLISHED, {"keys": {}})
    kept = {key: quiet for key, quiet in unpublished["keys"].items() if key in keys}
    return {
        "schema": schema,
        "table": name,
        "key": list(key),
        "columns": list(table.shape.columns),
        "multiple": sorted(table.shape.multiple),
        "generation": table.generation,
        # a migration compares nothing: the next comparison may have to report deleted rows
        "compared": last.get("compared", 0) if migrated else context.clock,
        "input": last.get("input", []) if migrated else list(table.identity),
        "children": last.get("children", {}) if migrated else dict(table.child_files),
        "origin": last["origin"] if migrated and last else table.origin and asdict(table.origin),
        "whole": last.get("whole", table.condition == RowCondition()) if migrated else True,
        "rows": sum(result.known_rows for result in results),
        "bytes": last.get("bytes", 0) if migrated else sum(result.bytes for result in results),
        "files": [result.known for result in results],
        "last": counts._asdict() | {"unreadable": sum(result.unreadable for result in results)},
    } | ({UNPUBLISHED: {"keys": kept, "file": unpublished["file"]}} if kept else {})


def _remove_others(folder: Path, wanted: set[str]) -> None:
    """Removes the files of failed attempts."""
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
