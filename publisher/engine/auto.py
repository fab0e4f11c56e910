"""The engine that chooses for each run: Spark for input beside which its start is short, otherwise local."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Self

from publisher.console import Progress
from publisher.engine.contract import Engine, InputSize, Item, Result, Rows
from publisher.engine.local import LocalEngine
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions, missing_for_spark
from publisher.model.engine_use import EngineUse

if TYPE_CHECKING:
    import pyarrow as pa

SMALL = InputSize(rows=20_000_000, bytes=3_000_000_000)
"""Maximum input of a run without Spark: as far as the local engine was measured to be faster."""
KEEP_SECONDS = 600.0
"""Seconds after its last use at which Spark ends."""


class AutoEngine:
    """Implements ``engine.contract.Engine`` with two engines; Spark starts when a run first needs it."""

    def __init__(
        self,
        options: SparkOptions,
        small: InputSize = SMALL,
        clock: Callable[[], float] = time.monotonic,
        spark: SparkEngine | None = None,
    ) -> None:
        """``clock`` returns seconds; ``spark`` is the engine for large input, by default a new one."""
        self._small = small
        self._clock = clock
        self._has_used_spark = False
        """True if Spark was used since the last call of ``rest``."""
        self._last_use = 0.0
        self._local = LocalEngine()
        self._spark = spark or SparkEngine(options)
        self._engine: Engine = self._local
        self.use = EngineUse("local", "no input yet")

    @property
    def seconds(self) -> float:
        """See ``Engine.seconds``."""
        return self._spark.seconds

    @property
    def repeats_tasks(self) -> bool:
        """See ``Engine.repeats_tasks``."""
        return self._engine.repeats_tasks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._local.__exit__(*exc)
        self._spark.__exit__(*exc)

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """See ``Engine.expect``: chooses the engine of the run."""
        size = measure()
        is_large = size.exceeds(self._small)
        missing = missing_for_spark() if is_large else None
        if is_large and missing is None:
            self._engine, self.use = self._spark, EngineUse("spark", f"large input, {size}")
            self._has_used_spark = True
            return
        kind = "small input" if missing is None else f"{missing}, large input"
        self._engine, self.use = self._local, EngineUse("local", f"{kind}, {size}")
        self._local.expect(lambda: size)

    def rest(self) -> None:
        """See ``Engine.rest``: ends Spark ``KEEP_SECONDS`` after its last use."""
        self._local.rest()
        if self._has_used_spark:
            self._has_used_spark, self._last_use = False, self._clock()
        elif self._spark.is_started and self._clock() - self._last_use >= KEEP_SECONDS:
            self._spark.stop()

    def read(
        self,
        splits: Sequence[Item],
        decode: Callable[[Item], Iterable[pa.RecordBatch]],
        name: str,
    ) -> Rows:
        """See ``Engine.read``."""
        return self._engine.read(splits, decode, name)

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
        return self._engine.map(task, items, name, rows=rows, progress=progress)
