"""Marks around what tasks do, in Spark's workers and in the driver of the local engine."""

from __future__ import annotations

import time
from typing import Any

from publisher.dispatch.kafka import lane_sender
from publisher.formats import work
from publisher.runs import plan_lane
from publisher.runs import run as spine
from tests.chaos.marks import TRANSACTION, during, mark, while_read

OPEN_SECONDS = 0.03
"""Minimum time for which a transaction stays open after the brokers have its records, to be hit by kills."""
_PATIENCE = 5.0
"""Maximum seconds to wait for the brokers."""


def mark_tasks() -> None:
    """Replaces the functions of tasks by functions that set marks."""
    modules: tuple[Any, ...] = (work, spine)
    read_split = while_read("read", work.read_split)
    for module in modules:
        module.read_split = read_split
    lane_plan: Any = plan_lane.LanePlan
    lane_plan.add = during("plan", lane_plan.add)
    lane_plan.close = during("plan", lane_plan.close)
    sender: Any = lane_sender.LaneSender
    produce, commit = sender.produce, lane_sender.commit

    def produce_slowly(self: Any, producer: Any, batch: Any) -> None:
        produce(self, producer, batch)
        deadline = time.monotonic() + _PATIENCE
        while len(producer) and time.monotonic() < deadline:
            producer.poll(0.01)
        mark("+", TRANSACTION)
        time.sleep(OPEN_SECONDS)

    def commit_with_mark(producer: Any, timeout: float) -> None:
        commit(producer, timeout)
        mark("-", TRANSACTION)

    sender.produce = produce_slowly
    lane_sender.commit = commit_with_mark
