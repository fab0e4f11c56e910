"""Contract of engines: the operations on splits and lanes that a run needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

if TYPE_CHECKING:
    from publisher.console import Progress
    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask
    from publisher.engine.survey import SurveyWork
    from publisher.engine.tasks import Work
    from publisher.ledger.conservation import EngineUse
    from publisher.ledger.lane_result import LaneResult
    from publisher.sources.task_runner import ShuffleWork

EngineName = Literal["auto", "spark", "local"]


@dataclass(frozen=True, slots=True)
class InputSize:
    """The size of the input of a run, as far as it is known before anything is read."""

    rows: int = 0
    """Rows of tables that are to be read."""
    bytes: int = 0
    """Approximate bytes of files after decompression, and of the state that earlier runs left."""

    def exceeds(self, limit: InputSize) -> bool:
        """Returns whether the rows or the bytes are above those of a limit."""
        return self.rows > limit.rows or self.bytes > limit.bytes

    def __str__(self) -> str:
        rows = [f"{self.rows:,} rows of tables"] if self.rows else []
        files = [f"{self.bytes / 1e6:,.2f} MB of files"] if self.bytes or not rows else []
        return " and ".join([*rows, *files])


class Engine(Protocol):
    """Runs the tasks of runs; a context manager that releases its processes at the end.

    Every operation raises the errors of its tasks."""

    @property
    def use(self) -> EngineUse:
        """The engine that works on the run announced by ``expect``."""

    @property
    def seconds(self) -> float:
        """Seconds spent on starting so far."""

    @property
    def transactions(self) -> int:
        """Number of transactions of all calls of ``send``."""

    @property
    def retries(self) -> int:
        """Number of retries of all calls of ``send``."""

    def __enter__(self) -> Self:
        """Returns the engine; starts nothing."""

    def __exit__(self, *exc: object) -> None:
        """Ends the processes of the engine."""

    def warm_up(self, rows: int = 0) -> None:
        """Starts slow processes in the background, if an input of about so many rows of tables needs them.

        May be called again, and in another thread; ``expect`` decides."""

    def stop_idle_processes(self) -> None:
        """Ends processes that no run has used for a while; called between runs.

        A run that needs them again starts them again."""

    def expect(self, measure: Callable[[], InputSize]) -> None:
        """Announces a run.  ``measure`` returns the size of its input, and may query a database."""

    def survey(self, work: SurveyWork) -> list[Any]:
        """Surveys the input of a source: returns the facts of all items, in their order."""

    def shuffle(self, work: ShuffleWork) -> list[str]:
        """Returns the results of all partitions, in any order."""

    def plan(
        self, work: Work, *, staging: Path, documents: Path, progress: Progress | None = None
    ) -> list[LaneResult]:
        """Reads all splits and plans all lanes; stages files, and commits nothing.

        All tasks must see the directories ``staging`` and ``documents``.  The results are in the order of
        lanes."""

    def send(
        self, lanes: Sequence[LaneSendTask], progress: Progress | None = None
    ) -> list[LaneSendReport]:
        """Sends lanes to a sink, each in a task of its own."""
