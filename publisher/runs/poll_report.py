"""What observers are told of runs: an engine's counts grow from one run to the next."""

from __future__ import annotations

from publisher.engine.spark.engine import Engine
from publisher.journal.conservation import RunReport
from publisher.observing.contract import Poll


class Polled:
    """Makes polls of runs, one after the other, with what the engine has sent for each."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._transactions, self._retries = engine.transactions, engine.retries

    def poll(
        self,
        report: RunReport,
        seconds: float | None = None,
        waiting: int | None = None,
        oldest: float | None = None,
    ) -> Poll:
        """The poll that a run was; without ``seconds`` it took what its report says.  For the rest
        see ``Poll``."""
        transactions, retries = self._engine.transactions, self._engine.retries
        taken = sum(report.seconds.values()) if seconds is None else seconds
        poll = Poll(
            report,
            taken,
            waiting,
            oldest,
            transactions - self._transactions,
            retries - self._retries,
        )
        self._transactions, self._retries = transactions, retries
        return poll
