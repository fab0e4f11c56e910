"""The Spark engine: one session, started when the first operation needs it."""

# ruff: noqa: PLC0415 - commands that need no Spark must not load it

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from publisher.console import Progress
from publisher.engine.contract import InputSize
from publisher.engine.spark.options import SparkOptions
from publisher.ledger.conservation import EngineUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
    from publisher.engine.survey import SurveyWork
    from publisher.engine.tasks import Work
    from publisher.ledger.lane_result import LaneResult
    from publisher.sources.task_runner import ShuffleWork


class SparkEngine:
    """Implements ``engine.contract.Engine`` in one Spark session, which ends with the block.

    The context of a ``given`` session stays."""

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
        self.transactions = self.retries = 0

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

    def warm_up(self, rows: int = 0) -> None:
        """Does nothing: the first operation starts Spark."""

    def stop_idle_processes(self) -> None:
        """Ends nothing: a job that chooses Spark keeps it."""

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """Does nothing: Spark takes input of any size."""

    def plan(
        self, work: Work, *, staging: Path, documents: Path, progress: Progress | None = None
    ) -> list[LaneResult]:
        """See ``Engine.plan``."""
        spark = self._session()
        from publisher.engine.spark.plan_job import plan_in_lanes

        return plan_in_lanes(spark, work, staging=staging, documents=documents, progress=progress)

    def survey(self, work: SurveyWork) -> list[Any]:
        """See ``Engine.survey``."""
        spark = self._session()
        from publisher.engine.spark.survey_job import survey_in_tasks

        return survey_in_tasks(spark, work)

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """See ``Engine.shuffle``."""
        spark = self._session()
        from publisher.engine.spark.shuffle_job import shuffle_in_tasks

        return shuffle_in_tasks(spark, work)

    def send(
        self, lanes: Sequence[LaneSendTask], progress: Progress | None = None
    ) -> list[LaneSendReport]:
        """See ``Engine.send``."""
        if not lanes:
            return []
        spark = self._session()
        from publisher.engine.spark.send_job import send_lanes

        results = send_lanes(spark, lanes, progress)
        self.transactions += sum(lane.transactions for lane in results)
        self.retries += sum(lane.retries for lane in results)
        return results

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
