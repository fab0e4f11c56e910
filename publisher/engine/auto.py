"""The engine that chooses for each run: local for input that is known to be small, otherwise Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from publisher.console import Progress
from publisher.engine.contract import Engine, InputSize
from publisher.engine.local.engine import ONE_PROCESS, LocalEngine, OutgrownError
from publisher.engine.spark.engine import SparkEngine
from publisher.engine.spark.options import SparkOptions
from publisher.ledger.conservation import EngineUse

if TYPE_CHECKING:
    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
    from publisher.engine.survey import SurveyWork
    from publisher.engine.tasks import Work
    from publisher.ledger.lane_result import LaneResult
    from publisher.sources.task_runner import ShuffleWork

SMALL = InputSize(rows=20_000_000, bytes=3_000_000_000)
"""Maximum input of a run without Spark: as far as the local engine was measured to be faster."""
_GROWTH = 8
"""Ratio of the bytes of records to those of their files at which a run in one process moves to Spark."""
KEEP_SECONDS = 600.0
"""Seconds after its last use at which Spark ends."""
_OUTGROWN = "the input turned out to be large"


class AutoEngine:
    """Implements ``engine.contract.Engine`` with two engines; Spark starts when a run first needs it.

    A run whose input turns out to be large moves to Spark before anything is committed.  Both engines
    write the same bytes."""

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
        """True if Spark was used since the last call of ``stop_idle_processes``."""
        self._last_use = 0.0
        self._local = LocalEngine(max_bytes=_GROWTH * min(small.bytes, ONE_PROCESS.bytes))
        self._spark = spark or SparkEngine(options)
        self._engine: Engine = self._local
        self.use = EngineUse("local", "no input yet")

    @property
    def seconds(self) -> float:
        """See ``Engine.seconds``."""
        return self._spark.seconds

    @property
    def transactions(self) -> int:
        """See ``Engine.transactions``."""
        return self._local.transactions + self._spark.transactions

    @property
    def retries(self) -> int:
        """See ``Engine.retries``."""
        return self._local.retries + self._spark.retries

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._local.__exit__(*exc)
        self._spark.__exit__(*exc)

    def warm_up(self, rows: int = 0) -> None:
        """See ``Engine.warm_up``: never starts Spark, as the number of rows is an estimate."""
        if rows <= self._small.rows:
            self._local.warm_up(rows)

    def stop_idle_processes(self) -> None:
        """See ``Engine.stop_idle_processes``: ends Spark ``KEEP_SECONDS`` after its last use."""
        self._local.stop_idle_processes()
        if self._has_used_spark:
            self._has_used_spark, self._last_use = False, self._clock()
        elif self._spark.is_started and self._clock() - self._last_use >= KEEP_SECONDS:
            self._spark.stop()

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """See ``Engine.expect``: chooses the engine of the run."""
        size = measure()
        if size.exceeds(self._small):
            self._use_spark(f"large input, {size}")
        else:
            self._engine, self.use = self._local, EngineUse("local", f"small input, {size}")
            self._local.expect(lambda: size)

    def survey(self, work: SurveyWork) -> list[Any]:
        """See ``Engine.survey``."""
        return self._engine.survey(work)

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``Engine.shuffle``."""
        try:
            return self._engine.shuffle(work)
        except OutgrownError:
            return self._use_spark(_OUTGROWN).shuffle(work)

    def plan(
        self, work: Work, *, staging: Path, documents: Path, progress: Progress | None = None
    ) -> list[LaneResult]:
        """See ``Engine.plan``."""
        try:
            return self._engine.plan(work, staging=staging, documents=documents, progress=progress)
        except OutgrownError:
            spark = self._use_spark(_OUTGROWN)
            return spark.plan(work, staging=staging, documents=documents, progress=progress)

    def send(
        self, lanes: Sequence[LaneSendTask], progress: Progress | None = None
    ) -> list[LaneSendReport]:
        """See ``Engine.send``: chooses by the number of documents."""
        is_small = sum(lane.total for lane in lanes) <= self._small.rows
        return self._engine_for(is_small=is_small).send(lanes, progress)

    def _engine_for(self, *, is_small: bool) -> Engine:
        """Returns the engine of one operation; the engine of the run does not change."""
        self._has_used_spark |= not is_small
        return self._local if is_small else self._spark

    def _use_spark(self, reason: str) -> SparkEngine:
        """Makes Spark the engine of the run."""
        self._has_used_spark = True
        self._engine, self.use = self._spark, EngineUse("spark", reason)
        return self._spark
