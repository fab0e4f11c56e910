"""Which tables a start of a job compares: those whose input is not what it was at the last comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from publisher.settings import SourceSettings
from publisher.sources import snapshots
from publisher.sources.triggerless.inputs import by_table
from publisher.sources.triggerless.state import State, identity_of


def due(source: SourceSettings, folder: Path | None) -> SourceSettings:
    """The source with the tables that are to be compared, as far as they are known by name.

    Tables of a database always are.  Files that are the same as at the last comparison hold nothing new.
    """
    assert source.compared is not None
    if not source.snapshots:
        return source
    state = State.read(folder) if folder is not None else None
    paths = [path.absolute() for path in snapshots.files(source.snapshots, may_be_none=True)]
    chosen: list[Path] = []
    for name, files in by_table(paths, source.compared).items():
        known = state.tables.get(name) if state is not None else None
        if files and (known is None or known["input"] != identity_of(files)):
            chosen += files
    return replace(
        source,
        snapshots=tuple(chosen),
        options=replace(source.compared, tables=_named(chosen, source)),
    )


def _named(chosen: list[Path], source: SourceSettings) -> tuple[str, ...]:
    assert source.compared is not None
    tables = source.compared.tables
    if not tables:
        return ()
    return tuple(name for name, files in by_table(chosen, source.compared).items() if files)
