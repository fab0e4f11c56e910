"""Reads ledger and published documents into DataFrames."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession

from publisher.consumer.files import part_files
from publisher.dataframes.frames import documents_frame, ledger_frame, operations_column
from publisher.engine.spark.session import check_session
from publisher.ledger.conservation import RunReport
from publisher.ledger.read import scan_runs
from publisher.ledger.tables import DOCUMENTS, LOOKUPS, RECORDS

PathName = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class LedgerTables:
    """A ledger: the tables of one run, or of all kept runs of a job."""

    records: DataFrame
    """One row for each change and each other record, with its outcome."""
    documents: DataFrame
    """One row for each document, with its text."""
    lookups: DataFrame
    """One row for each object that a query-back looked up."""
    report: RunReport | None = None
    """The run in numbers, if ``plan`` made it."""

    def create_views(self, prefix: str = "") -> None:
        """Creates the temporary views ``records``, ``documents`` and ``lookups`` for SQL.

        ``prefix`` is put before their names.

        >>> ledger(spark, "out").create_views("xds_")
        >>> spark.sql("SELECT position, reason FROM xds_records WHERE outcome = 'rejected'").show()
        +--------+---------+
        |position|   reason|
        +--------+---------+
        |       5|table-key|
        +--------+---------+
        """
        for name in ("records", "documents", "lookups"):
            getattr(self, name).createOrReplaceTempView(prefix + name)


def ledger(spark: SparkSession, path: PathName) -> LedgerTables:
    """Opens a ledger: of a run, of the output directory of a replay, or of all kept runs of a job.

    The DataFrames show the runs that the ledger has now.  If a publisher moves or deletes runs in the
    meantime, open the ledger again.

    >>> tables = ledger(spark, "out")
    >>> tables.documents.select("event_id", "operation", "association").show(truncate=False)
    +------------------------------+---------+--------------------------------+
    |event_id                      |operation|association                     |
    +------------------------------+---------+--------------------------------+
    |event-log@d93ed2f2d3b6ea06.1:1|add      |idu=1,table=usr,schema=indirect |
    |event-log@d93ed2f2d3b6ea06.1:3|modify   |idu=01,table=usr,schema=indirect|
    |event-log@d93ed2f2d3b6ea06.1:4|modify   |idu=2,table=usr,schema=indirect |
    |event-log@d93ed2f2d3b6ea06.1:6|delete   |idu=1,table=usr,schema=indirect |
    +------------------------------+---------+--------------------------------+

    Raises:
        UsageError: There is no ledger with a complete run.
        FatalError: The ledger is damaged, or another version of the program wrote it.
        SettingsError: The program cannot work in the session.
    """
    return tables_of(check_session(spark), Path(path).absolute())


def tables_of(spark: SparkSession, path: Path, report: RunReport | None = None) -> LedgerTables:
    """Opens a ledger, with the report of its run if it is known."""
    parts = list(scan_runs(path))
    records, documents, lookups = (
        ledger_frame(spark, parts, table) for table in (RECORDS, DOCUMENTS, LOOKUPS)
    )
    return LedgerTables(records, documents, lookups, report)


def read_documents(spark: SparkSession, paths: PathName | Iterable[PathName]) -> DataFrame:
    """Reads published documents from files, XML or JSON, with their operations.

    A directory is that of a replay, or the sink of a job, of which all complete runs are read.  Rows have no
    order; sort by ``file`` and ``line``.  A document that cannot be used ends the action with an error.

    >>> read = read_documents(spark, "out")
    >>> found = read.selectExpr("line", "inline(operations)")
    >>> found.select("line", "kind", "changes.attribute", "changes.value").show(truncate=False)
    +----+------+--------------+------------------------+
    |line|kind  |attribute     |value                   |
    +----+------+--------------+------------------------+
    |1   |add   |[fname, lname]|[Jack, Frost]           |
    |2   |modify|[lname, lname]|[Frost, O'Hara & "Sons"]|
    |3   |modify|[fname]       |[NULL]                  |
    |4   |delete|[]            |[]                      |
    +----+------+--------------+------------------------+

    Raises:
        ConsumerError: A directory has no complete run.
        SettingsError: The program cannot work in the session.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    files = chain.from_iterable(map(_files_of, map(Path, listed)))
    return documents_frame(check_session(spark), [str(file.absolute()) for file in files])


def _files_of(path: Path) -> list[Path]:
    return part_files(path) if path.is_dir() else [path]


def operations(document: Column | str) -> Column:
    """Returns the operations of documents in a column, for instance of values of a topic.

    >>> tables = ledger(spark, "out")
    >>> tables.documents.where("records = '6'").select(operations("text").kind.alias("kinds")).show()
    +--------+
    |   kinds|
    +--------+
    |[delete]|
    +--------+
    """
    return operations_column(document)
