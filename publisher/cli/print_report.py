"""Prints reports of runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from publisher.cli.verbosity import Verbosity, verbosity
from publisher.errors import BudgetError

if TYPE_CHECKING:
    from publisher.ledger.conservation import RunReport


_LINES_AT_ONCE = 200
"""To print a single line takes longer than to format it."""


def echo(lines: Iterable[str], *, err: bool = False) -> None:
    """Prints lines, with control characters as escapes."""
    from publisher.console import Styled, printable

    waiting: list[str] = []
    try:
        for line in lines:
            waiting.append(line if isinstance(line, Styled) else printable(line))
            if len(waiting) == _LINES_AT_ONCE:
                waiting, ready = [], waiting
                click.echo("\n".join(ready), err=err)
    finally:
        if waiting:
            click.echo("\n".join(waiting), err=err)


def echo_notes(notes: Iterable[str]) -> None:
    """Prints notes on standard error, unless ``-q`` is given."""
    if verbosity() is not Verbosity.QUIET:
        echo((f"note: {note}" for note in notes), err=True)


def echo_json(lines: Iterable[str]) -> None:
    """Prints JSON texts, with control characters as JSON escapes."""
    from publisher.console import printable_json

    for line in lines:
        click.echo(printable_json(line))


def show(report: RunReport, json_: bool, allowed: int | None) -> None:
    """Prints a report.  Raises ``BudgetError`` if more records were rejected than ``allowed``."""
    from publisher.cli import output

    if json_:
        echo_json([output.as_json(report)])
    else:
        echo(output.run_text(report))
    echo_notes(report.notes)
    if allowed is not None and report.rejected > allowed:
        place = output.rejects_file(report) or "the output of inspect"
        raise BudgetError(
            f"records rejected: {report.rejected:,}, allowed: {allowed:,}; see {place}, correct the "
            "source, or raise [job] reject_budget"
        )
