"""``xds-publisher check``: checks the settings, the inputs and the sink of a job."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json, echo_notes
from publisher.console import is_terminal
from publisher.errors import FindingsError

if TYPE_CHECKING:
    from publisher.config.settings import Settings


@command("check -c hr.toml")
@parameters.config_required
@parameters.database
@parameters.schema
@parameters.ledger_of_job
@parameters.report_form
def check(config: Path, json_: bool, **overrides: Any) -> None:
    """Check a job without writing anything.

    It checks the settings, the files, the database, and that documents and ledger can be written.
    """
    from publisher.cli import output
    from publisher.reports.check import check as findings_of
    from publisher.reports.classes import keyed_child_notes

    findings = []
    settings = parameters.load_settings_to_publish(config, **overrides)
    for finding in findings_of(settings):
        findings.append(finding)
        if not json_:  # one by one: some checks take seconds
            echo(output.checks_text([finding]))
    if any(finding.what == "classes" and finding.ok for finding in findings):
        echo_notes(keyed_child_notes(settings))
    if json_:
        echo_json([output.as_json(findings)])
    problems = sum(not finding.ok for finding in findings)
    if problems:
        raise FindingsError(
            f"{problems} of {len(findings)} checks failed: correct them, then check again"
        )
    if is_terminal() and not json_:
        echo([f"{len(findings)} checks passed; next: {_next_command(settings, config)}"])


def _next_command(settings: Settings, config: Path) -> str:
    """The command that publishes the job: continuously, if it has a table and settings that allow it."""
    from publisher.config.publish_problems import publish_problems

    is_live = not all(source.snapshots for source in settings.sources)
    follow = "--follow " if is_live and not list(publish_problems(settings, follows=True)) else ""
    return f"xds-publisher publish {follow}-c {shlex.quote(str(config))}"
