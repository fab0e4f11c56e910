"""``xds-publisher explain``: explains the outcome of a change."""

# ruff: noqa: PLC0415 - heavy modules are imported late, so that --help answers at once

from __future__ import annotations

from pathlib import Path

import click

from publisher.cli import parameters
from publisher.cli.print_report import echo, echo_json
from publisher.engine.without_pandas import start_arrow_without_pandas


@click.command()
@click.argument("journal", type=parameters.PATH)
@click.argument("what", metavar="POSITION|KEY")
@parameters.report_as_json
def explain(journal: Path, what: str, json_: bool) -> None:
    """Explain the outcome of a change.

    It shows the record, the outcome with its reason, and the document.  JOURNAL is the journal of a
    run, a directory that replay wrote, or the journal directory of a job, whose runs are all searched.
    Name the change by its position (4711), its event id, a key (idu=1) or
    an association (idu=1,table=usr,schema=indirect).
    """
    start_arrow_without_pandas()
    from publisher.cli import output
    from publisher.reports.explain import explain as stories_of

    stories = stories_of(journal, what)
    if json_:
        echo_json([output.as_json(stories)])
    else:
        echo(output.stories_text(stories))
