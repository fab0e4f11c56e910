"""Finds the tables that may have changed since their last comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from publisher.formats.columns.object_names import split_name
from publisher.formats.table_queue.hints import Hints, read_hints
from publisher.formats.table_queue.options import TableQueueOptions
from publisher.formats.triggerless.options import TriggerlessOptions
from publisher.formats.triggerless.state import TriggerlessState

MICROSECONDS = 1_000_000


def choose_tables(
    options: TriggerlessOptions, state: TriggerlessState, samples: TableQueueOptions, clock: int
) -> tuple[Callable[[str], bool], int | None]:
    """Returns a function that tests whether a table may have changed, and the time of the last sample.

    With hints, a table is compared if samples show it as touched since its last comparison, or if
    ``full_interval`` has passed since then.  ``clock`` is in microseconds since 1970 UTC.
    """
    if not options.samples:
        return (lambda _: True), None
    hints = read_hints(options.samples, samples, state.hinted)
    if hints.problems:  # an unreadable sample may have shown any table
        return (lambda _: True), hints.until
    before = clock - int(options.full_interval * MICROSECONDS)

    def may_differ(name: str) -> bool:
        known = state.tables.get(name)
        if known is None or known["compared"] <= before:
            return True
        names = (name, *known.get("children", ()))
        return any(matches_hint(each, options, hints) for each in names)

    return may_differ, hints.until


def matches_hint(name: str, options: TriggerlessOptions, hints: Hints) -> bool:
    """Tests whether samples show a table as touched; compares schemas if both names have one."""
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
    """Returns a note for each table with missing rows that may exist, because some rows were unreadable."""
    notes = []
    for name, table in TriggerlessState.read(folder).tables.items():
        last = table["last"]
        if last["left"] and last["unreadable"]:
            notes.append(
                f"{source}: {last['left']:,} known row(s) of {name} are missing but not deleted,"
                f" because {last['unreadable']:,} row(s) could not be read: correct these rows, and publish"
                " again"
            )
    return notes
