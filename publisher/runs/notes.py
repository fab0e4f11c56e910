"""Notes in reports of runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from publisher.ledger.conservation import RunReport


def notes_of(reports: Iterable[RunReport]) -> list[str]:
    """Collects the notes of several runs."""
    return [note for report in reports for note in report.notes]


def with_notes(report: RunReport, notes: Iterable[str]) -> RunReport:
    """Adds notes to a report, each only once."""
    return replace(report, notes=tuple(dict.fromkeys((*report.notes, *notes))))
