"""Polls as a following publisher reports them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from publisher.ledger.conservation import RunReport, SourceCounts
from publisher.observing.contract import Poll

REPORT = RunReport(
    run="people-000017",
    state="published",
    ledger="",
    target="kafka://broker:9092/xds",
    read=1200,
    outcomes={"published": 1150, "superseded": 30, "ignored": 15, "held": 0, "rejected": 5},
    reasons={"ignored": {"no-change": 15}, "rejected": {"table-key": 2, "event-time": 3}},
    sources=(SourceCounts("log", 1200, {"published": 1150}),),
    documents=400,
    operations={"add": 100, "modify": 300},
    bytes=80_000,
    seconds={"plan": 0.5, "dispatch": 0.2},
    statuses={"E": 5, "S": 1180, "W": 15},
)


def poll(**changed: Any) -> Poll:
    """The poll of a document's example; ``changed`` are fields of its report."""
    return Poll(replace(REPORT, **changed), 0.81, 1200, 1.23, transactions=8, retries=1)
