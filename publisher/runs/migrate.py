"""Migration: publishes rows of compared tables as new, as the first comparison does with all rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from publisher.config.settings import Settings, SourceSettings
from publisher.console import Progress
from publisher.errors import UsageError
from publisher.formats.contract import ComparingSource
from publisher.formats.migration import Migration
from publisher.formats.registry import FORMATS
from publisher.ledger.conservation import RunReport
from publisher.ledger.job import Ledger
from publisher.ledger.manifest import Manifest
from publisher.ledger.runs import LedgerRun
from publisher.runs.inputs import choose_sources
from publisher.runs.job import open_job
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.prepare import RunRequest
from publisher.runs.rehearse import (
    check_takeover,
    rehearse_sources,
    report_planned_run,
    unsent_notes,
)

RESUMED = (
    "an earlier start had planned this migration, and it was sent now; start it again to repeat it"
)
PLANNED_BEFORE = "an earlier start had planned this migration: only the planned runs would be sent"


def migrate(
    settings: Settings,
    migration: Migration,
    name: str | None = None,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> RunReport:
    """Publishes rows as new, of the source ``name`` or of all sources that compare tables.

    Runs that an earlier start planned but did not send are sent first; if one of them was this
    migration, nothing else is sent.  With ``dry_run`` nothing is published.

    Raises:
        SettingsError: The job file lacks something that publishing needs.
        PublisherError: See ``errors``.
    """
    settings = settings.for_publish()
    sources = _sources(settings, migration, name)
    ledger = Ledger(settings.ledger_folder, settings.name)
    if dry_run:
        check_takeover(settings, ledger)
        planned = _planned_run(ledger.unsent_runs(), migration)
        if planned is not None:
            return with_notes(report_planned_run(planned), [*unsent_notes(ledger), PLANNED_BEFORE])
        return rehearse_sources(
            settings, ledger, sources, RunRequest.for_sources, now=now, progress=progress
        )
    with open_job(settings, progress) as job:
        planned = _planned_run(ledger.unsent_runs(), migration)
        finished = job.finish()
        if planned is not None:
            return with_notes(finished[-1], [*notes_of(finished), RESUMED])
        report = job.publish_sources(sources, now)
        job.expire()
    return with_notes(report, notes_of(finished))


def _planned_run(
    runs: Iterable[tuple[LedgerRun, Manifest]], migration: Migration
) -> Manifest | None:
    """Finds the run of this migration that an earlier start planned, but did not send completely."""
    for ledger_run, manifest in runs:
        for entry in manifest.sources:
            state = ledger_run.state(entry.name)
            reader = FORMATS[entry.format].restore(entry.options, entry.reading)
            if (
                isinstance(reader, ComparingSource)
                and state is not None
                and reader.has_migrated(state, migration)
            ):
                return manifest
    return None


def _sources(settings: Settings, migration: Migration, name: str | None) -> list[SourceSettings]:
    """Selects the sources to migrate, each with its tables to migrate."""
    compared = [source for source in settings.sources if source.descriptor.compares]
    selected = choose_sources(settings, compared, name, "compares tables")
    narrowed = [_with_migrated_tables(source, migration) for source in selected]
    sources = [source for source in narrowed if source.reads]
    if not sources:
        raise UsageError(
            f"no source compares a table {', '.join(migration.tables)}: correct --table"
        )
    return sources


def _with_migrated_tables(source: SourceSettings, migration: Migration) -> SourceSettings:
    comparison = source.comparison
    assert comparison is not None
    requested = {table.casefold() for table in migration.tables}
    names = comparison.table_names(source.snapshots)
    tables = [name for name in names if not requested or name.casefold() in requested]
    return source.with_input(comparison.with_migration(migration).only(source.snapshots, tables))
