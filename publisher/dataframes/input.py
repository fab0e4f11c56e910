"""Reads source files into DataFrames: their changes, or the documents of a run over them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from publisher.config.job_file import Overrides, load_to_read
from publisher.config.settings import Settings
from publisher.dataframes.frames import changes_frame
from publisher.dataframes.output import LedgerTables, tables_of
from publisher.dataframes.session import KEPT, engine_of, shared_folder
from publisher.formats.work import Work
from publisher.ledger.conservation import RunReport
from publisher.runs.prepare import SPLITS
from publisher.runs.prepare_reading import prepare_reading
from publisher.runs.replay import replay as run_replay

PathName = str | os.PathLike[str]
Job = PathName | Mapping[str, object]


def changes(
    spark: SparkSession,
    paths: PathName | Iterable[PathName],
    *,
    format: str | None = None,  # noqa: A002 - as in Spark's readers
    job: Job | None = None,
    database: str | None = None,
    scratch: PathName | None = None,
    **options: object,
) -> DataFrame:
    """Reads the records of files as changes in their normal form.

    A record that gives no change is a row, too: its ``outcome`` is ``ignored``, ``held`` or ``rejected``,
    with reason, detail and raw record.  Filters, precedence and query-backs belong to ``plan``; for
    ``masked=True`` see ``replay``.  Rows have no order; sort by ``part``, ``high``, ``low`` and ``ordinal``
    for that of the source.

    >>> log = changes(spark, "log.csv")
    >>> log.select("position", "key", "event_type", "columns", "new", "outcome").show()
    +--------+------+----------+-------+-----------------+--------+
    |position|   key|event_type|columns|              new| outcome|
    +--------+------+----------+-------+-----------------+--------+
    |       1| idu=1|         1|[fname]|           [Jack]|    NULL|
    |       2| idu=1|         1|[lname]|          [Frost]|    NULL|
    |       3|idu=01|         2|[lname]|[O'Hara & "Sons"]|    NULL|
    |       4| idu=2|         3|[fname]|           [NULL]|    NULL|
    |       6| idu=1|         4|     []|             NULL|    NULL|
    |       5|  NULL|      NULL|   NULL|             NULL|rejected|
    +--------+------+----------+-------+-----------------+--------+

    Raises:
        SettingsError: The settings are wrong, or the program cannot work in the session.
        PublisherError: The files cannot be used, see ``publisher.errors``.
    """
    masked = options.pop("masked", False)
    settings = _settings(format, job, database, options).with_masking(is_masked=bool(masked))
    tasks = max(SPLITS, spark.sparkContext.defaultParallelism)
    with engine_of(spark, settings) as engine:
        folder = shared_folder(spark, scratch)
        work = prepare_reading(settings, _paths(paths), engine, folder, KEPT, tasks)
    _warn(work)
    return changes_frame(spark, work)


def plan(
    spark: SparkSession,
    paths: PathName | Iterable[PathName],
    *,
    format: str | None = None,  # noqa: A002 - as in Spark's readers
    job: Job | None = None,
    database: str | None = None,
    now: datetime | None = None,
    scratch: PathName | None = None,
    **options: Any,
) -> LedgerTables:
    """Plans a run over files at once, and returns its ledger; publishes nothing.

    ``now`` is the time of the run, by default the current time; for ``masked=True`` see ``replay``.

    >>> planned = plan(spark, "log.csv")
    >>> planned.report.documents
    4
    >>> planned.records.where("outcome <> 'published'").select("position", "reason").show()
    +--------+---------+
    |position|   reason|
    +--------+---------+
    |       5|table-key|
    +--------+---------+

    Raises the errors of ``changes``.
    """
    target = shared_folder(spark, scratch) / "documents"
    report = replay(
        spark, paths, target, format=format, job=job, database=database, now=now, **options
    )
    return tables_of(spark, target, report)


def documents(
    spark: SparkSession, paths: PathName | Iterable[PathName], **settings: Any
) -> DataFrame:
    """Plans a run over files at once, and returns its documents: ``plan(...).documents``.

    >>> found = documents(spark, "log.csv", job={"run": {"lanes": 1}})
    >>> found.select("event_id", "operation", "records").show(truncate=False)
    +------------------------------+---------+-------+
    |event_id                      |operation|records|
    +------------------------------+---------+-------+
    |event-log@d93ed2f2d3b6ea06.1:1|add      |1,2    |
    |event-log@d93ed2f2d3b6ea06.1:3|modify   |3      |
    |event-log@d93ed2f2d3b6ea06.1:4|modify   |4      |
    |event-log@d93ed2f2d3b6ea06.1:6|delete   |6      |
    +------------------------------+---------+-------+

    Raises the errors of ``changes``.
    """
    return plan(spark, paths, **settings).documents


def replay(
    spark: SparkSession,
    paths: PathName | Iterable[PathName],
    target: PathName,
    *,
    format: str | None = None,  # noqa: A002 - as in Spark's readers
    job: Job | None = None,
    database: str | None = None,
    now: datetime | None = None,
    again: bool = False,
    **options: object,
) -> RunReport:
    """Publishes files once, to a directory or to topics (``kafka://HOST:PORT/TOPIC``), as the command does.

    With the same input and settings an interrupted replay resumes, and a finished one sends nothing;
    ``again`` resends everything, and ``masked=True`` masks values as ``[masking]`` of the job says.  A reject
    budget has no effect: see ``rejected`` of the report.

    >>> report = replay(spark, "log.csv", "out", job={"run": {"lanes": 1}})
    >>> report.state, report.documents, report.rejected
    ('published', 4, 1)

    Raises the errors of ``changes``.
    """
    masked = options.pop("masked", False)
    settings = _settings(format, job, database, options).with_masking(is_masked=bool(masked))
    files, engine = _paths(paths), engine_of(spark, settings)
    return run_replay(settings, files, os.fspath(target), now=now, again=again, engine=engine)


def _settings(
    format_: str | None, job: Job | None, database: str | None, options: Mapping[str, object]
) -> Settings:
    content = {} if job is None else job if isinstance(job, Mapping) else Path(job)
    return load_to_read(content, options, Overrides(format=format_, database=database))


def _warn(work: Work) -> None:
    for source in work.sources:
        for note in source.notes:
            warnings.warn(f"{source.name}: {note}", stacklevel=3)


def _paths(paths: PathName | Iterable[PathName]) -> list[Path]:
    return [Path(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
