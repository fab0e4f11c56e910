"""Sends the lanes of runs in tasks of an engine, and counts what that took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from publisher.console import Progress
from publisher.engine.contract import Engine

if TYPE_CHECKING:
    from publisher.dispatch.kafka.lane_sender import LaneSendReport, LaneSendTask


@dataclass
class LaneSending:
    """Sends lanes; ``transactions`` and ``retries`` are those of all calls."""

    engine: Engine
    progress: Progress | None = None
    transactions: int = 0
    retries: int = 0

    def __call__(self, lanes: Sequence[LaneSendTask]) -> list[LaneSendReport]:
        """Sends each lane in a task of its own; a repeated task continues after the token."""
        documents = sum(lane.total for lane in lanes)
        name = f"send {len(lanes)} lanes"
        reports = self.engine.map(_send, lanes, name, rows=documents, progress=self.progress)
        self.transactions += sum(report.transactions for report in reports)
        self.retries += sum(report.retries for report in reports)
        return reports


def _send(lane: LaneSendTask) -> LaneSendReport:
    return lane.send()
