"""Prints several recordings side by side: their counts, and all kinds of changes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from publisher.demo.compare import Cell, Line
from publisher.demo.recorded_sources import RecordedSource
from publisher.demo.show import flat_counts
from publisher.model.change import Outcome

_FORM_WIDTH = 24
"""Characters of the longest form."""
FORMS = (
    "old → new: the documents contain the old and the new value of each changed column; one value: a value"
    " is added or removed; new: only the new values; whole row: the new values of all columns; whole object:"
    " also those of its child tables. The last three remove all earlier values first."
)
"""Explains the forms in the lines."""
DIFFERENCES = (
    (
        "Systems with the same letter give the same documents, value for value (decimals are compared as"
        " numbers, because SQLite and DISPATCH_ATTRS drop trailing zeros). The others differ because:"
    ),
    (
        "- Event types 3 and 5 to 8 give only the new value of a column. Change tables have before images,"
        " and the dispatch queue has both images of a row, so they also give the old value, as event type 2"
        " does."
    ),
    (
        "- Linkexpress records the whole new row without marking the changed columns. It is published as"
        " event type 3. A row query-back (5, 6) also reads the phones of the employee, from a child table."
    ),
    (
        "- An insert with query-back (5, 7) becomes a <modify>, as the driver's guide prints it"
        ' (insert_query_back = "add" changes that). The other systems record the new row, which becomes an'
        " <add>."
    ),
    (
        "- A row of the child table employee_phone is a value of the employee. Its key contains the phone, so"
        " Linkexpress records another phone as a deleted and an inserted row."
    ),
    "- A query-back reads the row as it is during the run, not as it was after the change.",
    (
        "- Only the event log records who made a change, so only there changes by the driver's user are"
        " ignored. Only the event log names views; the other systems name the underlying table."
    ),
)
"""Explains why documents of one change differ."""


def print_sources(console: Console, sources: Sequence[RecordedSource]) -> None:
    """Prints a column for each source of the job; its outcomes add up to the records read."""
    table = Table(title="\nOne job, one journal: the outcomes of the records of each source")
    table.title_justify = "left"
    table.add_column("recorded by")
    for source in sources:
        table.add_column(source.title, justify="right")
    table.add_row("source", *(source.name for source in sources))
    flat = [flat_counts(source.counts) for source in sources]
    for name in ("read", *(outcome.label for outcome in Outcome)):
        table.add_row(name, *(f"{counts[name]:,}" for counts in flat))
    console.print(table)


def print_lines(console: Console, sources: Sequence[RecordedSource], lines: Sequence[Line]) -> None:
    """Prints the forms of each source's documents by kind of change, then why they differ."""
    console.print("\n[italic]The same day, as each system recorded it")
    for line in lines:
        times = "time" if line.acts == 1 else "times"
        kind = f"{line.kind.name}, in the log event type {line.kind.types}"
        console.print(f"{kind}: {line.acts:,} {times}")
        for cell, titles in _group_sources(line, sources).items():
            names = ", ".join(titles) if len(titles) < len(sources) else "all"
            console.print(f"  [bold]{cell.letter or ' '}[/] {cell.form:<{_FORM_WIDTH}}  {names}")
    console.print()
    for sentence in (FORMS, *DIFFERENCES):
        console.print(sentence, style="dim", markup=False)


def _group_sources(line: Line, sources: Sequence[RecordedSource]) -> dict[Cell, list[str]]:
    """Groups the titles of the sources whose documents of a line are the same."""
    titles: dict[Cell, list[str]] = {}
    for cell, source in zip(line.cells, sources, strict=True):
        titles.setdefault(cell, []).append(source.title)
    return titles
