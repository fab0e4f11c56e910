"""``xds-publisher diff``: compares two ledgers object by object."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json
from publisher.console import counts_text
from publisher.errors import FindingsError

if TYPE_CHECKING:
    from publisher.config.settings import Settings
    from publisher.reports.diff.compare_objects import Counts
    from publisher.reports.diff.differences import LedgerDiff, LedgerSummary
    from publisher.reports.diff.examples import OperationExample, RecordExample

_ATTRIBUTES = 10
"""Maximum number of attributes in a list of counts."""
_ATTRIBUTES_OF_EXAMPLE = 5
"""Maximum number of attributes of an operation."""


@command(
    "diff before/ after/",
    "diff -c hr.toml hr-000001 hr-000002",
)
@click.argument("first", metavar="LEDGER", type=parameters.PATH)
@click.argument("second", metavar="OTHER", type=parameters.PATH)
@click.option(
    "--examples",
    type=click.IntRange(0),
    default=3,
    metavar="N",
    help="Maximum number of examples of each kind of difference; default 3.",
)
@parameters.config
@parameters.report_form
def diff(
    first: Path,
    second: Path,
    examples: int,
    config: Path | None,
    json_: bool,
) -> None:
    """Compare two runs object by object: records, outcomes and documents.

    LEDGER and OTHER are each the ledger of a run, a directory that replay wrote, or the ledger
    directory of a job, whose runs are compared as a whole; with -c also names of runs of the job.  The exit
    code is 3 if anything differs.
    """
    from publisher.reports.diff.build import diff_ledgers

    job = None if config is None else parameters.load_settings(config)
    _show(diff_ledgers(_place(first, job), _place(second, job), examples), json_)


def _place(path: Path, job: Settings | None) -> Path:
    """The place of a ledger, which may be the name of a run of the job."""
    return path if job is None or path.exists() else job.ledger_folder / path


def _show(found: LedgerDiff, json_: bool) -> None:
    """Prints a comparison.  Raises ``FindingsError`` if anything differs."""
    from publisher.cli import output

    if json_:
        echo_json([output.as_json(found)])
    else:
        echo(_text(found))
    if found.differs:
        raise FindingsError(f"{found.first.ledger} and {found.second.ledger} differ")


def _text(found: LedgerDiff) -> Iterator[str]:
    for name, side in (("first", found.first), ("second", found.second)):
        yield f"{name:<10}  {_summary(side)}"
    for name in ("objects", "records", "operations", "documents"):
        counts: Counts = getattr(found, name)
        yield f"{name:<10}  {_counts(counts)}"
    if found.moved:
        yield f"{'order':<10}  {found.moved:,} operations come in another order"
    for difference in found.record_differences:
        yield ""
        yield f"{difference.records:,} record(s): {difference.change}"
        for record in difference.examples:
            yield f"  {_record(record)}"
    for change in found.operation_differences:
        yield ""
        yield f"{change.operations:,} operation(s): {change.change}"
        if change.attributes:
            shown = dict(list(change.attributes.items())[:_ATTRIBUTES])
            omitted = len(change.attributes) - len(shown)
            more = f", and {omitted:,} other attributes" if omitted else ""
            yield f"  attributes: {counts_text(shown)}{more}"
        for operation in change.examples:
            yield from _operation(operation)


def _summary(side: LedgerSummary) -> str:
    return (
        f"{side.ledger}: {side.runs:,} run(s), {side.records:,} records, "
        f"{side.documents:,} documents"
    )


def _counts(counts: Counts) -> str:
    return counts_text(
        {
            "same": counts.same,
            "changed": counts.changed,
            "only in the first": counts.only_first,
            "only in the second": counts.only_second,
        }
    )


def _record(example: RecordExample) -> str:
    place = f"{example.position} of {example.source}"
    return f"{place}: {example.object}" if example.object else place


def _operation(example: OperationExample) -> Iterator[str]:
    sides = (
        (example.first, example.first_association),
        (example.second, example.second_association),
    )
    texts = [f"{kind} {association}" for kind, association in sides if kind is not None]
    yield f"  {example.event_id}: {texts[0] if len(set(texts)) == 1 else ' → '.join(texts)}"
    for each in example.attributes[:_ATTRIBUTES_OF_EXAMPLE]:
        if example.first is None or example.second is None:
            yield f"    {each.attribute}: {each.first or each.second}"
        else:
            yield f"    {each.attribute}: {each.first or '(none)'} → {each.second or '(none)'}"
    omitted = len(example.attributes) - _ATTRIBUTES_OF_EXAMPLE
    if omitted > 0:
        yield f"    and {omitted:,} more attributes"
