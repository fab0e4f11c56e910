"""Retries of rejected records: what became of them, and which records may be retried."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from publisher.ledger.manifest import SourceEntry
from publisher.ledger.parts import LedgerPart
from publisher.model.change import Outcome

_COLUMNS = ("source", "split", "row", "outcome", "reason")


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The result of a retry: its run, and the outcome of the corrected record in it."""

    run: str
    outcome: str
    reason: str | None

    def text(self) -> str:
        """Describes the result."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"retried in run {self.run}: {self.outcome}{reason}"


def reject_id(run: str, split: int, row: int) -> str:
    """The id of a rejected record."""
    return f"{run}:{split}:{row}"


def file_of(source: SourceEntry, split: int) -> str | None:
    """The path of the file of a split; ``None`` for a table."""
    if source.table is not None:
        return None
    path = source.splits[split - source.first_split].get("path")
    return None if path is None else str(path)


def retried_files(source: SourceEntry, split: int) -> frozenset[PurePath]:
    """The files that a ``RetriedRecord`` of a split may name: its own, or none for all of the source."""
    return frozenset({PurePath(file_of(source, split) or ""), PurePath()})


def read_retries(parts: Iterable[LedgerPart]) -> dict[str, RetryResult]:
    """The results of all retries, by the id of the rejected record."""
    results: dict[str, RetryResult] = {}
    for part in parts:
        ids: defaultdict[tuple[int, int, PurePath, int], list[str]] = defaultdict(list)
        for number, run in enumerate(part.runs):
            for record in run.manifest.retried:
                place = number, record.source, PurePath(record.file), record.row
                ids[place].append(record.id)
        if not ids:
            continue
        for entry in part.records(_COLUMNS).to_pylist():
            manifest = part.runs[entry["run"]].manifest
            outcome = Outcome(entry["outcome"]).label
            for path in retried_files(manifest.sources[entry["source"]], entry["split"]):
                for name in ids.get((entry["run"], entry["source"], path, entry["row"]), ()):
                    results[name] = RetryResult(manifest.run, outcome, entry["reason"])
    return results
