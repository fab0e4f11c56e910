"""Spark's daemon of Python workers, as the program has it, with marks around what tasks do."""

from __future__ import annotations

import time
from typing import Any

from publisher.dispatch.kafka import lane_sender
from publisher.engine import tasks
from publisher.engine.spark import worker_daemon
from tests.chaos.marks import TRANSACTION, during, mark, while_read

NETWORK_SECONDS = 0.03
"""A batch takes so long to the brokers, so that a kill can hit an open transaction."""


def main() -> None:
    """Marks, then serves as the program's own does."""
    tasks.read_split = while_read("read", tasks.read_split)
    tasks.plan_lane = during("plan", tasks.plan_lane)
    sender: Any = lane_sender.ExactlyOnceSender
    produce, commit = sender.produce, lane_sender.commit

    def produce_slowly(self: Any, producer: Any, batch: Any) -> None:
        produce(self, producer, batch)
        mark("+", TRANSACTION)
        time.sleep(NETWORK_SECONDS)

    def commit_with_mark(producer: Any, timeout: float) -> None:
        commit(producer, timeout)
        mark("-", TRANSACTION)

    sender.produce = produce_slowly
    lane_sender.commit = commit_with_mark
    worker_daemon.main()


if __name__ == "__main__":
    main()
