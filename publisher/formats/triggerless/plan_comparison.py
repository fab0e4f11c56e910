"""Plans the tasks of a comparison, and finishes the comparison after its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from publisher.database.identity import TableOrigin
from publisher.errors import FatalError, InternalError, UsageError
from publisher.formats.contract import CarryOver, PrepareContext
from publisher.formats.files.file_splits import Split
from publisher.formats.migration import Migration
from publisher.formats.table_origin import FILES, check_origin
from publisher.formats.triggerless.changed_keys import MovedObjects, join_keys
from publisher.formats.triggerless.comparison import (
    BucketResult,
    Comparison,
    PieceKind,
    RowCondition,
    TableInput,
    TableWork,
)
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.relate import (
    ComparisonCounts,
    ComparisonRules,
    EmptiedCounts,
    First,
)
from publisher.formats.triggerless.splits import DifferenceSplit, FoundDifferences
from publisher.formats.triggerless.state import FOUND, KNOWN, TriggerlessState, write_state
from publisher.formats.triggerless.table_shape import TableShape
from publisher.ledger.conservation import gather_tallies

BUCKET_BYTES = 16 << 20
"""Approximate bytes of text per bucket; a task needs a multiple of this memory."""
_MAX_BUCKETS = 4096
_FEW_DELETES = 100
"""Number of missing rows of a table that are always accepted as deleted."""


_STARTS_OVER = "so that it starts over by startup_option; rows deleted since then are not published"


def comparison_of(
    tables: Sequence[TableInput],
    options: TriggerlessOptions,
    migration: Migration | None,
    context: PrepareContext,
) -> Comparison:
    """Plans the comparison of tables.  Raises ``FatalError`` if the state does not fit."""
    carry_over = context.carry_over or CarryOver(None, context.staged)
    state = None if carry_over.before is None else TriggerlessState.read(carry_over.before)
    if state is not None:
        refuse_other_contents(state, options)
    names: dict[tuple[object, ...], str] = {}
    notes: list[str] = []
    for table in tables:
        name = table.shape.source_name
        other = names.setdefault(table.shape.identity[:2], name)
        if other != name:
            raise FatalError(
                f"{other} and {name} would be one table, {table.shape.table}, in documents: correct"
                " tables or identifier_case"
            )
        if state is not None and name in state.tables:
            place, accepts = (
                f"source {carry_over.source}: table {name}",
                carry_over.accepts_database,
            )
            entry = state.tables[name]
            notes += check_table_origin(place, entry, table.origin, accepts=accepts)
    return Comparison(
        tuple(_work(table, options, migration, context.number, state) for table in tables),
        str(context.staged),
        context.carry_over is not None,
        options.binary_text,
        context.database,
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
    migration: Migration | None,
    number: int,
    state: TriggerlessState | None,
) -> TableWork:
    name = table.shape.source_name
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
        number,
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
    options: TriggerlessOptions,
    migration: Migration | None,
    hinted: int | None,
    context: PrepareContext,
) -> tuple[DifferenceSplit, ...]:
    """Writes the new state after the tasks, and returns the splits of the differences.

    ``hinted`` is the time of the last sample, see ``TriggerlessState``.  Raises ``InternalError`` unless
    every row that was read was compared, ``FatalError`` if too many rows of a table are missing,
    ``UsageError`` if a migrated key is unknown.
    """
    results = _check_results(comparison, results)
    if migration is not None:
        _refuse_missing_keys(comparison, results, migration)
    target, carry_over = context.staged, context.carry_over
    splits: list[DifferenceSplit] = []
    tables: dict[str, Mapping[str, Any]] = {}
    for number, table in enumerate(comparison.tables):
        first = comparison.buckets().index((number, 0))
        found = results[first : first + table.buckets]
        own, moved = join_keys(table.shape, found, target / FOUND)
        _refuse_wrong_input(table, own, moved, options)
        splits += _difference_splits(table, own, moved, target / FOUND, context.wanted)
        if carry_over is not None:
            clock = None if migration is not None else carry_over.clock
            tables[table.shape.source_name] = _describe_table(table, own, clock)
    _remove_others(target / FOUND, {name for split in splits for name in split.payload.files})
    _remove_others(target / KNOWN, {result.known for result in results if result.known})
    if carry_over is None:
        (target / KNOWN).rmdir()
        return tuple(splits)
    if carry_over.before is not None:
        state = TriggerlessState.read(carry_over.before)
        tables |= state.carry_over(target, tables)
        hinted = state.hinted if hinted is None else hinted
    plain = None if migration is None else migration.plain()
    write_state(target, TriggerlessState(target, options.state, tables, hinted, plain))
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


def _difference_splits(
    table: TableWork,
    results: Sequence[BucketResult],
    moved: MovedObjects | None,
    folder: Path,
    wanted: int,
) -> Iterator[DifferenceSplit]:
    """Divides the differences of a table, in the order of hashes, into splits of some buckets each.

    The last split has the changes of objects with changed keys."""
    shape, number = table.shape, 1

    def split(files: Sequence[str], read: int, unchanged: int, baseline: int) -> DifferenceSplit:
        size = sum((folder / name).stat().st_size for name in files)
        differences = FoundDifferences(
            shape.source_name,
            shape.schema,
            shape.table,
            table.generation,
            files=tuple(files),
            first=number,
            unchanged=unchanged,
            baseline=baseline,
            read=read,
            is_view=shape.is_view,
            children=shape.child_tables,
        )
        return Split(str(folder), size, size, differences)

    buckets = max(1, -(-len(results) // wanted))
    for start in range(0, len(results), buckets):
        part = results[start : start + buckets]
        counts = sum((result.counts for result in part), ComparisonCounts())
        others = sum(result.unreadable + result.orphans - result.moved for result in part)
        read = counts.read + counts.vanished + others
        yield split([result.found for result in part], read, counts.unchanged, counts.baseline)
        number += sum(result.found_rows for result in part)
    if moved is not None:
        yield split([moved.name], moved.records, 0, 0)


def _describe_table(
    table: TableWork, results: Sequence[BucketResult], clock: int | None
) -> Mapping[str, Any]:
    """Describes a compared table for the new state; ``clock`` is the time of the comparison.

    Without it the rows were migrated, which compares nothing: the next comparison may have to report deleted
    rows."""
    schema, name, key = table.shape.identity
    counts = sum((result.counts for result in results), ComparisonCounts())
    origin = table.input.origin
    compared: dict[str, Any] = {
        "compared": clock,
        "input": list(table.input.files),
        "children": dict(table.input.child_files),
        "origin": origin and asdict(origin),
        "whole": True,
        "bytes": sum(result.bytes for result in results),
    }
    if clock is None:
        never: dict[str, Any] = {"compared": 0, "input": [], "children": {}, "bytes": 0}
        never["whole"] = table.condition == RowCondition()
        compared |= never | {fact: table.last[fact] for fact in compared if table.last}
    return {
        "schema": schema,
        "table": name,
        "key": list(key),
        "columns": list(table.shape.columns),
        "multiple": sorted(table.shape.multiple),
        "generation": table.generation,
        **compared,
        "files": [result.known for result in results],
        "last": counts._asdict() | {"unreadable": sum(result.unreadable for result in results)},
    }


def _remove_others(folder: Path, wanted: set[str]) -> None:
    """Removes the files of failed attempts."""
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()
