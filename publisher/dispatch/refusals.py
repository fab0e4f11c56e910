"""The dispatch record: documents of a run that a sink refuses permanently, written before sending.

A record with refusals is durable before anything is sent, so a run without a record has none.

A run has one such record for each sink.  Reports combine it with the records: the records
of a refused document count as rejected, not as published.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from publisher.ledger.conservation import RunReport
from publisher.ledger.durable import decode_versioned_text
from publisher.ledger.runs import LedgerRun, StoredRun
from publisher.model.change import Outcome
from publisher.model.plain import fields_of, restore

RECORD_FORMAT = 3
_PREFIX = "dispatch-"
_REMEDY = "remove it and send with --again"


class RefusalReason(StrEnum):
    """Reason of a refusal.  The values are stored in ledger: never change or reuse one."""

    TOO_LARGE = "too-large"
    """The document is larger than its topic permits."""
    TOPIC_NAME = "topic-name"
    """The topic template yields no usable name for the document's table."""
    AFTER_REFUSED = "after-refused"
    """The document is a difference from the state that a refused document would have left."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that the sink refuses.

    ``document`` is its number in the lane, ``position`` the position of its first change, ``records`` are
    the positions of all its records, joined with commas; ``detail`` describes the problem and what to do.
    """

    lane: int
    document: int
    source: str
    position: str
    records: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class DispatchRecord:
    """The result of surveying a run for a sink.  ``plan`` identifies the plan of the run; ``topics`` are the
    topics of its documents."""

    run: str
    plan: str
    target: str
    topics: tuple[str, ...]
    batch_bytes: int
    """Maximum bytes of a batch that every topic accepts."""
    document_bytes: int
    """Maximum bytes of a document that at least one topic accepts."""
    refusals: tuple[Refusal, ...]

    def of_lane(self, lane: int) -> frozenset[int]:
        """The numbers of the refused documents of a lane."""
        return frozenset(entry.document for entry in self.refusals if entry.lane == lane)

    def after(self, sent: Mapping[int, int]) -> DispatchRecord:
        """Omits refusals of documents that are sent: ``sent`` counts the first documents of each lane."""
        refusals = (entry for entry in self.refusals if entry.document >= sent.get(entry.lane, 0))
        return replace(self, refusals=tuple(refusals))

    def write(self, run: LedgerRun, sink: str) -> None:
        """Stores the record durably with the run if it has or replaces refusals; without them the next start
        measures what is not sent yet again.

        ``sink`` identifies the sink."""
        name = _name_of(sink)
        if self.refusals or name in run.texts():
            run.write_text(name, self.to_json(), refusals=len(self.refusals))

    def to_json(self) -> str:
        """Formats the record with its version."""
        return json.dumps({"format": RECORD_FORMAT, **fields_of(self)}, default=fields_of) + "\n"


def _name_of(sink: str) -> str:
    """The name of a sink's record among the texts of a run."""
    return f"{_PREFIX}{hashlib.sha256(sink.encode()).hexdigest()[:12]}"


def read_record(run: LedgerRun, sink: str) -> DispatchRecord | None:
    """Reads the record of one sink; ``None`` if there is none: then it has refused nothing until now.

    Raises:
        FatalError: The record is damaged, or of another version of the program.
    """
    return run.decode(_name_of(sink), RECORD_FORMAT, _decode, _REMEDY)


def read_records(texts: Mapping[str, str]) -> Iterator[DispatchRecord]:
    """Reads the records of all sinks that a run was sent to, or will be sent to, from its texts by name.

    Raises:
        FatalError: A record is damaged, or another version of the program wrote it.
    """
    for name in sorted(texts):
        if name.startswith(_PREFIX):
            yield decode_versioned_text(texts[name], name, RECORD_FORMAT, _decode, _REMEDY)


def refusals_in(texts: Mapping[str, str]) -> Iterator[Refusal]:
    """Yields the refusals in the records of ``read_records``; raises as it does."""
    for record in read_records(texts):
        yield from record.refusals


def refusals_of(runs: Sequence[StoredRun]) -> dict[tuple[int, int, int], Refusal]:
    """The refusals in some runs, by the number of the run, lane and document; raises as ``read_records``."""
    return {
        (number, refusal.lane, refusal.document): refusal
        for number, run in enumerate(runs)
        for refusal in refusals_in(run.texts)
    }


def apply_refusals(report: RunReport, refusals: Sequence[Refusal]) -> RunReport:
    """Counts the records of refused documents as rejected instead of published."""
    if not refusals:
        return report
    published, rejected = Outcome.PUBLISHED.label, Outcome.REJECTED.label
    reasons = {outcome: dict(counts) for outcome, counts in report.reasons.items()}
    refused = Counter[str]()
    for refusal in refusals:
        count = refusal.records.count(",") + 1
        refused[refusal.source] += count
        rejected_reasons = reasons.setdefault(rejected, {})
        rejected_reasons[refusal.reason] = rejected_reasons.get(refusal.reason, 0) + count

    def move(outcomes: dict[str, int], records: int) -> dict[str, int]:
        return outcomes | {
            published: outcomes[published] - records,
            rejected: outcomes[rejected] + records,
        }

    return replace(
        report,
        outcomes=move(report.outcomes, refused.total()),
        reasons=reasons,
        sources=tuple(
            replace(source, outcomes=move(source.outcomes, refused[source.name]))
            for source in report.sources
        ),
    )


def _decode(content: dict[str, Any]) -> DispatchRecord:
    del content["format"]
    return restore(DispatchRecord, content)
