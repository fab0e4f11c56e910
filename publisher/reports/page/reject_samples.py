"""Samples of rejected records, a few for each reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from publisher.console import shorten
from publisher.dispatch.refusals import Refusal
from publisher.ledger.parts import LedgerPart
from publisher.model.change import Outcome, Position
from publisher.reports.selectors import PositionTexts

_SAMPLES = 5
"""Maximum number of samples of each reason."""
_COLUMNS = ("source", *Position._fields, "reason", "table", "key", "detail", "raw")


@dataclass(frozen=True, slots=True)
class RejectSample:
    """A rejected record, or the first record of a refused document; long texts are truncated."""

    run: str
    source: str
    position: str
    object: str | None
    detail: str
    raw: str | None


@dataclass(frozen=True, slots=True)
class Rejects:
    """Rejected records of one reason."""

    reason: str
    records: int
    samples: tuple[RejectSample, ...]


class RejectSamples:
    """Keeps the first samples of each reason."""

    def __init__(self) -> None:
        self._samples: dict[str, list[RejectSample]] = {}

    def lack(self, reasons: Iterable[str]) -> bool:
        """Returns whether one of the reasons needs more samples."""
        return any(len(self._samples.get(reason, ())) < _SAMPLES for reason in reasons)

    def add_part(self, part: LedgerPart) -> None:
        """Takes samples from the records of a part."""
        rejected = part.records(_COLUMNS, pc.field("outcome") == int(Outcome.REJECTED))
        for reason in pc.unique(rejected["reason"]).to_pylist():
            missing = _SAMPLES - len(self._samples.get(reason, ()))
            of_reason = rejected.filter(pc.equal(rejected["reason"], reason)).slice(0, missing)
            self._add(reason, _samples(part, of_reason))

    def add_refusals(self, run: str, refusals: Iterable[Refusal]) -> None:
        """Takes samples from the documents that a sink refused."""
        for refusal in refusals:
            sample = RejectSample(
                run, refusal.source, refusal.position, None, shorten(refusal.detail), None
            )
            self._add(refusal.reason, [sample])

    def of(self, records: Mapping[str, int]) -> list[Rejects]:
        """Returns the samples of each reason, most frequent reason first; ``records`` counts by reason."""
        ordered = sorted(records.items(), key=lambda item: (-item[1], item[0]))
        return [
            Rejects(reason, count, tuple(self._samples.get(reason, ())))
            for reason, count in ordered
        ]

    def _add(self, reason: str, samples: Iterable[RejectSample]) -> None:
        kept = self._samples.setdefault(reason, [])
        kept += list(samples)[: _SAMPLES - len(kept)]


def _samples(part: LedgerPart, rejected: pa.Table) -> list[RejectSample]:
    samples = []
    positions = PositionTexts(part.runs)
    for entry in rejected.to_pylist():
        run = part.runs[entry["run"]]
        source = run.manifest.sources[entry["source"]]
        samples.append(
            RejectSample(
                run.manifest.run,
                source.name,
                shorten(positions.of(entry)),
                shorten(f"{entry['key']} of {entry['table']}") if entry["key"] else None,
                shorten(entry["detail"] or ""),
                None if entry["raw"] is None else shorten(entry["raw"]),
            )
        )
    return samples
