"""``xds-publisher report``: writes a page about runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json


@command("report -c hr.toml", "report out/ --to out.html")
@click.argument("ledgers", metavar="[LEDGER...]", nargs=-1, type=parameters.PATH)
@click.option(
    "--to",
    "target",
    metavar="FILE.html",
    type=parameters.PATH,
    default="report.html",
    show_default=True,
    help="File to write; an existing one is replaced.",
)
@parameters.config
@parameters.ledger_of_job
@parameters.report_form
def report(
    ledgers: tuple[Path, ...],
    target: Path,
    config: Path | None,
    ledger: Path | None,
    json_: bool,
) -> None:
    """Write a page about runs: where every record went.

    The page shows outcomes and reasons, documents over time, rejected records, tables, lanes and times,
    and the history of objects.  It is one file that needs no network, and contains personal data.  Each
    LEDGER is the ledger of a run, a directory that replay wrote, or the ledger directory of a job; with
    -c it is the job's.
    """
    from publisher.cli import output
    from publisher.console import counts_text
    from publisher.ledger.durable import check_report_target, write_report
    from publisher.reports.page.build import build_report

    directories = parameters.ledger_directories(ledgers, config, ledger)
    check_report_target(target)
    built = build_report(directories, datetime.now(UTC))
    write_report(target, built.page)
    if json_:
        echo_json([output.as_json(built.overview)])
    else:
        view = built.overview
        is_same = view.rejected_now == view.outcomes["rejected"]
        now = "" if is_same else f" ({view.rejected_now:,} now)"
        counts = f"{counts_text(view.outcomes)}{now}"
        echo([f"{target}: {view.runs:,} run(s), {view.read:,} records, {counts}"])
