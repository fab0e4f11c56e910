"""``xds-publisher acknowledge``: ends a run whose statuses cannot be written to its own table."""

from __future__ import annotations

from pathlib import Path

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json, echo_notes


@command("acknowledge -c hr.toml --run hr-000042 --abandon")
@parameters.config_required
@click.option("--run", "run", metavar="RUN", required=True, help="The run that the error names.")
@click.option(
    "--abandon",
    is_flag=True,
    required=True,
    expose_value=False,
    help="Write no statuses, because the table or database is gone, and count the run as done.",
)
@parameters.ledger_of_job
@parameters.dry_run_option("Count the statuses that would be written, and write nothing.")
@parameters.report_form
def acknowledge(
    config: Path,
    run: str,
    ledger: Path | None,
    dry_run: bool,
    json_: bool,
) -> None:
    """End a run whose statuses cannot be written.

    The documents of such a run were sent, but its source now names another database or table, or is
    gone from the job file, so publish stops.  If that is a mistake, correct the job file instead.
    """
    from publisher.cli import output
    from publisher.config.job_file import Overrides, load_to_publish
    from publisher.runs.job import open_job
    from publisher.runs.rehearse import rehearse_acknowledgement

    settings = load_to_publish(config, Overrides(ledger=ledger))
    if dry_run:
        report = rehearse_acknowledgement(settings, run)
    else:
        with open_job(settings) as job:
            report = job.abandon(run)
    rows = ", ".join(f"{letter} {count:,}" for letter, count in report.statuses.items())
    if json_:
        echo_json([output.as_json(report)])
    elif dry_run:
        echo([f"run {run} would be done; statuses to write: {rows or 'none'}"])
    else:
        echo([f"run {run} is done; statuses written: {rows or 'none'}"])
    echo_notes(report.notes)
