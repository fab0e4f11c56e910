"""Rows in Spark: ``mapInArrow``, ``repartitionById``, ``mapInArrow``; each chain is one job."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from publisher.console import Phase, Progress
from publisher.engine.contract import Apply, Batches, Packing, Result, list_rows
from publisher.engine.garbage import collect_rarely
from publisher.engine.spark.progress import report_progress
from publisher.engine.spark.task_errors import decode_errors, encode_errors
from publisher.model.packed_batches import compress, decompress

Tasks = Callable[[Batches], Batches]
Parts = Callable[[Batches], Iterator[tuple[int, Batches]]]
"""Finds the partitions, with their rows, among the batches that Spark gives to one task."""
_FACTS = "number long, facts binary"
_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Implements ``engine.contract.Rows``."""

    spark: SparkSession
    name: str
    frame: DataFrame
    partitions: int
    parts: Parts
    phases: tuple[Phase, ...] = (Phase.READING, Phase.PLANNING)
    total: int | None = None
    """Number of items that progress shows; ``None``: that of tasks."""

    def exchange(self, packing: Packing, partitions: int, folder: Path | None = None) -> SparkRows:  # noqa: ARG002
        """See ``Rows.exchange``; Spark keeps its files where it wants."""
        parts = self.parts

        def pack(batches: Batches) -> Batches:
            collect_rarely()
            with encode_errors():
                for _, rows in parts(batches):
                    yield from packing.pack(rows)

        def unpack(batches: Batches) -> Iterator[tuple[int, Batches]]:
            batches = (batch for batch in batches if batch.num_rows)
            first = next(batches, None)
            if first is not None:
                number = int(first.column(packing.column)[0].as_py())
                yield number, packing.unpack(chain([first], batches))

        packed = self.frame.mapInArrow(pack, from_arrow_schema(packing.schema))
        moved = packed.repartitionById(partitions, packing.column)
        if packing.order:
            moved = moved.sortWithinPartitions(*packing.order)
        return replace(self, frame=moved, partitions=partitions, parts=unpack)

    def apply(self, task: Apply) -> SparkRows:
        """See ``Rows.apply``."""
        parts = self.parts

        def applied(batches: Batches) -> Iterator[tuple[int, Batches]]:
            for number, rows in parts(batches):
                yield number, iter(task(number, rows))

        return replace(self, parts=applied)

    def gather(
        self, task: Callable[[int, Batches], Result], progress: Progress | None = None
    ) -> list[Result]:
        """See ``Rows.gather``: the results are those of the attempts that Spark counts as successful.

        Raises:
            PublisherError: The error of a task.
        """
        parts = self.parts

        def gather(batches: Batches) -> Batches:
            collect_rarely()
            with encode_errors():
                for number, rows in parts(batches):
                    facts = compress(pa.py_buffer(pickle.dumps(task(number, rows))))
                    yield pa.RecordBatch.from_pydict({"number": [number], "facts": [facts]})

        with (
            _describe(self.spark, self.name),
            decode_errors(),
            report_progress(self.spark, progress, self.phases, self.total),
        ):
            rows = self.frame.mapInArrow(gather, _FACTS).collect()
        results = {
            int(row[0]): pickle.loads(decompress(pa.py_buffer(bytes(row[1]))))  # noqa: S301 - of our tasks
            for row in rows
        }
        # Spark does not call the function for an empty partition
        return [
            results[number] if number in results else task(number, iter(()))
            for number in range(self.partitions)
        ]

    def as_frame(self, columns: StructType) -> DataFrame:
        """Returns the rows as a DataFrame, whose tasks run when an action needs them."""
        parts = self.parts

        def run(batches: Batches) -> Batches:
            with encode_errors():
                for _, rows in parts(batches):
                    yield from rows

        return self.frame.mapInArrow(run, columns)

    def collect(self) -> list[pa.RecordBatch]:
        """See ``Rows.collect``."""
        return list(chain.from_iterable(self.gather(list_rows)))


@contextmanager
def _describe(spark: SparkSession, name: str) -> Iterator[None]:
    """Names the jobs of the block; those of the session's owner keep their names."""
    context = spark.sparkContext
    before: Any = context.getLocalProperty(_DESCRIPTION)  # None: no name
    context.setLocalProperty(_DESCRIPTION, name)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


def read_rows(
    spark: SparkSession, count: int, read: Callable[[int], Batches], name: str
) -> SparkRows:
    """The rows of numbered splits, each read in a task of its own."""

    def parts(batches: Batches) -> Iterator[tuple[int, Batches]]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield number, read(number)

    return SparkRows(spark, name, spark.range(0, count, 1, max(1, count)), count, parts)
