"""Checks whether a job can run: settings, inputs, databases, sink and ledger.  Writes nothing."""

# ruff: noqa: PLC0415 - only a check of executors needs Spark, and only a check of Kafka needs its client

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from publisher.config.settings import Settings, SourceSettings
from publisher.database.connection import Database, fatal_errors
from publisher.database.connection_cache import keep_connections
from publisher.database.options import DatabaseOptions
from publisher.database.resources import Resources
from publisher.dispatch.files import refuse_foreign_runs
from publisher.engine.spark.options import conf_of, is_local, missing_for_spark
from publisher.errors import FatalError, PublisherError, of_system
from publisher.formats.columns.object_names import split_name
from publisher.formats.contract import ComparingSource
from publisher.ledger import storage
from publisher.ledger.job import RUNS, Ledger
from publisher.model.names import find_name
from publisher.model.view_names import find_variant
from publisher.reports.classes import summarize_classes
from publisher.runs.inputs import new_files
from publisher.runs.job_sink import check_sink
from publisher.runs.sample import sample_of, sample_text, tables_to_sample
from publisher.triggers import TableRef
from publisher.triggers.compare import compare_triggers
from publisher.triggers.installed import can_examine, functions_of_owners, unsafe_functions
from publisher.xds.document import Envelope

_ENGINE_WITHOUT_SPARK = (
    "runs of any size work on this machine's cores; to use Spark, install PySpark and Java 17"
)


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of one check; ``detail`` describes the finding, or the problem and what to do."""

    what: str
    ok: bool
    detail: str


def check(settings: Settings) -> Iterator[CheckFinding]:
    """Checks the parts of a job; continues after failures.  Asks a sink at the same time as the sources."""
    with keep_connections(), ThreadPoolExecutor(1, thread_name_prefix="sink") as thread:
        sink = thread.submit(_check_sink, settings)
        yield from _check_sources(settings)
        yield from sink.result()
    yield _run_check("ledger", partial(_ledger_run, settings))
    if settings.run.engine != "local" and (missing := missing_for_spark()) is not None:
        needs_spark = settings.run.engine == "spark"
        yield CheckFinding("engine", not needs_spark, f"{missing}: {_ENGINE_WITHOUT_SPARK}")
        return
    master = conf_of(settings.spark)["spark.master"]
    if not is_local(master):
        yield _run_check(f"executors of {master}", partial(_executors, settings))


def _check_sources(settings: Settings) -> Iterator[CheckFinding]:
    yield CheckFinding("settings", True, f"job {settings.name}, {len(settings.sources)} source(s)")
    yield _run_check("envelope", partial(_envelope, settings))
    failed: dict[DatabaseOptions, str] = {}
    if settings.database is not None:
        finding = _run_check("database", partial(_database, settings.database))
        yield finding
        if not finding.ok:
            failed[settings.database] = finding.what
        else:
            if settings.tables:
                yield _run_check("tables", partial(_tables, settings))
            if any(settings.rules.have_classes(source.format) for source in settings.sources):
                yield _run_check("classes", partial(summarize_classes, settings))
    for source in settings.sources:
        what = f"source {source.name}"
        needs_database = source.table is not None or source.compares_database
        if needs_database and source.database in failed:
            yield CheckFinding(what, False, f"not checked: see {failed[source.database]}")
            continue
        finding = _run_check(what, partial(_source, settings, source))
        yield finding
        if finding.ok:
            for part in tables_to_sample(source):
                yield _run_check(_sample_name(part), partial(_sample, settings, part))
            yield from _check_triggers(source)


def _check_sink(settings: Settings) -> list[CheckFinding]:
    """Returns the finding on the sink; none if the job has no sink."""
    if settings.sink.to == "kafka":
        return [_run_check("sink", partial(_kafka, settings))]
    if settings.sink.path is not None:
        return [_run_check("sink", partial(_files, settings, settings.sink.path))]
    return []


def _run_check(what: str, work: Callable[[], str]) -> CheckFinding:
    try:
        return CheckFinding(what, True, work())
    except PublisherError as error:
        return CheckFinding(what, False, str(error))
    except OSError as error:
        return CheckFinding(what, False, of_system(error).message)


def _envelope(settings: Settings) -> str:
    Envelope(settings.envelope)
    return f"dtdversion {settings.envelope.dtdversion}"


def _source(settings: Settings, source: SourceSettings) -> str:
    if source.table is not None:
        assert source.database is not None
        with Database(source.database) as database:
            source.reader.fits(database)
            _refuse_other_table(settings, source)
            return f"table {source.table} of {database.name} has the required columns"
    if source.comparison is not None:
        return _compared_tables(settings, source, source.comparison)
    # like publish, refuses published files that have changed
    new_files(settings, source, Ledger(settings.ledger_folder, settings.name).published_files())
    splits = source.reader.splits(source.snapshots, 1)
    size = sum(split.size for split in splits)
    return f"{len({split.path for split in splits})} file(s), {size:,} bytes"


def _refuse_other_table(settings: Settings, source: SourceSettings) -> None:
    """Refuses a change table that differs from its mark, as ``publish`` does."""
    state = Ledger(settings.ledger_folder, settings.name).state_of(source.name)
    if not source.has_status and state is not None:
        with closing(source.backlog()) as backlog:
            backlog.count(state)


def _sample_name(source: SourceSettings) -> str:
    """The name of a sample, with the table if tables of a database are compared."""
    comparison = source.comparison
    tables = comparison.table_names(()) if comparison and source.compares_database else ()
    return ", ".join([f"sample of {source.name}", *(f"table {name}" for name in tables)])


def _sample(settings: Settings, source: SourceSettings) -> str:
    """Reads a sample of the files to publish, of all files if none is new, or of the table."""
    if source.table is None and not source.compares_database:
        paths = source.reader.files(source.snapshots)
        if not source.descriptor.compares:
            published = Ledger(settings.ledger_folder, settings.name).published_files()
            paths = new_files(settings, source, published) or paths
        source = replace(source, snapshots=tuple(paths))
    sample = sample_of(settings, source)
    if sample.records and sample.rejected == sample.records:
        raise FatalError(
            f"all of the first {sample.records:,} record(s) are rejected, the first at "
            f"{sample.first_reject}: check that format and settings of the source fit its content"
        )
    return sample_text(sample)


def _check_triggers(source: SourceSettings) -> Iterator[CheckFinding]:
    """Checks that triggers of ``ddl`` fit the tables, with no more rights than they need."""
    if source.has_status and source.database is not None and source.table is not None:
        schema, name = split_name(source.table) or (None, source.table)
        with Database(
            replace(source.database, schema=None)
        ) as database:  # as ddl, without settings
            if can_examine(database):
                is_sqlite = database.engine.dialect.name == "sqlite"
                log = TableRef(None if is_sqlite else schema or source.database.schema, name)
                yield _run_check(f"triggers of {source.name}", partial(_triggers, database, log))


def _triggers(database: Database, log: TableRef) -> str:
    with fatal_errors(database, "Reading the triggers"):
        unsafe = unsafe_functions(database)
        if unsafe:
            raise FatalError(f"{'; '.join(unsafe)}: run xds-publisher ddl for these tables again")
        return "; ".join([compare_triggers(database, log), *functions_of_owners(database)])


def _compared_tables(
    settings: Settings, source: SourceSettings, comparison: ComparingSource
) -> str:
    with Resources(settings.rules) as resources:
        state = Ledger(settings.ledger_folder, settings.name).state_of(source.name)
        return comparison.describe_tables(
            source.snapshots,
            resources.catalogue_of(source.format),
            source.database,
            state,
            source.name,
        )


def _database(options: DatabaseOptions) -> str:
    with Database(options) as database:
        database.check_reachable()
        return f"{database.name} answers"


def _tables(settings: Settings) -> str:
    """Checks that the tables of the job file exist with their columns."""
    problems = []
    with Resources(replace(settings.rules, tables=())) as resources:
        for table in settings.tables:
            actual = resources.catalogue.table(table.schema, table.name)
            if actual is None:
                problems.append(f"table {table.name} does not exist")
                continue
            names = {*table.columns, *table.key, *table.padded}
            is_class = actual.view and settings.classes.enable_meta_identifiers
            find = find_variant if is_class else find_name
            unknown = sorted(name for name in names if find(name, actual.columns) is None)
            problems += [f"table {table.name} has no column {name}" for name in unknown]
    if problems:
        raise FatalError(f"{'; '.join(problems)}: correct [tables] of the job file")
    return f"the {len(settings.tables)} table(s) of the job file exist"


def _writable(path: Path) -> str:
    """Checks that the nearest existing directory is writable; creates nothing."""
    parent = _existing_folder(path)
    if not parent.is_dir():
        raise FatalError(f"{parent} is not a directory: name another path")
    if not os.statvfs(parent).f_blocks:
        raise FatalError(f"{parent} is a file system of the kernel: name another path")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise FatalError(
            f"{parent} is not writable: grant the right to write, or name another path"
        )
    return f"{path} can be written"


def _existing_folder(path: Path) -> Path:
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def _kafka(settings: Settings) -> str:
    """Checks settings of librdkafka, brokers and topics."""
    from publisher.dispatch.kafka.compare_tokens import refuse_foreign_tokens

    summary = check_sink(settings)
    refuse_foreign_tokens(settings.kafka, settings.name, _ledger(settings))
    return summary


def _files(settings: Settings, path: Path) -> str:
    refuse_foreign_runs(path.absolute() / RUNS, _ledger(settings))
    return _writable(path)


def _ledger_run(settings: Settings) -> str:
    _ledger(settings).check()
    writable = _writable(settings.ledgers)
    mode = storage.probe_disk(_existing_folder(settings.ledgers))
    return f"{writable}, {_JOURNALS[mode]}"


_JOURNALS = {
    "wal": "in WAL mode",
    "delete": "with a rollback journal, because its disk has no shared memory",
}


def _ledger(settings: Settings) -> Ledger:
    return Ledger(settings.ledger_folder, settings.name)


def _executors(settings: Settings) -> str:
    """Checks that executors run the program's package and see the ledger."""
    from publisher.engine.spark.package_shipping import probe, ship
    from publisher.engine.spark.session import spark_session

    with spark_session(settings.spark) as spark:
        count = probe(spark, ship(spark), ledger=settings.ledgers)
    return f"{count} executor(s) run this package and see {settings.ledgers}"
