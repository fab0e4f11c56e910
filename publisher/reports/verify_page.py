"""Renders the result of a verification as one HTML page that needs no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from publisher import __version__
from publisher.reports.page.render import page_environment, policy_of, source_of
from publisher.runs.verify import VerifyReport
from publisher.verify.compare import FINDINGS, ResultKind
from publisher.verify.results import LABELS, BucketOutcome, ConsumerResult, TableResult


@dataclass(frozen=True, slots=True)
class Totals:
    """Number of objects of all tables by result."""

    equal: int
    kinds: Mapping[str, int]

    @classmethod
    def of(cls, outcome: BucketOutcome) -> Totals:
        """Adds the results of all tables."""
        kinds = {str(kind): outcome.count([kind]) for kind in ResultKind}
        equal = sum(table.equal for table in outcome.tables)
        return cls(equal, {kind: count for kind, count in kinds.items() if count})


def render_verification(report: VerifyReport, now: datetime) -> str:
    """Renders the page."""
    environment, outcome = page_environment(), report.outcome
    style = source_of(environment, "report.css")
    parts: list[tuple[str, TableResult | ConsumerResult, str, str]] = [
        (table.table, table, "documents", "table") for table in outcome.tables
    ]
    if outcome.consumer is not None:
        parts.append(("Consumer", outcome.consumer, "consumer", "documents"))
    return environment.get_template("verify.html.j2").render(
        findings=[str(kind) for kind in FINDINGS],
        labels=LABELS,
        outcome=outcome,
        parts=parts,
        policy=policy_of(style),
        program=f"xds-publisher {__version__}",
        report=report,
        style=Markup(style),  # noqa: S704 - a file of the program
        title=f"Verification of {report.job}",
        totals=Totals.of(outcome),
        written=now.isoformat(),
    )
