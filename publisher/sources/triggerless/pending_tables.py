"""Finds the tables that may have changed since their last comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from publisher.sources.columns.object_names import split_name
from publisher.sources.table_queue import Hints, TableQueueOptions, read_hints
from publisher.sources.triggerless.carry_over import TriggerlessState
from publisher.sources.triggerless.options import TriggerlessOptions

MICROSECONDS = 1_000_000


def choose_tables(
    options: TriggerlessOptions, state: TriggerlessState, samples: TableQueueOptions, clock: int
) -> tuple[Callable[[str], bool], int | None]:
    """Returns a test whether a table may have changed, and the time of the last sample used for it.

    With hints a table is compared if samples after its last comparison show it as touched, or if that
    is ``full_interval`` ago.  ``clock`` is in microseconds since 1970 UTC.
    """
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
