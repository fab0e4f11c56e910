"""Changes, ledger and documents as DataFrames in a user's session; tasks read when an action needs rows.

Columns have their descriptions as comments, which ``DESCRIBE`` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from publisher.consumer.errors import NOWHERE
from publisher.engine.spark.package_shipping import ship
from publisher.engine.spark.rows import read_rows
from publisher.engine.spark.task_errors import encode_errors
from publisher.formats.work import Work, read_split
from publisher.ledger.parts import LedgerPart
from publisher.ledger.tables import RunTable
from publisher.runs.relate_groups import relate_groups
from publisher.tables.change_rows import change_rows
from publisher.tables.columns import (
    CHANGES,
    OPERATION_TYPE,
    READ_DOCUMENTS,
    TableColumn,
)
from publisher.tables.document_rows import operation_lists, read_document_file
from publisher.tables.ledger_rows import LEDGER_TABLES, read_part

_PARTS_OF_CORE = 4
"""Greatest number of tasks for each core; a task may read several small parts."""


def changes_frame(spark: SparkSession, work: Work) -> DataFrame:
    """The records of a source; a task reads one split, or relates rows that depend on each other."""
    ship(spark)
    rows = read_rows(spark, len(work.splits()), partial(read_split, work), "read changes")
    records = relate_groups(rows, work, work.shared)
    return records.apply(partial(change_rows, work)).as_frame(_struct_of(CHANGES))


def ledger_frame(spark: SparkSession, parts: Sequence[LedgerPart], table: RunTable) -> DataFrame:
    """A table of a ledger; a task reads some of its parts."""

    def read(number: int) -> Iterator[pa.RecordBatch]:
        return read_part(parts[number], table)

    return _frame(spark, read, len(parts), LEDGER_TABLES[table.name])


def documents_frame(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """The documents of files; a task reads some of them."""

    def read(number: int) -> Iterator[pa.RecordBatch]:
        return read_document_file(paths[number])

    return _frame(spark, read, len(paths), READ_DOCUMENTS)


def _frame(
    spark: SparkSession,
    read: Callable[[int], Iterable[pa.RecordBatch]],
    count: int,
    columns: Sequence[TableColumn],
) -> DataFrame:
    ship(spark)
    limit = _PARTS_OF_CORE * spark.sparkContext.defaultParallelism
    numbers = spark.range(0, count, 1, max(1, min(count, limit)))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with encode_errors():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from read(number)

    return numbers.mapInArrow(run, _struct_of(columns))


def _struct_of(columns: Sequence[TableColumn]) -> StructType:
    return StructType(
        [
            StructField(name, from_arrow_type(type_), metadata={"comment": description})
            for name, type_, description in columns
        ]
    )


def operations_column(document: Column | str) -> Column:
    """The operations of the documents in a column of texts or bytes; null for null."""
    ship(SparkSession.active())
    column = F.col(document) if isinstance(document, str) else document

    def parse_all(documents: pa.Array) -> pa.Array:  # in here it travels to tasks by value
        with encode_errors():
            return operation_lists((NOWHERE, text) for text in documents.to_pylist())

    parse = arrow_udf(parse_all, from_arrow_type(pa.list_(OPERATION_TYPE)))  # type: ignore[call-overload]
    parsed: Column = parse(column.cast("string"))
    return parsed
