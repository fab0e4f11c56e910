"""Migration: rows of compared tables are published as new, as a first comparison does it with all."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from publisher.config.settings import Settings, SourceSettings
from publisher.engine.spark.engine import Engine, Progress
from publisher.errors import UsageError
from publisher.journal.conservation import RunReport
from publisher.runs.notes import notes_of, with_notes
from publisher.runs.pending_tables import narrowed
from publisher.runs.publisher_instance import Publishing
from publisher.sources.triggerless.input_files import files_by_table
from publisher.sources.triggerless.plan_comparison import Migration

RESUMED = "that was this migration: nothing more is sent; start it again to migrate anew"


def migrate(
    settings: Settings,
    migration: Migration,
    name: str | None = None,
    *,
    now: datetime | None = None,
    progress: Progress | None = None,
) -> RunReport:
    """Publishes rows as new, of the source ``name`` or of all that compare tables.

    What an earlier start has planned and not sent is sent first; where that was this migration, that is
    all.

    Raises:
        SettingsError: The job file lacks something that publishing needs.
        PublisherError: See ``errors``.
    """
    settings = settings.for_publish()
    sources = _sources(settings, migration, name)
    with Engine(settings.spark) as engine:
        engine.warm_up()
        with Publishing(settings, engine, progress) as job:
            resumed = job.has_unsent(migration)
            done = job.finish()
            if resumed:
                return with_notes(done[-1], [*notes_of(done), RESUMED])
            report = job.migrate(sources, migration, now)
            job.expire()
    return with_notes(report, notes_of(done))


def _sources(settings: Settings, migration: Migration, name: str | None) -> list[SourceSettings]:
    """The sources, with the tables that are migrated."""
    compared = [source for source in settings.sources if source.compared is not None]
    chosen = [source for source in compared if name in (None, source.name)]
    if not chosen:
        there = ", ".join(source.name for source in compared) or "none"
        raise UsageError(
            f"job {settings.name} has no source{f' {name}' if name else ''} that compares tables; there"
            f" are: {there}"
        )
    found = [_narrowed(source, migration) for source in chosen]
    left = [source for source in found if source.reads]
    if not left:
        raise UsageError(f"no source compares a table {', '.join(migration.tables)}: mend --table")
    return left


def _narrowed(source: SourceSettings, migration: Migration) -> SourceSettings:
    options = source.compared
    assert options is not None
    wanted = {table.casefold() for table in migration.tables}

    def asked(table: str) -> bool:
        return not wanted or table.casefold() in wanted

    if not source.snapshots:
        return replace(
            source, options=replace(options, tables=tuple(filter(asked, options.tables)))
        )
    found = files_by_table(source.snapshots, options)
    return narrowed(source, {t: files for t, files in found.items() if asked(t) and files})
