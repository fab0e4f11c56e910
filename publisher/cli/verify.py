"""``xds-publisher verify``: compares what consumers can read with the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json
from publisher.errors import FindingsError

if TYPE_CHECKING:
    from publisher.runs.verify import VerifyReport, VerifyRequest
    from publisher.verify.results import BucketOutcome, Example, TableResult

_OF_COMPARISON = ("examples", "wait_seconds", "consumer_dump")
"""Options that are fields of ``VerifyRequest``; the others override the job file."""


_UNREADABLE_ROWS = (
    "rows of the tables cannot be read, so objects that seem to be surplus may have a row, and are not"
    " deleted: correct the rows, or declare the types of their columns in [tables]"
)


@command("verify -c hr.toml", "verify -c hr.toml --repair --dry-run")
@parameters.config_required
@click.option(
    "--examples",
    type=click.IntRange(0, 1_000),
    default=5,
    show_default=True,
    metavar="N",
    help="Maximum number of examples of each kind and table.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time to wait for changes that an instance of the job is publishing.",
)
@click.option(
    "--consumer-dump",
    type=parameters.PATH,
    metavar="FILE",
    help="Compare the state of a consumer with the documents, too: JSON lines with object, attribute "
    "and values.",
)
@click.option(
    "--to",
    "target",
    metavar="FILE.html",
    type=parameters.PATH,
    help="Also write a page with the result; an existing file is replaced.",
)
@click.option(
    "--repair", is_flag=True, help="Publish the differences, except those of unsettled objects."
)
@click.option(
    "--baseline",
    is_flag=True,
    help="With --repair: also publish rows that were never published, and expired ones.",
)
@parameters.dry_run_option("With --repair: show what would be published.")
@parameters.database
@parameters.schema
@parameters.engine
@parameters.ledger_of_job
@parameters.report_form
def verify(
    config: Path,
    target: Path | None,
    repair: bool,
    baseline: bool,
    dry_run: bool,
    json_: bool,
    **options: Any,
) -> None:
    """Compare the published documents of a job with its tables.

    It folds all documents that consumers can read into objects, and compares these objects with the tables,
    by key and attribute.  It writes nothing without --repair.
    """
    from publisher.runs.verify import VerifyRequest
    from publisher.runs.verify import verify as run_verification

    if (baseline or dry_run) and not repair:
        raise click.UsageError("--baseline and --dry-run need --repair: add it, or leave them out")
    of_comparison = {name: options.pop(name) for name in _OF_COMPARISON}
    if repair and (of_comparison["consumer_dump"] or target):
        text = "--repair excludes --consumer-dump and --to: verify again after the repair"
        raise click.UsageError(text)
    settings = parameters.load_settings_to_publish(config, **options)
    request = VerifyRequest(settings, **of_comparison)
    if not repair:
        _show(run_verification(request), json_, target)
    elif dry_run:
        _show_rehearsal(run_verification(request), json_, baseline=baseline)
    else:
        _repair(request, json_, baseline=baseline)


def _show(report: VerifyReport, json_: bool, target: Path | None) -> None:
    """Prints a report, and writes its page.  Raises ``FindingsError`` if something is wrong."""
    from publisher.cli import output
    from publisher.ledger.durable import write_report
    from publisher.reports.verify_page import render_verification

    if target is not None:
        write_report(target, render_verification(report, datetime.now(UTC)))

    if json_:
        echo_json([output.as_json(report)])
    else:
        echo(_text(report))
    if report.outcome.has_findings:
        raise FindingsError(_advice(report.outcome))


def _advice(
    outcome: BucketOutcome, remedy: str = "compare the examples, then repair with --repair"
) -> str:
    from publisher.verify.compare import FINDINGS

    if outcome.is_consumer_wrong:
        return "the consumer differs from the documents: let it read the documents again"
    if outcome.conflicting:
        return (
            "one event id names several documents, which consumers refuse: find out which job or program "
            "wrote them, and let consumers skip the wrong ones"
        )
    if outcome.unreadable_rows and not (outcome.count(FINDINGS) or outcome.unreadable):
        return _UNREADABLE_ROWS
    return f"the documents differ from the tables: {remedy}"


def _text(report: VerifyReport) -> Iterator[str]:
    outcome = report.outcome
    yield f"job {report.job}: {outcome.documents:,} documents in {report.sink}"
    if outcome.repeated:
        yield f"  repeated   {outcome.repeated:,} documents, which consumers ignore"
    if outcome.unreadable:
        yield f"  unreadable {outcome.unreadable:,} documents"
        for document in outcome.unreadable_examples:
            yield f"    {document.place}: {document.problem}"
    if outcome.conflicting:
        yield f"  conflicting {outcome.conflicting:,} documents with the event id of another document"
        for document in outcome.conflicting_examples:
            yield f"    {document.place}: {document.problem}"
    for text in report.hidden:
        yield f"  unsettled  {text}: differences count when it has ended, so verify again then"
    for table in outcome.tables:
        yield from _table_text(table)
    for name, count in outcome.uncompared.items():
        yield f"{name or 'other associations'}: {count:,} published objects, no table to compare with"
    if outcome.consumer is not None:
        yield f"consumer: {_counts_text(outcome.consumer.equal, outcome.consumer.counts)}"
        for example in outcome.consumer.examples:
            yield from _example_text(example)


def _counts_text(equal: int, counts: Mapping[str, int]) -> str:
    from publisher.verify.results import LABELS

    named = [f"{counts[kind]:,} {label}" for kind, label in LABELS.items() if kind in counts]
    return ", ".join([f"{equal:,} equal", *named])


def _table_text(table: TableResult) -> Iterator[str]:
    yield f"{table.table}: {_counts_text(table.equal, table.counts)}"
    if table.attributes:
        names = sorted(table.attributes, key=lambda name: (-table.attributes[name], name))
        yield f"  attributes {', '.join(f'{name} {table.attributes[name]:,}' for name in names)}"
    if table.unwritable:
        yield f"  unwritable {table.unwritable:,} values that no document can have"
    if table.unreadable_rows:
        yield f"  unreadable {table.unreadable_rows:,} rows without a usable key or value"
        yield from (f"    {detail}" for detail in table.unreadable_examples)
    if table.orphans:
        yield f"  orphaned   {table.orphans:,} rows of child tables without a row of their parent"
    for example in table.examples:
        yield from _example_text(example)


def _example_text(example: Example) -> Iterator[str]:
    from publisher.verify.results import LABELS

    place = f", last document {example.place}" if example.place else ""
    yield f"  {LABELS[example.kind]}: {example.association}{place}"
    for values in example.attributes:
        yield f"    {values.attribute}: {_values(values.documents)} instead of {_values(values.table)}"


def _values(values: tuple[str, ...]) -> str:
    return ", ".join(values) or "(none)"


def _repair(request: VerifyRequest, json_: bool, *, baseline: bool) -> None:
    from publisher.cli import output
    from publisher.cli.progress import show_progress
    from publisher.runs.repair import repair as run_repair

    with show_progress() as progress:
        report = run_repair(request, baseline=baseline, progress=progress)
    if json_:
        echo_json([output.as_json(report)])
    else:
        echo(_text(report.verification))
        echo(["nothing to repair"] if report.run is None else output.run_text(report.run))
    if report.run is not None and report.run.rejected:
        raise FindingsError(
            f"{report.run.rejected:,} differences were rejected: explain them, correct the rows, then repair"
            " again"
        )
    if report.verification.outcome.unreadable_rows:
        raise FindingsError(f"{_UNREADABLE_ROWS}, then repair again")
    if report.verification.outcome.unreadable or report.verification.outcome.conflicting:
        raise FindingsError(
            "documents are unreadable or conflicting, and a repair cannot remove them: consumers must skip "
            "them"
        )


def _show_rehearsal(report: VerifyReport, json_: bool, *, baseline: bool) -> None:
    """Prints what a repair would publish.  Raises ``FindingsError`` if something is wrong."""
    from publisher.cli import output
    from publisher.runs.repair import rehearse_repair
    from publisher.verify.results import LABELS

    rehearsal = rehearse_repair(report, baseline=baseline)
    if json_:
        echo_json([output.as_json(rehearsal)])
    else:
        echo(_text(report))
        kinds = (f"{count:,} {LABELS[kind]}" for kind, count in rehearsal.to_publish.items())
        echo([f"to publish: {', '.join(kinds) or 'nothing'}"])
    if report.outcome.has_findings:
        raise FindingsError(_advice(report.outcome, "repair without --dry-run"))
