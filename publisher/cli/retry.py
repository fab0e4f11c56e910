"""``xds-publisher retry``: rows of an event log that failed are to be published after all."""

# ruff: noqa: PLC0415 - --help answers at once

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from publisher.cli import parameters
from publisher.cli.print_report import echo
from publisher.errors import UsageError

if TYPE_CHECKING:
    from publisher.acknowledge.retry import Run, Selection
    from publisher.config.settings import Settings, SourceSettings


@click.command()
@parameters.config_required
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    metavar="REASON",
    help="Rows that failed for this reason, as no-database; may be given again.",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="[SCHEMA.]NAME",
    help="Rows that speak of this table; may be given again.",
)
@click.option(
    "--position",
    "positions",
    multiple=True,
    metavar="POSITION",
    help="The row with this record_id; may be given again.",
)
@click.option("--source", "name", metavar="NAME", help="Rows of this source only.")
@parameters.journal_of_job
def retry(
    config: Path,
    reasons: tuple[str, ...],
    tables: tuple[str, ...],
    positions: tuple[str, ...],
    name: str | None,
    journal: Path | None,
) -> None:
    """Give rows with status E or F back to N, after the cause is mended.

    All of them, or those that fit all that is said.  Reasons and tables are found in the job's
    journals, so rows of runs whose journals are gone can be named by position only.
    """
    from publisher.acknowledge.retry import retry as retried
    from publisher.config.job_file import Overrides, load

    settings = load(config, Overrides(journal=journal))
    selection = _selection(reasons, tables, positions)
    for source in _sources(settings, name):
        assert source.table is not None
        assert source.database is not None
        runs = _runs(settings, source)
        done = retried(source.database, source.table, source.event_log, selection, runs)
        echo([f"{source.name}: rows of {source.table} that are N again: {done.rows:,}"])
        if done.others:
            what = f"{done.others:,} record id(s) stand for other rows now, which were left alone"
            echo([f"note: {source.name}: {what}"], err=True)
        unknown = sorted(selection.reasons - done.reasons)
        if unknown:
            known = ", ".join(sorted(done.reasons)) or "none"
            said = ", ".join(unknown)
            echo([f"note: no record failed for {said}; reasons there are: {known}"], err=True)


def _selection(
    reasons: tuple[str, ...], tables: tuple[str, ...], positions: tuple[str, ...]
) -> Selection:
    from publisher.acknowledge.retry import Selection
    from publisher.sources.event_log.source import position_of
    from publisher.sources.positions import parse_position

    found = [parse_position(text, position_of) for text in positions]
    for text, position in zip(positions, found, strict=True):
        if position.part:
            raise UsageError(f"--position {text}: is in a file; name a row by its record_id")
    return Selection(
        frozenset(reasons), frozenset(tables), frozenset(position.high for position in found)
    )


def _sources(settings: Settings, name: str | None) -> list[SourceSettings]:
    """The event logs in databases that are meant.  Raises ``UsageError`` where there is none."""
    live = [source for source in settings.sources if source.has_status and source.database]
    found = [source for source in live if name in (None, source.name)]
    if not found:
        names = ", ".join(source.name for source in live) or "none"
        wanted = f" {name}" if name is not None else ""
        raise UsageError(
            f"job {settings.name} has no source{wanted} that is an event log in a database; "
            f"there are: {names}"
        )
    return found


def _runs(settings: Settings, source: SourceSettings) -> Iterator[Run]:
    """The runs of the job that read this source, oldest first."""
    from publisher.acknowledge.retry import Run
    from publisher.acknowledge.status_letters import refused_of
    from publisher.dispatch.refusals import records
    from publisher.journal.job_journals import Journals

    for journal, manifest in Journals(settings.journals, settings.name).planned():
        refusals = [entry for record in records(journal.root) for entry in record.refusals]
        for number, entry in enumerate(manifest.sources):
            if (entry.name, entry.table) == (source.name, source.table):
                yield Run(journal, manifest, number, refused_of(refusals))
