"""Notes in reports of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from publisher.ledger.conservation import RunReport

if TYPE_CHECKING:
    from publisher.acknowledge.status_letters import ReadProgress
    from publisher.ledger.manifest import Manifest

STATUS_NOTE = (
    "statuses are not written back: rows of the event log stay N, the next publish sends them again"
)


def late_notes(source: str, manifest: Manifest, progress: ReadProgress) -> Iterator[str]:
    """Notes the number of late records that a live source published."""
    if progress.late:
        yield (
            f"late: {progress.late:,} published record(s) of {source} have a record_id below "
            f"{manifest.behind[source]}, which an earlier run had read: committed late, held or retried"
        )


def object_note(source: str) -> str:
    """Notes that event ids name the objects (``IdOrigin.by_object``)."""
    return (
        f"event ids of {source} name the objects, too: records of several objects have the same position in "
        "this run"
    )


def notes_of(reports: Iterable[RunReport]) -> list[str]:
    """Collects the notes of several runs."""
    return [note for report in reports for note in report.notes]


def with_notes(report: RunReport, notes: Iterable[str]) -> RunReport:
    """Adds notes to a report, each only once."""
    return replace(report, notes=tuple(dict.fromkeys((*report.notes, *notes))))
