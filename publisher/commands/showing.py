"""What commands print of a run."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from publisher.errors import BudgetError

if TYPE_CHECKING:
    from publisher.journal.report import RunReport


def show(report: RunReport, json_: bool, allowed: int | None) -> None:
    """Prints a report.  Raises ``BudgetError`` where more was rejected than ``allowed``."""
    from publisher import output

    for line in [output.as_json(report)] if json_ else output.run_text(report):
        click.echo(line)
    for note in report.notes:
        click.echo(f"note: {note}", err=True)
    if allowed is not None and report.rejected > allowed:
        where = "rejects.jsonl" if report.target else "what inspect prints"
        raise BudgetError(
            f"records rejected: {report.rejected:,}, allowed: {allowed:,}; see {where}, mend the "
            "source, or raise [job] reject_budget"
        )
