"""Prints several recordings side by side: their counts, one change, all kinds of changes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from publisher.demo.compare import Cell, Line
from publisher.demo.recorded import Recorded
from publisher.demo.recordings import Attribute, Operations
from publisher.demo.show import flat_counts
from publisher.model.change import Outcome

_FORM = 24
"""Characters of the longest form."""
FORMS = (
    "old → new: what a column was and is; new: what it is; whole row: that of all columns (both remove all"
    " values first)."
)
"""What the forms in the lines mean."""
WHY = (
    (
        "The same letter in a line: the same documents, value for value (decimals as numbers: SQLite and"
        " DISPATCH_ATTRS keep no zeros at their end). Where it is missing:"
    ),
    (
        "- Types 3 and 5 to 8 say what a column is now. Change tables have before images, the dispatch"
        " queue both images of a row: they say what it was, too, as type 2 does."
    ),
    (
        "- Linkexpress has the new row only, and not what changed in it: the whole row as type 3, which"
        " is what the query-back of a row (6) gives."
    ),
    (
        "- An insert that is read back (5, 7) is a <modify>, as the driver's guide prints it"
        ' (insert_query_back = "add" changes that); the others have the new row, and add it.'
    ),
    "- A query-back reads the row as it is now, not as it was then.",
    (
        "- Only a log knows who did it: what the driver's user did is not published from it. Only a log"
        " speaks of views: the others name the table behind."
    ),
)
"""Why documents of one change differ."""


def print_sources(console: Console, sources: Sequence[Recorded]) -> None:
    """One column for each source of the job; its outcomes add up to the records read."""
    table = Table(title="\nOne job, one journal: what became of the records of each source")
    table.title_justify = "left"
    table.add_column("recorded by")
    for source in sources:
        table.add_column(source.title, justify="right")
    table.add_row("source", *(source.name for source in sources))
    flat = [flat_counts(source.counts) for source in sources]
    for name in ("read", *(outcome.label for outcome in Outcome)):
        table.add_row(name, *(f"{counts[name]:,}" for counts in flat))
    console.print(table)


def print_change(
    console: Console, title: str, sources: Sequence[Recorded], recorded: Sequence[Operations]
) -> None:
    """One change of a row, as each source tells it."""
    names = sorted({a.name for operations in recorded for a in operations[0].attributes})
    table = Table(title=f"\n{title}", title_justify="left")
    table.add_column("recorded by")
    for name in names:
        table.add_column(name)
    for source, operations in zip(sources, recorded, strict=True):
        said = {attribute.name: attribute for attribute in operations[0].attributes}
        table.add_row(source.title, *(_change(said.get(name)) for name in names))
    console.print(table)


def print_lines(console: Console, sources: Sequence[Recorded], lines: Sequence[Line]) -> None:
    """The documents of each source, by what happened; then why they differ."""
    console.print("\n[italic]The same day, recorded by each")
    for line in lines:
        console.print(f"{line.kind.what} (in the log: {line.kind.types}), {line.acts:,} times")
        for cell, titles in _alike(line, sources).items():
            names = ", ".join(titles) if len(titles) < len(sources) else "all"
            console.print(f"  [bold]{cell.alike or ' '}[/] {cell.form:<{_FORM}}  {names}")
    console.print()
    for sentence in (FORMS, *WHY):
        console.print(sentence, style="dim", markup=False)


def _alike(line: Line, sources: Sequence[Recorded]) -> dict[Cell, list[str]]:
    """The sources whose documents of a line are the same."""
    found: dict[Cell, list[str]] = {}
    for cell, source in zip(line.cells, sources, strict=True):
        found.setdefault(cell, []).append(source.title)
    return found


def _change(attribute: Attribute | None) -> str:
    if attribute is None:
        return ""
    old = "any" if attribute.removes_all else _value(attribute.removed)
    return f"[dim]{old} →[/] {_value(attribute.added)}"


def _value(values: Sequence[str]) -> str:
    """Without its type."""
    return ", ".join(value.partition(" ")[2] for value in values) or "nothing"
