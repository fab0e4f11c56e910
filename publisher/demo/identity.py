"""Prints one user as each system recorded it: a change side by side, and the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from publisher.consumer import AddValue, AttributeChange, RemoveAllValues, RemoveValue
from publisher.demo.recorded_sources import RecordedSource
from publisher.demo.recordings import Operations, attributes_of, changes_of
from publisher.reports.history import IdentityHistory, ValueChange, read_history

USER = "idu=1,table=usr,schema=indirect"
"""The user whose changes are shown."""
_CHANGE = "\nUser 1, Jack Frost, gets another name, manager and phone"
_REASON = (
    "The log has an event for each column, and its events become one document. The other systems record"
    " rows: each row of the child table usr_phone changes a value of the user, in a document of its own."
    " Linkexpress records another phone as two rows, a deleted and an inserted one."
)
"""Explains why the documents of the change differ."""


def print_change(
    console: Console, sources: Sequence[RecordedSource], recorded: Sequence[Operations]
) -> None:
    """Prints one change of the user by attribute: systems with the same values share a line."""
    table = Table(title=_CHANGE, title_justify="left")
    for name in ("attribute", "old → new", "recorded by"):
        table.add_column(name)
    titles = [source.title for source in sources]
    names = dict.fromkeys(name for of_source in recorded for name in _attributes(of_source))
    for name in names:
        changes = [
            _change([change for operation in of_source for change in changes_of(operation, name)])
            for of_source in recorded
        ]
        for text, group in _groups(changes, titles):
            table.add_row(name, text, group)
    table.add_section()
    for text, group in _groups([str(len(of_source)) for of_source in recorded], titles):
        table.add_row("(documents)", text, group)
    console.print(table)
    console.print(_REASON, style="dim", markup=False)


class RecordedRun(NamedTuple):
    """A source of a run."""

    title: str
    journal: Path
    source: str


def print_history(console: Console, runs: Iterable[RecordedRun]) -> None:
    """Prints the documents of the user with the values before and after each; equal ones once."""
    console.print("\n[bold]History of user 1, as each system recorded it")
    titles: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run in runs:
        [history] = read_history([run.journal], USER, source=run.source)
        titles.setdefault(tuple(_documents(history)), []).append(run.title)
    for documents, group in titles.items():
        console.print(", ".join(group))
        table = Table.grid(padding=(0, 1))
        for operation, changes in documents:
            table.add_row(f"  {operation}", changes)
        console.print(table)


def _documents(history: IdentityHistory) -> Iterator[tuple[str, str]]:
    """Yields the operation of each document, and its effect on the values."""
    for entry in history.entries:
        if entry.story.document is not None and entry.changes is not None:
            changes = "; ".join(map(_effect, entry.changes))
            yield entry.story.document.operation, changes


def _effect(change: ValueChange) -> str:
    after = _texts(change.after or ())
    if change.before == ():
        return f"{change.attribute}: {after}"
    before = "unknown" if change.before is None else _texts(change.before)
    return f"{change.attribute}: {before} → {after}"


def _attributes(operations: Operations) -> Iterator[str]:
    """Yields the names of the attributes that operations change, those of the parent's row first."""
    for operation in operations:
        yield from sorted(attributes_of(operation))


def _groups(texts: Sequence[str], titles: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields each text with the titles of the systems that have it."""
    for text in dict.fromkeys(texts):
        own = [title for title, each in zip(titles, texts, strict=True) if each == text]
        others = [title for title in titles if title not in own]
        if not others:
            yield text, "all"
        elif len(others) == 1:
            yield text, f"all but {others[0]}"
        else:
            yield text, ", ".join(own)


def _change(changes: Sequence[AttributeChange]) -> str:
    """Formats the changes of one attribute."""
    removed = [change.value.text for change in changes if isinstance(change, RemoveValue)]
    added = [change.value.text for change in changes if isinstance(change, AddValue)]
    old = "unknown" if isinstance(changes[0], RemoveAllValues) else _texts(removed)
    return f"{old} → {_texts(added)}"


def _texts(values: Sequence[str]) -> str:
    """Formats values, references by their key alone."""
    return ", ".join(value.partition(",table=")[0] for value in values) or "nothing"
