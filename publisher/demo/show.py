"""Prints a document and the outcomes of a run."""

from __future__ import annotations

from pathlib import Path

from lxml import etree
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from publisher.ledger.conservation import RunReport
from publisher.model.change import Outcome
from publisher.xds.layout import document_lines

_SHOWN_REASONS = 3


def find_operation(folder: Path, operation: str, association: str) -> str | None:
    """Reads the first operation of this kind on an object."""
    for part in sorted(folder.glob("part-*.xds")):
        with part.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                if f"<{operation} " in line and f"<association>{association}<" in line:
                    return etree.tostring(
                        etree.fromstring(line.encode())[-1][0], encoding="unicode"
                    )
    return None


def print_operation(console: Console, operation: str) -> None:
    """Prints an operation as all commands show documents."""
    console.print(Text.from_ansi("\n".join(document_lines(operation))))


def print_outcomes(console: Console, report: RunReport) -> None:
    """Prints the five outcomes and their reasons, which add up to the records read."""
    table = Table(box=box.SIMPLE, show_edge=False)
    console.print("[bold]Every record of the log has exactly one outcome")
    table.add_column("outcome")
    table.add_column("records", justify="right")
    table.add_column("reasons")
    for outcome in Outcome:
        counts = report.reasons.get(outcome.label, {})
        reasons = sorted(counts.items(), key=lambda item: -item[1])
        text = ", ".join(f"{reason} {count:,}" for reason, count in reasons[:_SHOWN_REASONS])
        if len(reasons) > _SHOWN_REASONS:
            text += f", {len(reasons) - _SHOWN_REASONS} more"
        table.add_row(outcome.label, f"{report.outcomes[outcome.label]:,}", text)
    table.add_section()
    table.add_row("read", f"{report.read:,}")
    console.print(table)
