"""Plans the tasks of a comparison, and finishes the comparison after its tasks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from publisher.database.identity import TableOrigin
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError, InternalError, UsageError
from publisher.ledger.conservation import gather_tallies
from publisher.sources.files.file_splits import Split
from publisher.sources.migration import Migration
from publisher.sources.table_origin import FILES, check_origin
from publisher.sources.triggerless.changed_keys import MovedObjects, join_keys
from publisher.sources.triggerless.comparison import (
    BucketResult,
    Comparison,
    ComparisonContext,
    PieceKind,
    RowCondition,
    TableInput,
    TableWork,
)
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.relate import (
    ComparisonCounts,
    ComparisonRules,
    EmptiedCounts,
    First,
)
from publisher.sources.triggerless.splits import DifferenceSplit, FoundDifferences
from publisher.sources.triggerless.state import FOUND, KNOWN, TriggerlessState, write_state
from publisher.sources.triggerless.table_shape import TableShape

BUCKET_BYTES = 16 << 20
"""Approximate bytes of text per bucket; a task needs a multiple of this memory."""
_MAX_BUCKETS = 4096
_FEW_DELETES = 100
"""Number of missing rows of a table that are always accepted as deleted."""


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
        name = table.shape.source_name
        other = names.setdefault(table.shape.identity[:2], name)
        if other != name:
            raise FatalError(
                f"{other} and {name} would be one table, {table.shape.table}, in documents: correct"
                " tables or identifier_case"
            )
    known = {} if state is None else state.tables
    accepts = context.accepts_database
    notes = [
        note
        for table in tables
        if (name := table.shape.source_name) in known
        for note in check_table_origin(
            f"source {context.source}: table {name}", known[name], table.origin, accepts=accepts
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
    name, migration = table.shape.source_name, context.migration
    last = {} if state is None else state.tables.get(name, {})
    if state is not None and last:
        _refuse_other_shape(state, last, table.shape)
    first: First = "add"
    is_complete = last and last["whole"]
    if not is_complete and not table.tables[0].before and migration is None:
        first = _FIRST[options.startup_option]
    return TableWork(
        table,
        () if state is None else state.files(name),
        last,
        options.buckets or _buckets(max(table.bytes, last.get("bytes", 0))),
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


def _refuse_other_shape(
    state: TriggerlessState, last: Mapping[str, Any], shape: TableShape
) -> None:
    """Raises ``FatalError`` if a table has another key or other kinds of columns than in the state."""
    schema, table, key = shape.identity
    current = {"schema": schema, "table": table, "key": list(key)}
    changed = [name for name, value in current.items() if last[name] != value]
    other = shape.multiple ^ {*last["multiple"]}
    changed += [name for name in last["columns"] if name in shape.columns and name in other]
    if changed:
        raise FatalError(
            f"{', '.join(changed)} of table {shape.source_name} changed since its state was"
            f" written ({state.folder}): undo this change, or remove the state and migrate"
        )


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
    results = _check_results(comparison, results)
    target = Path(comparison.target)
    if context.migration is not None:
        _refuse_missing_keys(comparison, results, context.migration)
    splits: list[DifferenceSplit] = []
    tables: dict[str, Mapping[str, Any]] = {}
    for number, table in enumerate(comparison.tables):
        first = comparison.buckets().index((number, 0))
        found = results[first : first + table.buckets]
        own, moved = join_keys(table.shape, found, target / FOUND)
        _refuse_wrong_input(table, own, moved, options)
        splits += difference_splits(table, own, moved, context)
        tables[table.shape.source_name] = _describe_table(table, own, context)
    _remove_others(target / FOUND, {name for split in splits for name in split.payload.files})
    _remove_others(target / KNOWN, {result.known for result in results if result.known})
    if not comparison.keep:
        shutil.rmtree(target / KNOWN)
        return tuple(splits)
    hinted = context.hinted
    if context.state is not None:
        state = TriggerlessState.read(context.state)
        tables |= state.carry_over(target, tables)
        hinted = state.hinted if hinted is None else hinted
    migration = None if context.migration is None else context.migration.plain()
    write_state(target, TriggerlessState(target, options.state, tables, hinted, migration))
    return tuple(splits)


def _check_results(comparison: Comparison, results: list[BucketResult]) -> list[BucketResult]:
    """Sorts results by partition.  Raises ``InternalError`` unless every row that was read was compared."""
    results = sorted(results, key=lambda result: result.partition)
    read = gather_tallies(result.tallies for result in results)
    splits = enumerate(comparison.splits())
    expected = {number for number, work in splits if work.kind is PieceKind.NOW}
    compared = sum(result.read for result in results)
    if read.keys() != expected or sum(read.values()) != compared:
        raise InternalError(
            f"{sum(read.values())} rows were read, but {compared} were compared: nothing was published;"
            " run again, and report this if it happens again"
        )
    return results


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
    table: TableWork,
    results: Sequence[BucketResult],
    moved: MovedObjects | None,
    options: TriggerlessOptions,
) -> None:
    """Raises ``FatalError`` if the input is probably truncated."""
    counts = sum((result.counts for result in results), ComparisonCounts())
    deleted = counts.vanished + (0 if moved is None else moved.deleted)
    if deleted > max(_FEW_DELETES, options.most_deleted * counts.known):
        raise FatalError(
            f"{deleted:,} of {counts.known:,} known rows of table {table.shape.source_name} are"
            " missing: if they were deleted, set most_deleted = 1 for one run; if not, export the table"
            " again"
        )
    for name in table.shape.multiple:
        parts = [result.emptied[name] for result in results if name in result.emptied]
        total = sum(parts, EmptiedCounts())
        if total.emptied > max(_FEW_DELETES, options.most_deleted * total.known):
            raise FatalError(
                f"{total.emptied:,} of {total.known:,} objects of table {table.shape.source_name} have lost"
                f" all values of {name}: if they were deleted, set most_deleted = 1 for one run; if not,"
                " export the table of these values again"
            )


def difference_splits(
    table: TableWork,
    results: Sequence[BucketResult],
    moved: MovedObjects | None,
    context: ComparisonContext,
) -> list[DifferenceSplit]:
    """Divides the differences of a table, in the order of hashes, into splits of some buckets each.

    The last split has the changes of objects with changed keys."""
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
    if moved is not None:
        files, read = (moved.name,), moved.records
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
    migrated, origin = context.migration is not None, table.input.origin
    last = table.last
    return {
        "schema": schema,
        "table": name,
        "key": list(key),
        "columns": list(table.shape.columns),
        "multiple": sorted(table.shape.multiple),
        "generation": table.generation,
        # a migration compares nothing: the next comparison may have to report deleted rows
        "compared": last.get("compared", 0) if migrated else context.clock,
        "input": last.get("input", []) if migrated else list(table.input.files),
        "children": last.get("children", {}) if migrated else dict(table.input.child_files),
        "origin": last["origin"] if migrated and last else origin and asdict(origin),
        "whole": last.get("whole", table.condition == RowCondition()) if migrated else True,
        "bytes": last.get("bytes", 0) if migrated else sum(result.bytes for result in results),
        "files": [result.known for result in results],
        "last": counts._asdict() | {"unreadable": sum(result.unreadable for result in results)},
    }


def _remove_others(folder: Path, wanted: set[str]) -> None:
    """Removes the files of failed attempts."""
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
