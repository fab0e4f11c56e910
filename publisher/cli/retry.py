"""``xds-publisher retry``: resets failed rows of an event log, so that they are published again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.command import command
from publisher.cli.print_report import echo, echo_json, echo_notes
from publisher.errors import UsageError

if TYPE_CHECKING:
    from publisher.acknowledge.retry import RecordedRun, RetryReport, RetrySelection
    from publisher.config.settings import Settings, SourceSettings


@command("retry -c hr.toml --reason no-database")
@parameters.config_required
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="REASON",
    shell_complete=parameters.complete_reason,
    help="Reset rows that failed for this reason, such as no-database; repeatable.",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="[SCHEMA.]NAME",
    help="Reset rows about this table; repeatable.",
)
@click.option(
    "--position",
    "positions",
    multiple=True,
    metavar="POSITION",
    help="Reset the row with this record_id; repeatable.",
)
@click.option("--source", "name", metavar="NAME", help="Reset rows of this source only.")
@parameters.ledger_of_job
@parameters.dry_run_option("Count the rows that would be reset, and change none.")
@parameters.report_form
def retry(
    config: Path,
    reasons: tuple[str, ...],
    tables: tuple[str, ...],
    positions: tuple[str, ...],
    name: str | None,
    ledger: Path | None,
    dry_run: bool,
    json_: bool,
) -> None:
    """Reset rows with status E or F to N.

    The next publish reads them again, so fix the cause first.  Without options all rows with E or F are
    reset, otherwise only rows that match every option.  --reason and --table need the ledger of the run:
    use --position for rows of runs whose ledger are deleted.
    """
    from publisher.acknowledge.retry import retry as reset_rows
    from publisher.config.job_file import Overrides, load

    settings = load(config, Overrides(ledger=ledger))
    selection = _selection(reasons, tables, positions)
    reports = []
    for source in _sources(settings, name):
        assert source.table is not None
        assert source.database is not None
        runs = _runs(settings, source)
        options = source.event_log
        corrected = _corrected(settings, source)
        result = reset_rows(
            *(source.database, source.table, options, selection, runs),
            corrected=corrected,
            dry_run=dry_run,
        )
        reports.append({"source": source.name, "table": source.table, "rows": result.rows})
        if not json_:
            done = "to reset" if dry_run else "reset"
            echo([f"{source.name}: rows of {source.table} {done} to N: {result.rows:,}"])
        echo_notes(_notes(source.name, selection, result))
    if json_:
        echo_json([json.dumps(reports, indent=2)])


def _notes(source: str, selection: RetrySelection, result: RetryReport) -> Iterator[str]:
    if result.others:
        yield (
            f"{source}: {result.others:,} record id(s) now belong to other rows, which keep their status"
        )
    if result.corrected:
        yield (
            f"{source}: rows {', '.join(map(str, result.corrected))} keep their status: rejects --retry has "
            "published their corrected records; to publish newer values, log them as new changes"
        )
    unknown = sorted(selection.reasons - result.reasons)
    if unknown:
        known = ", ".join(sorted(result.reasons)) or "none"
        yield f"no record failed for {', '.join(unknown)}; known reasons: {known}"


def _selection(
    reasons: tuple[str, ...], tables: tuple[str, ...], positions: tuple[str, ...]
) -> RetrySelection:
    from publisher.acknowledge.retry import RetrySelection
    from publisher.formats.event_log.source import position_of
    from publisher.formats.positions import parse_position

    parsed = [parse_position(text, position_of) for text in positions]
    for text, position in zip(positions, parsed, strict=True):
        if position.part:
            raise UsageError(
                f"--position {text} names a record of a file: write the record_id of a row"
            )
    return RetrySelection(
        frozenset(reasons), frozenset(tables), frozenset(position.high for position in parsed)
    )


def _sources(settings: Settings, name: str | None) -> list[SourceSettings]:
    """Lists the event logs in databases whose rows can be reset.

    Raises ``UsageError`` if there are none.
    """
    from publisher.runs.inputs import choose_sources

    live = [source for source in settings.sources if source.has_status and source.database]
    return choose_sources(settings, live, name, "is an event log in a database")


def _corrected(settings: Settings, source: SourceSettings) -> set[int]:
    """Reads the ids of rows whose corrected records ``rejects --retry`` has published."""
    from publisher.ledger.read import scan_kept_runs
    from publisher.runs.rejects import read_corrected_ids

    assert source.table is not None
    return read_corrected_ids(
        partial(scan_kept_runs, settings.ledger_folder), source.name, source.table
    )


def _runs(settings: Settings, source: SourceSettings) -> Iterator[RecordedRun]:
    """Yields the runs of the job that read this source, oldest first.

    Omits small runs that have no failed records.
    """
    from publisher.acknowledge.retry import RecordedRun
    from publisher.acknowledge.status_letters import refused_documents
    from publisher.dispatch.refusals import refusals_in
    from publisher.ledger.job import Ledger
    from publisher.ledger.read import Wanted, read_runs

    ledger = Ledger(settings.ledger_folder, settings.name)
    for kept in read_runs(ledger, Wanted(failed=True)):
        refused = refused_documents(refusals_in(kept.texts))
        for number, entry in enumerate(kept.manifest.sources):
            if (entry.name, entry.table) == (source.name, source.table):
                yield RecordedRun(kept.with_rows(), kept.manifest, number, refused)
