"""Finds the tables that the next run of a job compares: those that may have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from publisher.config.settings import SourceSettings
from publisher.database import Database
from publisher.model.catalogue import Catalogue
from publisher.sources.columns.object_names import split_name
from publisher.sources.table_queue import Hints, TableQueueOptions, read_hints
from publisher.sources.table_queue.reading import sample_files
from publisher.sources.triggerless.carry_over import TriggerlessState, identity_of
from publisher.sources.triggerless.input_files import files_by_table
from publisher.sources.triggerless.live_tables import live_shapes, refuse_other_databases
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.plan_comparison import ComparisonContext, file_inputs

MICROSECONDS = 1_000_000


def with_pending_tables(
    source: SourceSettings, folder: Path | None, samples: TableQueueOptions, clock: int
) -> SourceSettings:
    """Reduces a source to the tables that have to be compared.

    ``folder`` is the state that the last run left, ``clock`` is in microseconds since 1970 UTC.  Files
    that are the same as at the last comparison hold nothing new.  With hints a table is compared if
    samples after its last comparison show it as touched, or if that is ``full_interval`` ago.

    Raises:
        PublisherError: State, files or samples cannot be read.
    """
    options = source.compared
    assert options is not None
    state = TriggerlessState.read(folder) if folder is not None else TriggerlessState.empty()
    may_differ, until = _choose_tables(options, state, samples, clock)
    if not source.snapshots:
        tables = tuple(name for name in options.tables if may_differ(name))
        return replace(source, options=replace(options, tables=tables), hinted=until)
    chosen: dict[str, list[Path]] = {}
    for name, files in files_by_table(source.snapshots, options, may_be_none=True).items():
        known = state.tables.get(name)
        if files and may_differ(name) and (known is None or known["input"] != identity_of(files)):
            chosen[name] = files
    return replace(with_tables(source, chosen), hinted=until)


def with_tables(source: SourceSettings, chosen: Mapping[str, Sequence[Path]]) -> SourceSettings:
    """Reduces a source of files to some of its tables and their files."""
    options = source.compared
    assert options is not None
    return replace(
        source,
        snapshots=tuple(path for files in chosen.values() for path in files),
        options=replace(options, tables=tuple(chosen) if options.tables else ()),
    )


def tables_of(source: SourceSettings) -> list[str]:
    """Names of the tables that a source compares."""
    options = source.compared
    assert options is not None
    if not source.snapshots:
        return list(options.tables)
    return [name for name, files in files_by_table(source.snapshots, options).items() if files]


def describe_tables(source: SourceSettings, catalogue: Catalogue, folder: Path | None) -> str:
    """Describes the tables to compare, in words; compares nothing.

    ``folder`` is the state that the last run left.

    Raises:
        PublisherError: Tables, files or the state do not fit.
    """
    options = source.compared
    assert options is not None
    if options.hints is not None:
        sample_files(options.samples, may_be_none=True)
    if source.snapshots:
        by_table = files_by_table(source.snapshots, options)
        paths = [path for files in by_table.values() for path in files]
        given = ComparisonContext(catalogue, Path(), wanted=1)
        tables = file_inputs(by_table, options, source.reading, given)
        size = sum(path.stat().st_size for path in paths)
        return f"{len(tables)} table(s) in {len(paths)} file(s), {size:,} bytes"
    assert source.database is not None  # for_publish checks it
    with Database(source.database) as database:
        shapes = live_shapes(database, options, catalogue)
        if folder is not None:
            refuse_other_databases(
                database, options, TriggerlessState.read(folder).tables, source.name
            )
        return f"{len(shapes)} table(s) of {database.name} can be compared"


def comparison_notes(folder: Path, source: str) -> list[str]:
    """Notes on rows that a comparison could neither find nor prove as deleted."""
    notes = []
    for name, table in TriggerlessState.read(folder).tables.items():
        last = table["last"]
        if last["left"] and last["unreadable"]:
            notes.append(
                f"{source}: {last['left']:,} known row(s) of {name} were not seen and are not deleted,"
                f" because {last['unreadable']:,} row(s) could not be read: correct them and publish again"
            )
    return notes


def _choose_tables(
    options: TriggerlessOptions, state: TriggerlessState, samples: TableQueueOptions, clock: int
) -> tuple[Callable[[str], bool], int | None]:
    """Returns a test whether a table may have changed, and the time of the last sample used for it."""
    if options.hints is None:
        return (lambda _: True), None
    hints = read_hints(options.samples, samples, state.hinted)
    if hints.problems:  # an unreadable sample may have shown any table
        return (lambda _: True), hints.until
    before = clock - int(options.full_interval * MICROSECONDS)

    def may_differ(name: str) -> bool:
        known = state.tables.get(name)
        return known is None or known["compared"] <= before or matches_hint(name, options, hints)

    return may_differ, hints.until


def matches_hint(name: str, options: TriggerlessOptions, hints: Hints) -> bool:
    """Returns whether samples show a table as touched; schemas count if both sides name one."""
    parts = split_name(name)
    if parts is None:
        return True
    schema, table = parts[0] or options.schema, parts[1]
    return any(
        hint.name.casefold() == table.casefold()
        and (hint.schema is None or schema is None or hint.schema.casefold() == schema.casefold())
        for hint in hints.tables
    )
