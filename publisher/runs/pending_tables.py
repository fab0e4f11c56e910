"""Which tables the next run of a job compares: those that may not be what they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from publisher.config.settings import SourceSettings
from publisher.database import Database
from publisher.model.catalogue import Catalogue
from publisher.sources.columns.object_names import split_name
from publisher.sources.table_queue import Hints, TableQueueOptions, hints_of
from publisher.sources.table_queue.reading import sample_files
from publisher.sources.triggerless.carry_over import State, identity_of
from publisher.sources.triggerless.input_files import files_by_table
from publisher.sources.triggerless.live_tables import live_shapes, refuse_other_databases
from publisher.sources.triggerless.options import Options
from publisher.sources.triggerless.plan_comparison import Given, file_inputs

MICROSECONDS = 1_000_000


def due(
    source: SourceSettings, folder: Path | None, samples: TableQueueOptions, clock: int
) -> SourceSettings:
    """The source with the tables that are to be compared.

    ``folder`` is the state that the last run left, ``clock`` is in microseconds since 1970 UTC.  Files
    that are the same as at the last comparison hold nothing new.  With hints a table is compared where
    samples after the last comparison show it as touched, or where that is ``full_interval`` ago.

    Raises:
        PublisherError: State, files or samples cannot be read.
    """
    options = source.compared
    assert options is not None
    state = State.read(folder) if folder is not None else State.empty()
    wanted, until = _wanted(options, state, samples, clock)
    if not source.snapshots:
        tables = tuple(name for name in options.tables if wanted(name))
        return replace(source, options=replace(options, tables=tables), hinted=until)
    chosen: dict[str, list[Path]] = {}
    for name, files in files_by_table(source.snapshots, options, may_be_none=True).items():
        known = state.tables.get(name)
        if files and wanted(name) and (known is None or known["input"] != identity_of(files)):
            chosen[name] = files
    return replace(narrowed(source, chosen), hinted=until)


def narrowed(source: SourceSettings, chosen: Mapping[str, Sequence[Path]]) -> SourceSettings:
    """The same source of files with some of its tables, and the files of these."""
    options = source.compared
    assert options is not None
    return replace(
        source,
        snapshots=tuple(path for files in chosen.values() for path in files),
        options=replace(options, tables=tuple(chosen) if options.tables else ()),
    )


def tables_of(source: SourceSettings) -> list[str]:
    """The tables that a source compares."""
    options = source.compared
    assert options is not None
    if not source.snapshots:
        return list(options.tables)
    return [name for name, files in files_by_table(source.snapshots, options).items() if files]


def examined(source: SourceSettings, catalogue: Catalogue, folder: Path | None) -> str:
    """What there is to compare, for people; nothing is compared.

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
        given = Given(catalogue, Path(), wanted=1)
        tables = file_inputs(by_table, options, source.reading, given)
        size = sum(path.stat().st_size for path in paths)
        return f"{len(tables)} table(s) in {len(paths)} file(s), {size:,} bytes"
    assert source.database is not None  # for_publish has seen to it
    with Database(source.database) as database:
        found = live_shapes(database, options, catalogue)
        if folder is not None:
            refuse_other_databases(database, options, State.read(folder).tables, source.name)
        return f"{len(found)} table(s) of {database.name} can be compared"


def comparison_notes(folder: Path, source: str) -> list[str]:
    """What is to be said of the comparison that left a state: rows that stay for want of proof."""
    notes = []
    for name, table in State.read(folder).tables.items():
        last = table["last"]
        if last["left"] and last["unreadable"]:
            notes.append(
                f"{source}: {last['left']:,} known row(s) of {name} were not seen and are not deleted,"
                f" for {last['unreadable']:,} row(s) could not be read: mend them and publish again"
            )
    return notes


def _wanted(
    options: Options, state: State, samples: TableQueueOptions, clock: int
) -> tuple[Callable[[str], bool], int | None]:
    """Whether a table may have changed, and the time of the last sample that was asked."""
    if options.hints is None:
        return (lambda _: True), None
    hints = hints_of(options.samples, samples, state.hinted)
    if hints.problems:  # what they would have said is not known
        return (lambda _: True), hints.until
    before = clock - int(options.full_interval * MICROSECONDS)

    def wanted(name: str) -> bool:
        known = state.tables.get(name)
        return known is None or known["compared"] <= before or touched(name, options, hints)

    return wanted, hints.until


def touched(name: str, options: Options, hints: Hints) -> bool:
    """Whether samples show a table as touched; a schema counts where both sides say one."""
    parts = split_name(name)
    if parts is None:
        return True
    schema, table = parts[0] or options.schema, parts[1]
    return any(
        found.name.casefold() == table.casefold()
        and (found.schema is None or schema is None or found.schema.casefold() == schema.casefold())
        for found in hints.tables
    )
