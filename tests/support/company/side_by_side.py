"""Several recordings side by side, as the page about them shows them: counts, and all kinds of changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from publisher.model.change import Outcome
from tests.support.company.compare import Line
from tests.support.company.job import flat_counts
from tests.support.company.recorded_sources import RecordedSource


def outcome_rows(sources: Sequence[RecordedSource]) -> Iterator[str]:
    """Yields rows of a Markdown table: the outcomes of each source add up to the records read."""
    flat = [flat_counts(source.counts) for source in sources]
    for name in ("read", *(outcome.label for outcome in Outcome)):
        yield _row([name, *(f"{counts[name]:,}" for counts in flat)])


def change_rows(lines: Sequence[Line]) -> Iterator[str]:
    """Yields rows of a Markdown table: kinds of changes with the form of each system's documents.

    The same bold letter in a row stands for the same documents, value for value.
    """
    for line in lines:
        forms = (
            f"**{cell.letter}** {cell.form}" if cell.letter else cell.form for cell in line.cells
        )
        yield _row([line.kind.name, line.kind.types, f"{line.acts:,}", *forms])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
