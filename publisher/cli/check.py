"""``xds-publisher check``: checks the settings, the inputs and the sink of a job."""

# ruff: noqa: PLC0415 - heavy modules are imported late, so that --help answers at once

from __future__ import annotations

from pathlib import Path
from typing import Any

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json
from publisher.engine.start_arrow import defer_arrow
from publisher.errors import FindingsError


@command("check -c hr.toml")
@parameters.config_required
@parameters.database
@parameters.schema
@parameters.journal_of_job
@parameters.report_form
def check(config: Path, json_: bool, **overrides: Any) -> None:
    """Check a job without writing anything.

    It checks the settings, the files, the database, and that documents and journal can be written.
    """
    defer_arrow()
    from publisher.cli import output
    from publisher.reports.check import check as findings_of

    findings = []
    for finding in findings_of(parameters.load_settings_to_publish(config, **overrides)):
        findings.append(finding)
        if not json_:  # one by one: some checks take seconds
            echo(output.checks_text([finding]))
    if json_:
        echo_json([output.as_json(findings)])
    problems = sum(not finding.ok for finding in findings)
    if problems:
        raise FindingsError(
            f"{problems} of {len(findings)} checks failed: correct them, then check again"
        )
