"""The Spark engine: one session, started when the first operation needs it."""

# ruff: noqa: PLC0415 - commands that need no Spark must not load it

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from publisher.console import Phase, Progress
from publisher.engine.contract import InputSize, Item, Result
from publisher.engine.spark.options import SparkOptions
from publisher.model.engine_use import EngineUse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from publisher.engine.spark.rows import SparkRows


class SparkEngine:
    """Implements ``engine.contract.Engine`` in one Spark session, which ends with the block.

    The context of a ``given`` session stays."""

    repeats_tasks = True

    def __init__(
        self,
        options: SparkOptions,
        reason: str = "set by engine",
        given: SparkSession | None = None,
    ) -> None:
        self.use = EngineUse("spark", reason)
        self._options = options
        self._given = given
        self._stack = ExitStack()
        self._spark: SparkSession | None = None
        self.seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def is_started(self) -> bool:
        """True if the JVM runs."""
        return self._spark is not None

    def stop(self) -> None:
        """Ends the session and its JVM; a later operation starts them again."""
        try:
            self._stack.close()
        finally:
            self._spark = None

    def rest(self) -> None:
        """See ``Engine.rest``: a job that chooses Spark keeps it."""

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """See ``Engine.expect``: Spark takes input of any size."""

    def read(
        self,
        splits: Sequence[Item],
        decode: Callable[[Item], Iterable[pa.RecordBatch]],
        name: str,
    ) -> SparkRows:
        """See ``Engine.read``."""
        spark, splits = self._session(), tuple(splits)
        from publisher.engine.spark.rows import read_rows

        return read_rows(spark, len(splits), lambda number: iter(decode(splits[number])), name)

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        name: str,
        *,
        rows: int = 0,
        progress: Progress | None = None,
    ) -> list[Result]:
        """See ``Engine.map``."""
        if not items:
            return []
        items = tuple(items)
        numbers = self.read(items, _nothing, name)
        numbers = replace(numbers, phases=(Phase.SENDING,), total=rows or None)
        return numbers.gather(lambda number, _: task(items[number]), progress)

    def _session(self) -> SparkSession:
        if self._spark is None:
            started = time.monotonic()
            from publisher.engine.spark.package_shipping import ship
            from publisher.engine.spark.session import spark_session, use_existing

            if self._given is not None:
                self._spark = use_existing(self._given, self._options)
            else:
                self._spark = self._stack.enter_context(spark_session(self._options))
            ship(self._spark)
            self.seconds += time.monotonic() - started
        return self._spark


def _nothing(_: object) -> tuple[pa.RecordBatch, ...]:
    """Reads no rows: a task of ``map`` gets its item."""
    return ()
