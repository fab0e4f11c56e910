"""Builds per-poll reports from cumulative counters."""

from __future__ import annotations

from publisher.ledger.conservation import RunReport
from publisher.observing.contract import Poll
from publisher.runs.lane_sending import LaneSending


class PollRecorder:
    """Turns run reports into polls, with the transactions and retries of each."""

    def __init__(self, sending: LaneSending) -> None:
        self._sending = sending
        self._transactions, self._retries = sending.transactions, sending.retries

    def poll(
        self,
        report: RunReport,
        seconds: float | None = None,
        waiting: int | None = None,
        oldest: float | None = None,
    ) -> Poll:
        """Builds the poll of a run; without ``seconds`` the report's own seconds count.  See ``Poll``."""
        transactions, retries = self._sending.transactions, self._sending.retries
        poll = Poll(
            report,
            sum(report.seconds.values()) if seconds is None else seconds,
            waiting,
            oldest,
            transactions - self._transactions,
            retries - self._retries,
        )
        self._transactions, self._retries = transactions, retries
        return poll
