"""Which tables the next run of a job compares: those that may not be what they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from publisher.settings import SourceSettings
from publisher.sources import snapshots
from publisher.sources.event_log_names import split_name
from publisher.sources.table_queue import Hints, TableQueueOptions, hints_of
from publisher.sources.triggerless.inputs import by_table
from publisher.sources.triggerless.options import Options
from publisher.sources.triggerless.state import State, identity_of

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
    paths = [path.absolute() for path in snapshots.files(source.snapshots, may_be_none=True)]
    chosen: dict[str, list[Path]] = {}
    for name, files in by_table(paths, options).items():
        known = state.tables.get(name)
        if files and wanted(name) and (known is None or known["input"] != identity_of(files)):
            chosen[name] = files
    return replace(
        source,
        snapshots=tuple(path for files in chosen.values() for path in files),
        options=replace(options, tables=tuple(chosen) if options.tables else ()),
        hinted=until,
    )


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
