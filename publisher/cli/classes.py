"""``xds-publisher classes``: shows the classes that a job publishes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json


@command("classes -c hr.toml")
@parameters.config_required
@parameters.database
@parameters.schema
@parameters.report_form
def classes(config: Path, json_: bool, **overrides: Any) -> None:
    """Show the classes of a job: keys, attributes, child tables and references.

    Tables that are part of no class are shown with the reason.
    """
    from publisher.cli import output
    from publisher.reports.classes import describe_classes

    found = list(describe_classes(parameters.load_settings(config, **overrides)))
    if json_:
        echo_json([output.as_json(found)])
    else:
        echo(output.classes_text(found))
