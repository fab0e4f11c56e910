"""``xds-publisher explain``: explains the outcome of a change, or the origin of a document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json
from publisher.errors import UsageError

if TYPE_CHECKING:
    from publisher.dispatch.kafka.options import KafkaOptions
    from publisher.reports.explain import RecordStory


@command(
    "explain out/ 4711", "explain -c hr.toml idu=1", "explain -c hr.toml --document people:3:1207"
)
@click.argument("words", metavar="[LEDGER] [POSITION|KEY]", nargs=-1)
@click.option(
    "--document",
    metavar="TOPIC:PARTITION:OFFSET|FILE:LINE",
    help="Explain the records of the document at this place.",
)
@parameters.config
@parameters.ledger_of_job
@parameters.report_form
def explain(
    words: tuple[str, ...],
    document: str | None,
    config: Path | None,
    ledger: Path | None,
    json_: bool,
) -> None:
    """Explain the outcome of a change, or the origin of a document.

    It shows the record, the outcome with its reason, the document and its place; with -c also records that
    are rows of a database.  LEDGER is the ledger of a run, a directory that replay wrote, or the ledger
    directory of a job, whose runs are all searched; leave it out with -c.  Name the change by its position
    (4711), its event id, a key (idu=1) or an association (idu=1,table=usr,schema=indirect).  With --document,
    name no change: the record at an offset is read from the brokers of the job file, or of the ledger.
    """
    from publisher.cli import output
    from publisher.reports.source_rows import with_rows

    options = settings = None
    rest = list(words)
    if config is not None:
        settings = parameters.load_settings(config, ledger=ledger)
        options = settings.kafka if settings.kafka.brokers else None
        rest.insert(0, str(settings.ledger_folder))
    stories = with_rows(_stories(rest, document, options), settings)
    if json_:
        echo_json([output.as_json(stories)])
    else:
        echo(output.stories_text(stories))


def _stories(
    words: list[str], document: str | None, options: KafkaOptions | None
) -> list[RecordStory]:
    """Explains a change (``words`` are ledger and change) or a document (they are the ledger)."""
    if document is None:
        from publisher.reports.explain import explain as explain_change

        if len(words) != 2:
            raise UsageError("name a ledger (or a job file with -c), then a position or a key")
        return explain_change(Path(words[0]), words[1])
    from publisher.reports.explain_document import explain_line, explain_offset
    from publisher.reports.places import FilePlace, parse_place

    place = parse_place(document)
    if isinstance(place, FilePlace):
        return explain_line(place)
    if len(words) != 1:
        raise UsageError("name the ledger (or a job file with -c) that has the document")
    return explain_offset(Path(words[0]), place, options)
